"""The Spark data source that runs splits on executors: a Python Data Source that yields Arrow batches."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from databus.core.events import ROW_DDL
from databus.core.protocols.splits import Split

if TYPE_CHECKING:
    import pyarrow as pa


class RowsDataSource(DataSource):
    """Spark's view of a planned range; option `splits` holds the packed splits."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "databus_rows"

    def schema(self) -> str:
        """Return the columns of the one DataFrame shape."""
        return ROW_DDL

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the shape is fixed
        """Return the reader."""
        return RowsReader(self.options["splits"])


def planned_rows(packed: str) -> type[RowsDataSource]:
    """Return the data source of one range: its splits travel inside the pickled class, where Spark prints nothing."""

    class PlannedRows(RowsDataSource):
        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the shape is fixed
            return RowsReader(packed)

    return PlannedRows


class SplitPartition(InputPartition):
    """Split partition by number."""


class RowsReader(DataSourceReader):
    """Reads each split in a task of its own."""

    def __init__(self, packed: str):
        self._packed = packed

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per split, in log order."""
        return [SplitPartition(number) for number in range(len(unpack(self._packed)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the split's rows as Arrow batches."""
        yield from unpack(self._packed)[partition.value].read()


def pack(splits: Sequence[Split]) -> str:
    """Serialise splits; those that carry a login must not become an option of a data source (ADR 18)."""
    return base64.b64encode(pickle.dumps(list(splits))).decode()


def unpack(text: str) -> list[Any]:
    """Read what `pack` wrote; only ever fed with strings of this process's own making."""
    return list(pickle.loads(base64.b64decode(text)))  # noqa: S301 - our own driver wrote it
