"""DUMP payloads: one value as Redis' DUMP gives it and RESTORE takes it, also inside a replication stream.

Source: Redis 7.0 `cluster.c` (`createDumpPayload`, `verifyDumpPayload`): type, value, RDB version, CRC-64.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from databus.core.errors.redis import RdbCorruptError, RdbCutError, RdbUnknownError
from databus.redis.byte_reader import ByteReader, crc64
from databus.redis.rdb.file import NEWEST_VERSION
from databus.redis.rdb.objects import type_of
from databus.redis.rdb.values import Value

_TAIL = 10


@dataclass(frozen=True, slots=True)
class Dumped:
    """Value of a DUMP payload; fields as of `databus.redis.Key`."""

    kind: str
    encoding: str
    value: Value


def read_dump(payload: bytes, name: str = "payload") -> Dumped:
    """Return the value of a DUMP payload.

    Args:
        payload: as DUMP gives it.
        name: for messages, such as the key's.

    Raises:
        RdbError: it is cut, damaged, or of a newer version.
    """
    if len(payload) <= _TAIL:
        raise RdbCutError(f"{name}: a DUMP payload has more than {_TAIL} bytes, not {len(payload)}")
    version = int.from_bytes(payload[-10:-8], "little")
    if version > NEWEST_VERSION:
        raise RdbUnknownError(f"{name} is a DUMP payload of RDB version {version}")
    stored, computed = int.from_bytes(payload[-8:], "little"), crc64(payload[:-8])
    if stored and stored != computed:
        raise RdbCorruptError(f"{name}: the checksum is {computed:016x}, the payload says {stored:016x}")
    reader = ByteReader(io.BytesIO(payload[:-_TAIL]).read, name)
    kind = type_of(reader, reader.byte())
    found = Dumped(kind.kind, kind.encoding, kind.read(reader))
    if not reader.at_end():
        raise RdbCorruptError(f"{name}: bytes follow its value at byte {reader.place}")
    return found
