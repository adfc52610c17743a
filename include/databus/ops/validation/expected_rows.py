"""Rows that a sink should hold: the source's tables as they stand, on the flow's own way to the sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import RowState
from databus.core.flow_specs import SinkSpec
from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.optional_sink import DirectEncoder, DirectSink
from databus.core.protocols.splits import DirectSplit
from databus.core.protocols.validated_sink import ValidatedSink
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.expressions.errors import SparkNeededError
from databus.rows.former_columns import former_columns_named
from databus.rows.violation_bits import MARKS
from databus.runtime import check
from databus.runtime.context import FlowSession
from databus.runtime.copies import any_taken_by, most_copies, taken_by, written_rows
from databus.runtime.direct.lane import image_columns, is_direct
from databus.runtime.direct.reasons import row_program
from databus.runtime.direct.row_checks import holding, image_marks
from databus.runtime.direct.row_counts import held_back
from databus.runtime.read import read, splits_of
from databus.runtime.routing import route_of, takes
from databus.runtime.transform import transform

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, eq=False)
class ExpectedRows:
    """Rows expected in a sink.

    Attributes:
        rows: `ROWS_HELD`; the key is NULL where a row has none.
        tables: string[n], `database.table` of each row.
        held: bool[n], which rows checks hold back.
    """

    rows: pa.RecordBatch
    tables: pa.StringArray
    held: npt.NDArray[np.bool_]

    def filter(self, mask: pa.BooleanArray) -> ExpectedRows:
        """Return the rows at which a mask is set."""
        return ExpectedRows(self.rows.filter(mask), self.tables.filter(mask), self.held[np.asarray(mask)])

    def counts(self) -> Iterator[tuple[str, bool, int]]:
        """Yield table, whether they are held back, and number of its rows."""
        rows = pa.table({"table": self.tables, "held": pa.array(self.held)})
        for each in rows.group_by(["table", "held"]).aggregate([([], "count_all")]).to_pylist():
            yield each["table"], each["held"], each["count_all"]


class FlowPath:
    """Path of a flow to one of its sinks, without the sink's writer.

    Args:
        session: the flow, open; its source is a look.
        spec: the sink as the flow wrote it down.
        spark: makes the Spark session; asked only where the flow's rows need one.
    """

    def __init__(self, session: FlowSession, spec: SinkSpec, spark: Callable[[], Any]):
        self._session, self._spec, self._spark = session, spec, spark
        self._sink = cast("ValidatedSink", session.every_sink[spec.sink_name])

    def expected(self, planned: SourcePlan) -> Iterator[ExpectedRows]:
        """Yield what the rows of a plan's chunks become in the sink.

        Raises:
            DatabusError: what reading, a transform or a check raises in a batch.
        """
        if not planned.chunks:
            return
        for encoded, held in self._moved(planned):
            tables = pc.binary_join_element_wise(encoded["database"], encoded["table"], ".")
            yield ExpectedRows(self._sink.expected(encoded), tables, held)

    def _moved(self, planned: SourcePlan) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.bool_]]]:
        flow = self._session.flow
        if not is_direct(flow, planned) or most_copies(flow) > 1:  # whose routes are those of single rows
            yield from self._by_spark(planned)
        elif row_program(flow, planned) is None:
            yield from self._direct(planned)
        else:
            try:
                rows = list(self._direct(planned))
            except SparkNeededError:
                rows = list(self._by_spark(planned))
            yield from rows

    def _direct(self, planned: SourcePlan) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.bool_]]]:
        flow = self._session.flow
        columns, marks, holds = image_columns(flow, planned), image_marks(flow, planned), holding(flow)
        program = row_program(flow, planned)
        more = () if program is None else (program,)
        encoder: DirectEncoder = cast("DirectSink", self._sink).encoder(self._plan(planned))
        accepted = pa.array(sorted(self._sink.accepts()), pa.string())
        routes = {table.schema_id: route_of(flow, table) for table in planned.tables}
        for split in cast("Sequence[DirectSplit]", splits_of(self._session, planned)):
            for read_rows in split.read_text(columns, marks, *more):
                for number in np.unique(np.asarray(read_rows["schema_id"])).tolist():
                    if not takes(self._spec, routes[number]):
                        continue
                    mine = pc.and_(
                        pc.equal(read_rows["schema_id"], number),
                        pc.is_in(read_rows["op"], accepted),
                    )
                    rows = read_rows.filter(mine)
                    if not rows.num_rows:
                        continue
                    route = pa.repeat(pa.scalar(routes[number], pa.string()), rows.num_rows)
                    with former_columns_named(f"sink {self._spec.sink_name}"):
                        encoded = encoder.encode(rows.append_column("route", route), 0)
                    found = np.zeros(rows.num_rows, np.int64) if marks is None else np.asarray(rows[MARKS])
                    yield encoded, held_back(rows, found, holds)

    def _by_spark(self, planned: SourcePlan) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.bool_]]]:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import VariantType

        session = replace(self._session, spark=self._spark())
        rows, _ = read(session, planned)
        anywhere, taken = any_taken_by(session.flow, self._sink, self._spec), taken_by(self._sink, self._spec)
        checked = check.check(session.flow, transform(session.flow, rows, planned), anywhere)
        for state in (RowState.DISPATCHED, RowState.QUARANTINED):
            mine = written_rows(session.flow, checked.where((F.col(check.STATE) == state) & anywhere)).where(taken)
            with former_columns_named(f"sink {self._spec.sink_name}"):
                encoded = self._sink.encode(mine, self._plan(planned))
            # Spark Connect brings no null of type VARIANT over, and what the sink gets of a row is text by now.
            variants = (field.name for field in encoded.schema if isinstance(field.dataType, VariantType))
            for batch in encoded.drop(*variants).toArrow().to_batches():
                yield batch, np.full(batch.num_rows, state is RowState.QUARANTINED)

    def _plan(self, planned: SourcePlan) -> Plan:
        """Return a plan with one slot, which nobody writes."""
        session = self._session
        return Plan(
            session.settings.installation,
            session.flow.name,
            0,
            OffsetRange(planned.range.start, planned.range.end),
            {self._spec.sink_name: SinkPlan()},
            session.spec_hash,
            session.clock.now(),
        )
