"""Redis: its RDB files and DUMP payloads, and its replication stream. Pure Python, no further package.

What lives here knows bytes, not flows: no Spark, no checkpoints, no sinks.

`read_rdb` gives the keys of a file, `read_dump` the value of a DUMP payload, `read_server` a `Replica`: a snapshot,
then the server's commands as transactions. A `Place` is where reading goes on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.redis.rdb.dump import read_dump as read_dump
    from databus.redis.rdb.file import RdbFile as RdbFile
    from databus.redis.rdb.file import read_rdb as read_rdb
    from databus.redis.rdb.values import Key as Key
    from databus.redis.rdb.values import Stream as Stream
    from databus.redis.replication.commands import Command as Command
    from databus.redis.replication.commands import Place as Place
    from databus.redis.replication.commands import Transaction as Transaction
    from databus.redis.replication.replica import Replica as Replica
    from databus.redis.replication.replica import read_server as read_server

_PLACES = {
    "Command": "replication.commands",
    "Key": "rdb.values",
    "Place": "replication.commands",
    "RdbFile": "rdb.file",
    "Replica": "replication.replica",
    "Stream": "rdb.values",
    "Transaction": "replication.commands",
    "read_dump": "rdb.dump",
    "read_rdb": "rdb.file",
    "read_server": "replication.replica",
}
__all__ = [
    "Command",
    "Key",
    "Place",
    "RdbFile",
    "Replica",
    "Stream",
    "Transaction",
    "read_dump",
    "read_rdb",
    "read_server",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'databus.redis' has no attribute {name!r}")
    return getattr(import_module(f"databus.redis.{_PLACES[name]}"), name)
