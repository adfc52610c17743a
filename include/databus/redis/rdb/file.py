"""RDB file reader: keys one after the other, what stands beside them, and the checksum at the end.

Source: Redis 7.0 `rdb.c` (`rdbLoadRioWithLoadingCtx`, `rdbSaveRio`).
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from databus.core.errors.redis import RdbCorruptError, RdbError, RdbUnknownError
from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.objects import read_module, type_of
from databus.redis.rdb.primitives import corrupt, read_length, read_milliseconds, read_seconds, read_string
from databus.redis.rdb.values import Key, ModuleValue

NEWEST_VERSION = 10
"""RDB version of Redis 7.0."""

_SUMMED_FROM = 5
_FUNCTION, _FUNCTION_PRE, _MODULE_AUX, _IDLE, _FREQUENCY, _AUX, _RESIZE = 245, 246, 247, 248, 249, 250, 251
_EXPIRES_MS, _EXPIRES_S, _SELECT, _END = 252, 253, 254, 255


class RdbReader:
    """Keys of an RDB file, read once, in the file's order; memory is that of the largest value.

    Attributes:
        version: RDB version of the file.
        fields: what the server wrote about itself, such as "redis-ver", "repl-id", "repl-offset", "repl-stream-db".
        functions: code of the server's function libraries.
        module_fields: what modules keep beside the keys.
        checked: whether the file had a checksum, and it was right; False before the end.
    """

    def __init__(self, reader: ByteReader):
        """Read the file's head, and the fields that stand before the keys.

        Raises:
            RdbCutError: the file ends early.
            RdbCorruptError: it is no RDB file.
            RdbUnknownError: its version is newer than 10.
        """
        self._reader = reader
        self.fields: dict[str, bytes] = {}
        self.functions: list[bytes] = []
        self.module_fields: list[ModuleValue] = []
        self.checked = False
        reader.begin_sum()
        head = reader.take(9)
        if not head.startswith(b"REDIS") or not head[5:].isdigit():
            raise corrupt(reader, f"it begins with {head!r}, which is no RDB file")
        self.version = int(head[5:])
        if not 1 <= self.version <= NEWEST_VERSION:
            raise RdbUnknownError(f"{reader.name} is an RDB file of version {self.version}")
        while (code := reader.byte()) == _AUX:
            self._read_beside(code)
        self._keys = self._read_keys(code)
        self._failed: RdbError | None = None

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys that were not read yet.

        Raises:
            RdbCutError: the file ends early.
            RdbCorruptError: it contradicts itself, or its checksum. Keys before that came out: use them when the
                iteration has ended.
            RdbUnknownError: it has a type or opcode that is not known.
        """
        if self._failed is not None:
            raise self._failed
        try:
            # `yield from` would end the reading where a loop is left.
            for key in self._keys:  # noqa: UP028
                yield key
        except RdbError as error:
            self._failed = error
            raise

    def _read_keys(self, code: int) -> Iterator[Key]:
        """Yield the keys; `code` is the first byte behind the fields."""
        reader = self._reader
        database = 0
        beside: dict[int, int] = {}
        while code != _END:
            if code == _SELECT:
                database = read_length(reader)
            elif code in _OF_A_KEY:
                beside[code] = _OF_A_KEY[code](reader)
            elif code in _BESIDE:
                self._read_beside(code)
            else:
                kind = type_of(reader, code)
                name, value = read_string(reader), kind.read(reader)
                expires = beside.get(_EXPIRES_MS, beside.get(_EXPIRES_S))
                idle, frequency = beside.get(_IDLE), beside.get(_FREQUENCY)
                yield Key(database, name, kind.kind, value, kind.encoding, expires, idle, frequency)
                beside = {}
            code = reader.byte()
        self._check()

    def _read_beside(self, code: int) -> None:
        reader = self._reader
        if code == _AUX:
            name, value = read_string(reader), read_string(reader)
            self.fields[name.decode("utf-8", "backslashreplace")] = value
        elif code == _RESIZE:
            read_length(reader)
            read_length(reader)
        elif code == _FUNCTION:
            self.functions.append(read_string(reader))
        elif code == _MODULE_AUX:
            self.module_fields.append(read_module(reader))
        else:
            raise RdbUnknownError(
                f"{reader.name}, before byte {reader.place}: functions of a preview of Redis 7.0",
                hint="Save the file with a released version of Redis.",
            )

    def _check(self) -> None:
        reader = self._reader
        computed = reader.end_sum()
        if self.version < _SUMMED_FROM:
            return
        stored = int.from_bytes(reader.take(8), "little")
        # A server with rdbchecksum no writes zero.
        if stored and stored != computed:
            raise RdbCorruptError(f"{reader.name}: the checksum is {computed:016x}, the file says {stored:016x}")
        self.checked = bool(stored)


_BESIDE = {_FUNCTION, _FUNCTION_PRE, _MODULE_AUX, _AUX, _RESIZE}


def _read_byte(reader: ByteReader) -> int:
    return reader.byte()


_OF_A_KEY = {
    _EXPIRES_MS: read_milliseconds,
    _EXPIRES_S: read_seconds,
    _IDLE: read_length,
    _FREQUENCY: _read_byte,
}
"""Opcode that stands before a key → what reads it."""


class RdbFile:
    """RDB file on a disk: an iterator of its keys and a context manager that closes it.

    Attributes:
        path: of the file; of one without a name, what stands for it in messages.
    """

    def __init__(self, path: str | PathLike[str], opened: BinaryIO | None = None):
        """Open the file and read its head.

        Args:
            path: of the file.
            opened: the file, where it is open already; it is closed with this object.

        Raises:
            OSError: it cannot be opened.
            RdbError: it is no RDB file, or one of a version that is not known.
        """
        self.path = Path(path)
        self._file: BinaryIO = self.path.open("rb") if opened is None else opened
        self._bytes = ByteReader(self._file.read, str(self.path))
        try:
            self._rdb = RdbReader(self._bytes)
        except BaseException:
            self._file.close()
            raise

    @property
    def version(self) -> int:
        """RDB version of the file; 10 is Redis 7.0's."""
        return self._rdb.version

    @property
    def fields(self) -> dict[str, bytes]:
        """Return what the server wrote about itself."""
        return self._rdb.fields

    @property
    def functions(self) -> list[bytes]:
        """Return the code of the server's function libraries, as far as it was read."""
        return self._rdb.functions

    @property
    def module_fields(self) -> list[ModuleValue]:
        """Return what modules keep beside the keys, as far as it was read."""
        return self._rdb.module_fields

    @property
    def checked(self) -> bool:
        """Checksum was there and right; False before the end."""
        return self._rdb.checked

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys; the last one only when nothing follows the file's end mark.

        Raises:
            RdbError: as `RdbReader` says; also where bytes follow the end (an AOF that begins as an RDB file).
        """
        yield from self._rdb
        if not self._bytes.at_end():
            raise RdbCorruptError(
                f"{self.path}: bytes follow its end at byte {self._bytes.place}",
                hint="An AOF file of Redis before 7.0 begins as an RDB file: take a file that BGSAVE wrote.",
            )

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_rdb(path: str | PathLike[str]) -> RdbFile:
    """Open an RDB file.

    Raises:
        OSError: it cannot be opened.
        RdbError: it is no RDB file, or one of a version that is not known.
    """
    return RdbFile(path)
