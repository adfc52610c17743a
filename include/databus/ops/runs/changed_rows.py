"""The rows that a run changed, read again from the log: for expectations that need more than one row at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.source import Source
from databus.core.protocols.splits import DirectSplit
from databus.core.state.plan import SourcePlan
from databus.records.batch_record import BatchRecord
from databus.rows.frames.selection import matches
from databus.runtime.beside.look import look
from databus.runtime.context import Services
from databus.runtime.direct.lane import image_columns
from databus.runtime.direct.row_checks import without_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_WITH_AFTER_IMAGE = ("c", "u", "r")


@dataclass(frozen=True)
class ChangedRows:
    """After-images of one table.

    Attributes:
        frame: a row per create, update and snapshot read, in log order; columns as the transforms leave them: numbers
            (decimals as floats), text, moments as pandas' timestamps.
        complete: whether these are all of the run.
        changes: row changes of the table in the run, deletes included.
    """

    frame: pd.DataFrame
    complete: bool
    changes: int


def require_readable(flow: Flow) -> None:
    """Refuse a flow whose rows cannot be had without Spark.

    Raises:
        ConfigError: a transform looks at values, or the source does not write its images as text.
    """
    values = [spec.label() for spec in flow.transforms if not spec.by_table]
    if values or not flow.source.direct:
        cause = f"transforms that look at values ({', '.join(values)})" if values else f"source {flow.source.kind}"
        raise ConfigError(f"the rows of a flow with {cause} are not read again after its run")


def changed_rows(
    flow: Flow, services: Services, batches: Sequence[BatchRecord], tables: Sequence[str], limit: int
) -> ChangedRows | None:
    """Read the rows of the table that `tables` means again; None when the run changed none of it.

    Above `limit` the first rows of each batch are taken, of each as large a share.

    Args:
        flow: the flow; its transforms work by table.
        services: the installation.
        batches: the run's batches.
        tables: fnmatch patterns of `database.table`.
        limit: most row changes that are looked at.

    Raises:
        ConfigError: the patterns mean more than one table, or the flow's rows cannot be had.
        DatabusError: the source cannot be reached, or has purged the rows.
    """
    require_readable(flow)
    by_batch = [sum(c.read for table, c in batch.tables.items() if matches(table, tuple(tables))) for batch in batches]
    meant = sorted({table for batch in batches for table in batch.tables if matches(table, tuple(tables))})
    if not meant:
        return None
    if len(meant) > 1:
        raise ConfigError(f"it is about the rows of one table, and {', '.join(tables)} means {', '.join(meant)}")
    total = sum(by_batch)
    share = min(1.0, limit / total)
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    seen = 0
    context = FlowContext(flow.name, services.settings, services.server_ids, services.dump_turns)
    with look(flow, services.connections, context) as source:
        for batch, changes in zip(batches, by_batch, strict=True):
            if not changes:
                continue
            planned = source.reopen(OffsetRange(batch.start, batch.end))
            try:
                types |= _types(flow, planned, meant[0])
                left = changes if share >= 1 else max(1, int(changes * share))
                for piece in _pieces(flow, source, planned, meant[0]):
                    cut = piece.slice(0, left)
                    left -= cut.num_rows
                    seen += cut.num_rows
                    rows += _images(cut)
                    if left <= 0:
                        break
            finally:
                source.discard(planned)
    return ChangedRows(_frame(rows, types), share >= 1, total)


def _pieces(flow: Flow, source: Source, planned: SourcePlan, table: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array([s.schema_id for s in planned.tables if s.full_name == table], pa.int32())
    columns = image_columns(flow, planned)
    for split in cast("Sequence[DirectSplit]", source.splits(planned, 1)):
        for batch in split.read_text(columns):
            mine = batch.filter(pc.is_in(batch["schema_id"], numbers))
            if mine.num_rows:
                yield mine


def _images(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    pairs = zip(batch["op"].to_pylist(), batch["after"].to_pylist(), strict=True)
    return [json.loads(after) for op, after in pairs if op in _WITH_AFTER_IMAGE and after is not None]


def _types(flow: Flow, planned: SourcePlan, table: str) -> dict[str, str]:
    fields = without_rows(flow, planned.tables).fields
    mine = (fields[schema.schema_id] for schema in planned.tables if schema.full_name == table)
    return {field.column.name: field.column.spark_type for of_schema in mine for field in of_schema}


def _frame(rows: list[dict[str, Any]], types: dict[str, str]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame.from_records(rows, columns=list(types))
    for name, kind in types.items():
        if kind in ("date", "timestamp", "timestamp_ntz"):
            frame[name] = pd.to_datetime(frame[name], errors="coerce", format="ISO8601", utc=True).dt.tz_localize(None)
    return frame
