"""Errors of reading Redis: its RDB files and its replication stream."""

from __future__ import annotations

from databus.core.errors.source import DecodeError, OffsetPurgedError


class RdbError(DecodeError):
    """An RDB file or DUMP payload that cannot be read to its end; nothing behind the named byte was read."""

    code = "redis_rdb"
    default_hint = "Report the place and the server's version; redis-check-rdb says whether Redis reads the file."


class RdbCutError(RdbError):
    """An RDB file ends before its end mark."""

    code = "redis_rdb_cut"
    default_hint = "Copy or transfer the file again: a part of it is missing."


class RdbCorruptError(RdbError):
    """Bytes of an RDB file contradict each other, or its checksum."""

    code = "redis_rdb_corrupt"
    default_hint = "Copy or transfer the file again; redis-check-rdb says whether Redis itself reads it."


class RdbUnknownError(RdbError):
    """A version, type or opcode of an RDB file that this release does not know."""

    code = "redis_rdb_unknown"
    default_hint = "Files of Redis up to 7.0 (RDB version 10) are read; take the file from such a server."


class RedisStreamError(DecodeError):
    """Bytes of a replication stream that are no command."""

    code = "redis_stream"
    default_hint = "The place has not moved: connect again. Where it comes back, report server version and offset."


class RedisGapError(OffsetPurgedError):
    """The server does not continue its replication stream at the wanted place: a gap that only a snapshot closes."""

    code = "redis_gap"
    default_hint = (
        "Read a new snapshot (open without a place): changes between the place and the snapshot are known by their "
        "effect alone. Raise repl-backlog-size and repl-backlog-ttl where it comes back."
    )
