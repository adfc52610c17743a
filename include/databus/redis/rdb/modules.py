"""Values of modules: read past by the marks that modules write, and handed over as they are.

Source: Redis 7.0 `rdb.h` (RDB_MODULE_OPCODE), `module.c` (`moduleTypeEncodeId`: nine characters of six bits, and ten
bits of a version).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.primitives import corrupt, read_double, read_length, read_signed, read_string
from databus.redis.rdb.values import ModuleValue

_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_END, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _STRING = range(6)


def read_module(reader: ByteReader) -> ModuleValue:
    """Return a module's value, or what it keeps beside the keys (auxiliary fields begin with when they are read).

    Raises:
        RdbCorruptError: a part is of no known form.
    """
    identity = read_length(reader)
    name = "".join(_CHARACTERS[identity >> shift & 63] for shift in range(58, 4, -6))
    return ModuleValue(name, identity & 1023, tuple(_parts(reader)))


def _parts(reader: ByteReader) -> Iterator[int | float | bytes]:
    while (mark := read_length(reader)) != _END:
        if mark == _SIGNED:
            yield read_signed(reader)
        elif mark == _UNSIGNED:
            yield read_length(reader)
        elif mark == _FLOAT:
            yield struct.unpack("<f", reader.take(4))[0]
        elif mark == _DOUBLE:
            yield read_double(reader)
        elif mark == _STRING:
            yield read_string(reader)
        else:
            raise corrupt(reader, f"a module's value has a part of unknown form {mark}")
