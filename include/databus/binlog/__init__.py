"""The MySQL and MariaDB binary log: wire format, columnar decoding, segments.

What lives here knows bytes, not flows: no Spark, no checkpoints, no sinks. Modules that compile kernels or load Arrow
are imported only by whoever decodes.

For users of the library: `read_file`, `read_files` and `read_server` give a `LogReader`, an iterator of Arrow record
batches. What its columns mean stands in `databus.binlog.reader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.binlog.reader import LogReader as LogReader
    from databus.binlog.reader import read_file as read_file
    from databus.binlog.reader import read_files as read_files
    from databus.binlog.reader import read_server as read_server

__all__ = ["LogReader", "read_file", "read_files", "read_server"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'databus.binlog' has no attribute {name!r}")
    from databus.binlog import reader

    return getattr(reader, name)
