"""Tables of a plan whose rows go through Spark: those that ask for it, and those that a run found to need it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from databus.core.flow import Flow
from databus.core.state.plan import SourcePlan
from databus.runtime.copies import most_copies
from databus.runtime.direct.reasons import refusal, table_lanes

if TYPE_CHECKING:
    from databus.binlog.decoding.table_batch import TableBatch, Transactions
    from databus.expressions.errors import SparkNeededError
    from databus.rows.row_program import FatedRows, RowProgram, SinkProgram

log = logging.getLogger(__name__)


@dataclass
class SparkTables:
    """Memory of the tables in which a run found a value that Spark alone reads; shared by all views of a session.

    Attributes:
        found: `database.table` → what was found.
    """

    found: dict[str, str] = field(default_factory=dict)

    def learn(self, flow: str, error: SparkNeededError) -> bool:
        """Remember the table of an error; return whether that is news."""
        if not error.table or error.table in self.found:
            return False
        self.found[error.table] = error.message
        log.info("flow %s: %s goes through Spark until this run ends: %s", flow, error.table, error.message)
        return True


def spark_tables(flow: Flow, planned: SourcePlan, known: SparkTables) -> frozenset[str] | None:
    """Return the tables of a plan whose rows go through Spark; the others, and statements, are direct.

    Returns:
        `database.table` of each; None where the whole batch goes through Spark.

    Raises:
        DatabusError: what a transform or a check raises in Spark's lane too.
    """
    if refusal(flow):
        return None
    lanes = table_lanes(flow, planned.tables)
    if any(not lane.table for lane in lanes):
        return None
    apart = frozenset(lane.table for lane in lanes if lane.lane == "spark" or lane.table in known.found)
    if apart and most_copies(flow) > 1:
        return None
    return None if lanes and len(apart) == len(lanes) else apart


@dataclass(frozen=True)
class TellingProgram:
    """A row program whose `SparkNeededError`s name the table (`RowProgram`).

    Attributes:
        program: the program.
    """

    program: RowProgram

    @property
    def places(self) -> bool:
        """Flag of a program that chooses routes or keys by value; see `RowProgram`."""
        return self.program.places

    def judged(self, batch: TableBatch, transactions: Transactions, rows: FatedRows) -> FatedRows:
        """Return the rows after all filters; see `RowProgram`."""
        with _named(batch):
            return self.program.judged(batch, transactions, rows)

    def shown(self, batch: TableBatch, transactions: Transactions) -> TableBatch:
        """Return the batch with the values that transforms replaced; see `RowProgram`."""
        with _named(batch):
            return self.program.shown(batch, transactions)


@overload
def telling(program: RowProgram | None) -> RowProgram | None: ...
@overload
def telling(program: RowProgram | SinkProgram | None) -> RowProgram | SinkProgram | None: ...
def telling(program: RowProgram | SinkProgram | None) -> RowProgram | SinkProgram | None:
    """Return a program whose errors of that kind name the table."""
    if program is None:
        return None
    from databus.rows.row_program import SinkProgram

    if isinstance(program, SinkProgram):
        flow = None if program.flow is None else TellingProgram(program.flow)
        return SinkProgram(flow, TellingProgram(program.own), program.holding)
    return TellingProgram(program)


@contextmanager
def _named(batch: TableBatch) -> Iterator[None]:
    from databus.expressions.errors import SparkNeededError

    try:
        yield
    except SparkNeededError as error:
        error.table = batch.schema.full_name
        raise
