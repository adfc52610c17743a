"""Names for packages that add a source or a sink: base classes, rows, receipts, offsets and errors.

For example `from databus.extend import SimpleSink, SimpleRows, WriteReceipt`; a name loads when it is first used. The
pages docs/write-a-sink.md and docs/write-a-source.md show how; `databus.testing.contract` has the suites that test it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.core.batches.receipts import WriteReceipt
    from databus.core.connections import Connection
    from databus.core.errors.config import ConfigError
    from databus.core.errors.sink import SinkError, SinkFencedError, SinkUnavailableError
    from databus.core.errors.source import OffsetPurgedError, SourceError, SourceUnavailableError
    from databus.core.positions.offsets import Offset, SequenceOffset
    from databus.core.protocols import Sink, Source
    from databus.core.state.backfill import RangedSource
    from databus.rows import version_numbers
    from databus.sinks.simple import SimpleSink
    from databus.sinks.simple_rows import COLUMNS, Row, SimpleRows
    from databus.sources.simple import RowChange, SimpleSource, Table

__all__ = [
    "COLUMNS",
    "ConfigError",
    "Connection",
    "Offset",
    "OffsetPurgedError",
    "RangedSource",
    "Row",
    "RowChange",
    "SequenceOffset",
    "SimpleRows",
    "SimpleSink",
    "SimpleSource",
    "Sink",
    "SinkError",
    "SinkFencedError",
    "SinkUnavailableError",
    "Source",
    "SourceError",
    "SourceUnavailableError",
    "Table",
    "WriteReceipt",
    "version_numbers",
]
"""All public names; a test holds them equal to the imports above and to the table below."""

_PLACES = {
    "databus.core.batches.receipts": ("WriteReceipt",),
    "databus.core.connections": ("Connection",),
    "databus.core.errors": (
        "ConfigError",
        "OffsetPurgedError",
        "SinkError",
        "SinkFencedError",
        "SinkUnavailableError",
        "SourceError",
        "SourceUnavailableError",
    ),
    "databus.core.positions.offsets": ("Offset", "SequenceOffset"),
    "databus.core.protocols": ("Sink", "Source"),
    "databus.core.state.backfill": ("RangedSource",),
    "databus.rows": ("version_numbers",),
    "databus.sinks.simple": ("SimpleSink",),
    "databus.sinks.simple_rows": ("COLUMNS", "Row", "SimpleRows"),
    "databus.sources.simple": ("RowChange", "SimpleSource", "Table"),
}
"""Module → its names."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            globals()[name] = getattr(import_module(module), name)
            return globals()[name]
    raise AttributeError(f"module 'databus.extend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
