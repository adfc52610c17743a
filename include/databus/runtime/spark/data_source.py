"""The Spark data source that runs splits on executors: a Python Data Source that yields Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from databus.core.events import ROW_DDL
from databus.runtime.read import unpack

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
    """One split by number."""


class RowsReader(DataSourceReader):
    """Reads each split in a task of its own."""

    def __init__(self, packed: str):
        self._packed = packed

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per split, in log order."""
        return [SplitPartition(number) for number in range(len(unpack(self._packed)))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the split's rows as Arrow batches; none for None, which Spark asks for where there is no split."""
        if partition is not None:
            yield from unpack(self._packed)[partition.value].read()
