"""Flow parts: sources, transforms, checks and sinks as frozen objects that a DAG file builds."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import SerializeAsAny, field_validator

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.flow_context import DumpTurns, FlowContext, ServerIds
from databus.core.spec import Spec, options_of
from databus.core.transform_specs import TransformSpec

if TYPE_CHECKING:
    from datetime import datetime

    from databus.core.batches.report import CheckResult
    from databus.core.protocols.sink import Sink
    from databus.core.protocols.source import Source
    from databus.core.protocols.splits import Changes
    from databus.core.state.plan import SinkPlan, SourcePlan
    from databus.core.state.snapshot import CaptureScope
    from databus.core.tables.schemas import ChosenKey, TableSchema
    from databus.core.tables.wanted import ColumnsWanted
    from databus.core.trace import TraceableSink

__all__ = [
    "CheckSpec",
    "DumpTurns",
    "FlowContext",
    "OnReject",
    "Profile",
    "ServerIds",
    "SinkSpec",
    "SourceSpec",
    "TransformSpec",
]


class SourceSpec(Spec):
    """Base of all source specs.

    Attributes:
        direct: whether its splits are `DirectSplit`s.
        ranged: whether the opened source is a `RangedSource`, so that its flows can be backfilled.
        snapshots: whether the opened source is a `SnapshotSource`, so that tables can be read as they stand.
        transactional: whether its rows come in transactions, and its ranges end where one does.
        login_in_splits: whether its splits carry the connection, which nothing may print.
        noun: what it calls its tables.
        patterns_wait: whether a pattern that nothing matches yet is no error, whatever the options say.
        places: forms of places in its log beside times, "earliest", "latest" and offsets, each with an example.
    """

    noun: ClassVar[str] = "table"
    patterns_wait: ClassVar[bool] = False
    direct: ClassVar[bool] = False
    ranged: ClassVar[bool] = False
    snapshots: ClassVar[bool] = False
    transactional: ClassVar[bool] = False
    login_in_splits: ClassVar[bool] = False
    places: ClassVar[tuple[str, ...]] = ()

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:
        """Connect. Heavy imports happen here, not at construction."""
        raise NotImplementedError

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return (conn_id, expected conn_type) pairs, for preflight and doctor."""
        return ()

    def extras(self) -> tuple[str, ...]:
        """Return the extras of databus whose packages it needs once it is opened; see `core/packages.py`."""
        return ()

    def undecodable(self) -> tuple[tuple[str, str, str], ...]:
        """Return (column at the source, reason of a flag, severity) of values that are not delivered flagged."""
        return ()

    def datasets(self) -> tuple[str, ...]:
        """Return what it reads, in words: table names or patterns, topics."""
        return ()

    def begins_at_head(self) -> bool:
        """Return whether a flow without a checkpoint begins behind all that is logged by now."""
        return False

    def begins_with_snapshot(self) -> bool:
        """Return whether a flow without a checkpoint begins with its tables as they stand."""
        return False

    def capture_scope(self) -> CaptureScope | None:
        """Return what it captures, where tables that it did not capture before can be read as they stand."""
        return None

    def snapshot_rows_per_second(self) -> int | None:
        """Return the most rows per second that are read of tables as they stand; None without a bound."""
        return None

    def reads_changes(self) -> bool:
        """Return whether what comes is delivered, and not only the tables as they stand."""
        return True

    def at_place(self, text: str) -> SourceSpec:
        """Return the source that begins at a place of its log, in a form of `start`.

        Raises:
            ConfigError: it is none.
        """
        return type(self).from_stored(options_of(self.to_json()) | {"start": text})

    def problem_with_place(self, text: str) -> str:
        """Return why a text is no place of its log in a form of `start`; "" when it is one."""
        try:
            self.at_place(text)
        except ConfigError as error:
            return "; ".join(error.problems) or error.message
        return ""

    def replayed(self) -> SourceSpec:
        """Return the spec with which a backfill reads: what makes the live flow wait for a person is decided there."""
        return self

    def names_one(self, pattern: str) -> bool:
        """Return whether one of its `datasets` can mean one table alone."""
        return not pattern.startswith("re:") and not set(pattern) & set("*?[")

    def rotates(self, name: str) -> bool:  # noqa: ARG002 - most name their tables
        """Return whether a pattern alone names something that is read, which may go as it came."""
        return False

    def means(self, pattern: str, table: TableSchema) -> bool:
        """Return whether one of its `datasets` means a table."""
        return fnmatchcase(table.full_name, pattern)

    @property
    def tables_may_come_later(self) -> bool:
        """Return whether names and patterns that no table matches yet are meant so."""
        return False

    def alike(self) -> tuple[SourceSpec, ...]:
        """Return the same source as plans of an earlier databus may know it, whose hash holds all options.

        Only what its errors ask to change; what is `without_effect` is in no hash now.
        """
        return ()

    def refusals(self, table: TableSchema) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - most read all rows
        """Return (row filter in words, why it cannot judge the rows of a table)."""
        return ()

    def row_filter_columns(self, table: TableSchema) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - most read all rows
        """Return (column, filter in words) of the columns by which rows of a table are left out at the source."""
        return ()

    def judged_columns(self) -> tuple[str, ...]:
        """Return the columns that row filters name: a change that lacks one is flagged as unjudged, and held back."""
        return ()


class CheckSpec(Spec):
    """Base of all check specs.

    Attributes:
        severity: "warn" counts, "quarantine" (default) holds the row back, "fail" fails the batch before anything is
            dispatched.
    """

    severity: Literal["warn", "quarantine", "fail"] = "quarantine"

    @property
    def check_name(self) -> str:
        """Name with its arguments, e.g. "not_null(order_id)"; unique inside a flow."""
        return self.kind

    def wants(self) -> ColumnsWanted | None:
        """Return which columns it must find, None where it does not say; asked before any row is read."""
        return None

    def violation(self, changes: Changes) -> Any:
        """Return a boolean Column, true where a row violates; None for checks of the whole batch."""
        raise NotImplementedError

    def applies_to(self, table: str) -> bool:
        """Return whether rows of `database.table` are looked at."""
        raise NotImplementedError

    @property
    def looks_at_rows(self) -> bool:
        """Return whether `violation` looks at single rows; else `evaluate` looks at the batch as a whole."""
        return True

    def evaluate(self, planned: SourcePlan, now: datetime) -> CheckResult:
        """Judge a whole batch by what the source knows of it and the plan's clock."""
        raise NotImplementedError


class SinkSpec(Spec):
    """Base of all sink specs.

    Attributes:
        name: name of the sink inside the flow, e.g. "west"; default "", the kind. Part of markers and znodes: renaming
            starts anew.
        routes: patterns (fnmatch) of routes this sink takes, e.g. ("shop.*",); default all. A row's route is
            `database.table` unless a Route sets it.
        transforms: applied to this sink's rows alone, behind the flow's transforms and checks, in order: e.g.
            (DropColumns("email"), Filter("amount > 100")); default none. Of the tables that the sink takes.
        direct: whether the opened sink is a `DirectSink`.
        newest_by_place: whether it keeps the newest row of each key, by the row's place in the source's log.
        needs_key: whether it refuses rows of tables without a primary key.
        idempotent: whether a part of a batch that was written for nothing does no harm.
        takes_raw_records: whether it writes records byte for byte, so that no transform can change them.
    """

    direct: ClassVar[bool] = False
    newest_by_place: ClassVar[bool] = False
    needs_key: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False
    takes_raw_records: ClassVar[bool] = False

    name: str = ""
    routes: tuple[str, ...] = ("*",)
    transforms: tuple[SerializeAsAny[TransformSpec], ...] = ()

    @field_validator("transforms")
    @classmethod
    def _keep_routes_and_keys(cls, value: tuple[TransformSpec, ...]) -> tuple[TransformSpec, ...]:
        for each in value:
            if cls.takes_raw_records:
                raise ValueError(f"records are handed on byte for byte, and {each.label()} would change them")
            if each.chooses_places:
                raise ValueError(
                    f"{each.label()} chooses routes or keys, by which all sinks are told apart: put it into the flow's "
                    "transforms"
                )
        return value

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON; without `transforms` where there are none, so that earlier hashes stay."""
        stored = {name: value for name, value in super().stored().items() if name != "transforms"}
        return stored | ({"transforms": [each.to_json() for each in self.transforms]} if self.transforms else {})

    @property
    def sink_name(self) -> str:
        """The name, or the kind when none was given."""
        return self.name or self.kind

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        """Connect. Heavy imports happen here, not at construction."""
        raise NotImplementedError

    @property
    def unreserved_with(self) -> str:
        """Option with which the sink keeps no names for itself; "" where there is none."""
        return ""

    def needs_direct_lane(self) -> str:
        """Return the option of which only the direct lane writes the rows; "" where there is none."""
        return ""

    def has_value_form(self) -> str:
        """Return the option with which values are in a form of their own, in which no row is copied; "" without."""
        return self.needs_direct_lane()

    def takes_numbers_alone(self) -> bool:
        """Return whether NaN and infinities have no place in its form, so that rows of computed ones are held back."""
        return False

    def needs_transactions(self) -> str:
        """Return the option that writes where the source's transactions begin and end; "" where there is none."""
        return ""

    def names_key_columns(self) -> str:
        """Return the option whose messages name the key's columns in the row; "" where the key stands alone."""
        return ""

    def key_problem(self, key: ChosenKey) -> str:  # noqa: ARG002 - most take rows under any key
        """Return why the sink cannot take rows under a chosen key; "" where it can."""
        return "it keeps rows by the source's primary key" if self.needs_key else ""

    def reserved_columns(self) -> frozenset[str]:
        """Return names that the sink keeps for itself, so that no column of a row may have them."""
        return frozenset()

    def may_stop(self, pinned: SinkPlan) -> bool:  # noqa: ARG002 - most kinds refuse no row
        """Return whether a row that the sink refuses stops a batch, rather than being held back."""
        return False

    def tracing(self, connections: ConnectionSource) -> TraceableSink | None:  # noqa: ARG002 - kinds that show none
        """Return what shows single records of its outputs, None where nothing does; loads less than `open`."""
        return None

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return (conn_id, expected conn_type) pairs, for preflight and doctor."""
        return ()

    def extras(self) -> tuple[str, ...]:
        """Return the extras of databus whose packages it needs once it is opened; see `core/packages.py`."""
        return ()

    def datasets(self) -> tuple[str, ...]:
        """Return what it writes, in words: topic or index names or templates."""
        return ()

    def output_of(self, table: TableSchema, route: str, flow: str) -> str | None:  # noqa: ARG002 - kinds without outputs
        """Return the topic or index that rows of a table go to; None where the sink knows no columns."""
        return None

    def image_fields(self, column: str) -> tuple[str, ...]:
        """Return the fields of its output that hold a column of the row's images."""
        return (column,)

    def key_fields(self, column: str) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - not every output has a key
        """Return (field, step in words) of the fields that hold a primary key column as the row's key.

        Args:
            column: name at the source.

        Returns:
            Fields of its output; the step is "" where the value is handed on as it is.
        """
        return ()

    def beside(self, flow: str, suffix: str) -> SinkSpec:
        """Return the spec of a backfill's sink: a flow of another name that writes where `flow` does, or beside it.

        Args:
            flow: name that stands for {flow} in the names of outputs.
            suffix: put behind the names of outputs; "" for the flow's own.

        Raises:
            ConfigError: this kind of sink has no outputs beside the flow's.
        """
        if suffix:
            raise ConfigError(
                f"flow {flow}: sink {self.sink_name} of kind {self.kind} has no outputs beside the flow's own",
                hint="Replay into the live outputs knowingly, or leave this sink out by a flow of another name.",
            )
        return self


OnReject = Literal["fail", "quarantine"]
"""Policy for a batch of which a sink refuses rows: it stops, or the rows go into quarantine."""

Profile = Literal["exactly_once", "at_least_once", "throughput_first"]
"""Delivery by a sink: each row once; each row, some twice after a failure; most rows per second (see each sink)."""
