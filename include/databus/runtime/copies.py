"""Copies of rows whose routes are chosen by value: which sinks take them, and the rows that become of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec, TransformSpec
from databus.core.protocols.sink import Sink
from databus.core.trace import row_of_copy
from databus.rows.frames.places import COPIES, COPY, KEYED, copied
from databus.rows.frames.selection import java_regex
from databus.runtime.check import STATE
from databus.runtime.routing import changes_ops, offered_ops

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def most_copies(flow: Flow) -> int:
    """Return the most copies that a row of a flow has; 1 of a flow that chooses neither routes nor keys by value."""
    most = max((spec.most_copies for spec in flow.transforms), default=1)
    return 2 * most if most > 1 and _chooses_keys(flow) else most  # in each route a delete and an insert


def taken_by(sink: Sink, spec: SinkSpec, row: Column | None = None, *, offered: bool = False) -> Column:
    """Return a Column that is true where a sink takes the row, by route and operation.

    Args:
        sink: the sink, open.
        spec: its spec.
        row: struct that has `route` and `op`; None for the row itself, as it is written.
        offered: whether the sink's own transforms are yet to come, which may make another operation of it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    route, op = (F.col(name) if row is None else row[name] for name in ("route", "op"))
    routed = F.lit(False)
    for pattern in spec.routes:
        routed = routed | (F.lit(True) if pattern == "*" else route.rlike(java_regex(pattern)))
    return routed & op.isin(*sorted(offered_ops(sink.accepts(), changing=offered and changes_ops(spec))))


def any_taken_by(flow: Flow, sink: Sink, spec: SinkSpec, *, offered: bool = True) -> Column:
    """Return a Column that is true where a sink takes a copy of a row that was checked; `offered` as of `taken_by`."""
    from pyspark.sql import functions as F  # noqa: N812

    if most_copies(flow) == 1:
        return taken_by(sink, spec, offered=offered)
    return F.exists(F.col(COPIES), lambda copy: taken_by(sink, spec, copy, offered=offered))


def written_rows(flow: Flow, checked: DataFrame, state: str = STATE) -> DataFrame:
    """Return checked rows with each copy of those that are dispatched as a row of its own.

    The row itself is the copy of number 0 in `COPY`; a flow that chooses no route by value gets its rows as they are.

    Args:
        flow: the flow.
        checked: the rows.
        state: column that says which are dispatched.
    """
    most = most_copies(flow)
    if most == 1:
        return checked
    rows = copied(checked, f"`{state}` = '{RowState.DISPATCHED}'", most)
    if not _chooses_keys(flow):
        return rows
    from pyspark.sql import functions as F  # noqa: N812

    canonical, hashed = _of_keys()
    rows = rows.withColumn("key", F.when(F.col(KEYED), canonical("key")).otherwise(F.col("key")))
    return rows.withColumn("key_hash", F.when(F.col(KEYED), hashed("key")).otherwise(F.col("key_hash")))


def first_of_row(flow: Flow) -> Column | None:
    """Return a Column that is true of one copy of each row of `written_rows`; None where there is but one."""
    from pyspark.sql import functions as F  # noqa: N812

    return None if most_copies(flow) == 1 else F.col(COPY) == 0


def row_id(flow: Flow, event_id: str) -> str:
    """Return the event id of the row that a written one is a copy of."""
    return event_id if most_copies(flow) == 1 else row_of_copy(event_id)


def _chooses_keys(flow: Flow) -> bool:
    return any(type(spec).chosen_key is not TransformSpec.chosen_key for spec in flow.transforms)


def _of_keys() -> tuple[Callable[[str], Column], Callable[[str], Column]]:
    """Return functions of a column of keys: as the source writes them, and their hash of Kafka's partitioner."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    from databus.rows.keys import canonical_escapes  # these load kernels
    from databus.rows.murmur2 import key_hashes_of

    # Functions of their own: Spark reads their types from the annotations.
    def canonical(keys: pa.Array) -> pa.Array:
        return canonical_escapes(keys)

    def hashes(keys: pa.Array) -> pa.Array:
        return key_hashes_of(keys)

    for function in (canonical, hashes):
        function.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    return arrow_udf(canonical, "binary"), arrow_udf(hashes, "int")
