"""Entries of error codes: reading Redis."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "redis_rdb": ErrorEntry(
        "An RDB file or DUMP payload of Redis cannot be read to its end; the message names the byte.",
        "Read the message; `redis-check-rdb FILE` says whether Redis itself reads the file.",
    ),
    "redis_rdb_cut": ErrorEntry(
        "An RDB file of Redis ends before its end mark: it was copied or transferred in part.",
        "Copy it again, after BGSAVE has ended (LASTSAVE).",
    ),
    "redis_rdb_corrupt": ErrorEntry(
        "Bytes of an RDB file of Redis contradict each other or its checksum; nothing behind them was read.",
        "Copy the file again; `redis-check-rdb FILE` says whether Redis itself reads it.",
    ),
    "redis_rdb_unknown": ErrorEntry(
        "An RDB file has a version, a type or an opcode that is not known: of Redis after 7.0, or of another product.",
        "Take the file from a server up to Redis 7.0 (RDB version 10).",
    ),
    "redis_snapshot_file": ErrorEntry(
        "The snapshot that a Redis server sends cannot be written to a file: the folder is not there, or is full.",
        "Give a folder that can be written, with room for an RDB file of the server.",
    ),
    "redis_stream": ErrorEntry(
        "A server sent bytes that are no command of the replication stream; nothing behind them was read.",
        "Connect again at the last place. Where it comes back, report the server's version and the offset.",
    ),
    "redis_gap": ErrorEntry(
        "A Redis server does not continue its stream at the wanted place: its backlog is shorter than the reader was "
        "away, or its history is another (restart, failover).",
        "Read a new snapshot; raise repl-backlog-size and repl-backlog-ttl of the server.",
    ),
}
"""Code → its entry."""
