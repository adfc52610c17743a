"""A flow beside the tables of its source: missing names and columns are reported before its first row (ADR 50).

What a flow asks for is a set of wants: its table patterns, the columns of its transforms and checks, keys for sinks
that need them. A want that was found once is accepted: a table that is dropped or changed later stops no flow here,
since rows of its former definition may lie in the log before the flow. The batch that comes to rows it cannot treat
stops by name.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from databus.binlog.log.capture import is_name
from databus.core.amounts import counted
from databus.core.errors.batch import TransformError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkSettingError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec, TransformSpec
from databus.core.protocols.optional_source import DefinedSource
from databus.core.protocols.source import Source
from databus.core.tables.hidden_columns import HiddenByTable, RememberedHidden
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import TablesNow
from databus.ops.tables.assumed_columns import (
    Lack,
    any_assumed,
    columns_there,
    either,
    has,
    replaced,
    with_assumed,
    without_assumed,
)
from databus.ops.tables.wants import (
    ColumnRequirement,
    asked_by,
    asked_by_checks,
    row_filters_want,
    table_want,
    want,
    wants_of,
)
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed_in_clear
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import HiddenLoss
from databus.rows.frames.selection import EVERY_TABLE, matches
from databus.runtime.direct.required import table_lane_errors
from databus.runtime.routing import lost_keys_in, outputs_of, refused_keys_in, reserved_in
from databus.runtime.tables.column_lineage import written_tables
from databus.runtime.tables.sink_views import SinkTransform, seen_by
from databus.transforms.rename import RenameColumns

TABLE_MISSING, COLUMN_UNKNOWN, NO_KEY = "source_table_missing", "column_unknown", "sink_no_primary_key"
PARTLY_SHOWN = "source_partly_shown"
_SHOWN = 20
_NARROWER = "Correct the name, or narrow `tables` to those that have it."


@dataclass(frozen=True)
class TableComparison:
    """Comparison of a flow with its tables.

    Attributes:
        findings: what was found; none for a source that does not know.
        wants: what the flow asks for, without names of tables that never were there.
        missing: names and patterns of the source that match nothing, as far as the account can see.
        hidden: `database.table` → columns that the flow's transforms hide there, as the tables are now.
        hidden_of: the same of each sink that has transforms of its own.
    """

    findings: tuple[Finding, ...]
    wants: frozenset[str]
    missing: tuple[str, ...] = ()
    hidden: HiddenByTable = field(default_factory=dict)
    hidden_of: Mapping[str, HiddenByTable] = field(default_factory=dict)


def compare(
    flow: Flow,
    source: Source,
    accepted: frozenset[str] = frozenset(),
    remembered: RememberedHidden | None = None,
    remembered_of: Mapping[str, RememberedHidden] | None = None,
) -> TableComparison:
    """Ask a source for its tables and compare the flow with them.

    Args:
        flow: the flow.
        source: its source, open.
        accepted: wants that are reported as warnings.
        remembered: what it hid so far: a table that lost such a column is reported as a warning.
        remembered_of: sink → the same of each that has transforms of its own.

    Raises:
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
    """
    wants = wants_of(flow)
    if not isinstance(source, DefinedSource):
        return TableComparison((), wants)
    now = source.tables_now()
    yet_to_come = frozenset(map(table_want, now.unmatched)) - accepted
    comparison = _ServerTables(flow, now, accepted, remembered or RememberedHidden(), None)
    of_sinks = {}
    for spec in (each for each in flow.sinks if each.transforms):
        known = (remembered_of or {}).get(spec.sink_name, RememberedHidden())
        of_sinks[spec.sink_name] = _ServerTables(seen_by(flow, spec), now, accepted, known, spec)
    found = dict.fromkeys(finding for each in (comparison, *of_sinks.values()) for finding in each.findings())
    wrong = tuple(finding for finding in found if finding.level is not Level.OK)
    hidden_of = {sink: each.hidden() for sink, each in of_sinks.items()}
    hidden, unmatched = comparison.hidden(), tuple(now.unmatched)
    return TableComparison(wrong or tuple(found), wants - yet_to_come, unmatched, hidden, hidden_of)


class _ServerTables:
    """A flow beside what its source's server says now; the flow as a sink with transforms of its own sees it.

    Of such a sink the flow's transforms are followed in all tables, and tell what the flow's own comparison tells;
    its own in the tables that it takes.
    """

    def __init__(
        self, flow: Flow, now: TablesNow, accepted: frozenset[str], remembered: RememberedHidden, sink: SinkSpec | None
    ):
        self._flow, self._now, self._accepted, self._remembered = flow, now, accepted, remembered
        self._sink = sink
        self._shown = tuple(t for t in now.captured if t.full_name not in now.partly_shown)
        self._told = tuple(t for t in self._shown if sink is None or outputs_of(flow, sink, (t,)))
        self._judged, self._compared = self._shown, 0
        self._hidden = Hidden()

    def hidden(self) -> HiddenByTable:
        """Return which columns the transforms hide in each table; after `findings`."""
        return self._hidden.by_table(self._told)

    def findings(self) -> Iterator[Finding]:
        if self._sink is not None:
            yield from (*self._columns(), *self._reserved(), *self._lost())
            return
        found = [*self._missing(), *self._partly_shown(), *self._row_filters(), *self._columns(), *self._keys()]
        found += [*self._reserved(), *self._lanes(), *self._lost(), *self._outputs()]
        yield from found
        if all(f.level is Level.OK for f in found):
            count = len(self._now.captured)
            told = f"{counted(count, self._flow.source.noun)} {'has' if count == 1 else 'have'}"
            text = f"{told} what the flow asks for ({counted(self._compared, 'column')} compared)"
            yield Finding(f"{self._now.place}: {self._flow.source.noun}s of the flow", Level.OK, text)

    def _missing(self) -> Iterator[Finding]:
        later = self._flow.source.tables_may_come_later
        for pattern in self._now.unmatched:
            noun, named = self._flow.source.noun, self._flow.source.names_one(pattern)
            code = TABLE_MISSING if noun == "table" else f"source_{noun}_missing"
            subject = f"{self._now.place}: {noun if named else 'pattern'} {pattern}"
            if not self._now.tells(pattern):
                message = f"this account is shown no such {noun}, and may lack the right to see it"
                hint = f"{_near(pattern, self._now.known)}Check the spelling (case matters), or GRANT SELECT on it."
                yield Finding(subject, Level.WARN, message, hint, code)
                continue
            message = f"the {noun} does not exist" if named else f"no {noun} matches"
            waits = later or (self._flow.source.patterns_wait and not named)
            comes = f'create the {noun}; on_missing_{noun}="wait" is for {noun}s that come later.'
            hint = (
                f"{_near(pattern, self._now.known)}Correct `{noun}s` of the source (case matters) or "
                f"{f'wait: {noun}s that come later are read from their beginning.' if waits else comes}"
            )
            yield Finding(subject, Level.WARN if waits else self._level(table_want(pattern)), message, hint, code)

    def _partly_shown(self) -> Iterator[Finding]:
        for name in sorted(self._now.partly_shown):
            message = f"the account may be shown single columns or no key of {name}: its columns are not compared"
            subject = f"{self._now.place}: table {name}"
            yield Finding(subject, Level.WARN, message, f"GRANT SELECT on all of {name}.", PARTLY_SHOWN)

    def _row_filters(self) -> Iterator[Finding]:
        wanted = row_filters_want(self._flow)
        for table in self._told:
            for label, why in self._flow.source.refusals(table):
                message = f"{table.full_name} {why}"
                names = [column.name for column in table.columns]
                hint = f"{_columns_of(table, names)} Correct the filter, or narrow its `tables` to those that have it."
                yield self._of_table(table, f"row filter {label}", message, hint, "row_filter", wanted)

    def _columns(self) -> Iterator[Finding]:
        fields = {t.schema_id: fields_of(t) for t in self._shown}
        plain = FrameChanges(None, self._shown, fields, compared=True, hidden=self._hidden)
        changes: FrameChanges | None = plain
        for spec in self._flow.transforms:
            asked = asked_by(spec)
            if changes is not None and isinstance(spec, SinkTransform):
                self._judged, taken = self._told, {t.full_name for t in self._told}
                changes = replace(changes, tables=tuple(t for t in changes.tables if t.full_name in taken))
            if asked is not None:
                yield from self._patterns(asked)
            if changes is None:
                continue
            lacks = [] if asked is None else list(self._unknown(asked, changes))
            yield from (lack.finding for lack in lacks)
            changes = yield from self._left_by(spec, asked, changes, lacks)
        if changes is not None:
            yield from self._in_clear(changes)
        for asked in asked_by_checks(self._flow) if self._sink is None else ():
            if asked.told:
                continue
            yield from self._patterns(asked)
            left = plain if asked.columns.at_source else changes
            if left is not None:
                yield from (lack.finding for lack in self._unknown(asked, left))

    def _in_clear(self, changes: FrameChanges) -> Iterator[Finding]:
        """Warn of columns and keys whose values show one that is hidden behind them; it may be meant so."""
        for table, what, leaf in computed_in_clear(changes, self._hidden):
            by = self._hidden.hides(table.full_name, leaf) or "a later transform"
            message = f"{what} is computed from {leaf} in clear: {by} stands behind it"
            hint = f"Put what hides {leaf} first, or leave it so where {what} is to show it."
            yield Finding(f"transforms of {table.full_name}", Level.WARN, message, hint, "hidden_column_computed")

    def _left_by(
        self, spec: TransformSpec, asked: ColumnRequirement | None, changes: FrameChanges, lacks: Sequence[Lack]
    ) -> Generator[Finding, None, FrameChanges | None]:
        """Yield what else a transform refuses; return what it leaves, None where it does not say.

        What comes after it is judged as if its columns were there: a fault hides no other, and brings none about.
        """
        assumed = with_assumed(changes, lacks)
        wrong = {table.schema_id for lack in lacks for table in lack.tables}
        for table in assumed.tables:
            if asked is not None and not matches(table.full_name, asked.columns.tables):
                continue
            one = replace(assumed, tables=(table,))
            try:
                left = _left_of(spec, one)
            except Exception as error:  # noqa: BLE001 - of any user's transform, which does not say what it leaves
                if asked is None or not isinstance(error, DatabusError):
                    return None  # what comes after it cannot be determined
                renames = spec.kind == RenameColumns.kind
                if not (renames and any_assumed(one)):
                    finding = Finding.of(asked.label, error, self._level(asked.want))
                    yield replace(finding, message=finding.message.removeprefix(f"{spec.label()}: "))
                if renames:  # which names there would be cannot be determined
                    assumed = replace(assumed, tables=tuple(t for t in assumed.tables if t != table))
                continue
            assumed = replaced(assumed, either(one, left) if table.schema_id in wrong else left)
        return assumed

    def _unknown(self, asked: ColumnRequirement, changes: FrameChanges) -> Iterator[Lack]:
        """Yield a column that a table lacks; one that no table has once."""
        meant = [t for t in changes.tables if matches(t.full_name, asked.columns.tables)]
        for name in asked.columns.names:
            have = [t for t in meant if has(changes, t, name, exactly=asked.columns.at_source)]
            self._compared += len(meant)
            if not asked.columns.in_every:
                if meant and not have and self._all_told(asked.columns.tables, changes):
                    known = sorted({column for table in meant for column in columns_there(changes, table)})
                    message = f"no table of the flow has a column {name!r}"
                    hint = f"{_near(name, known)}Correct the name, or take it out."
                    finding = Finding(asked.label, self._level(asked.want), message, hint, COLUMN_UNKNOWN)
                    yield Lack(finding, name, tuple(meant))
                continue
            for table in meant:
                if table not in have:
                    there = columns_there(changes, table)
                    hint = f"{_near(name, there)}{_columns_of(table, there)} {_NARROWER}"
                    message = f"{table.full_name} has no column {name!r}"
                    finding = self._of_table(table, asked.label, message, hint, COLUMN_UNKNOWN, asked.want)
                    yield Lack(finding, name, (table,))

    def _patterns(self, asked: ColumnRequirement) -> Iterator[Finding]:
        """Name the tables that a transform or check means and the flow does not have."""
        own = self._flow.source.datasets()
        captured = [t.full_name for t in self._now.captured]
        for pattern in asked.columns.tables:
            if (pattern,) == EVERY_TABLE or pattern in own or any(matches(name, (pattern,)) for name in captured):
                continue
            hint = f"{_near(pattern, captured)}Correct `tables` of it."
            if not is_name(pattern) or pattern in self._now.known or not self._now.tells(pattern):
                message = f"its tables {pattern!r} are none of the flow's"
                yield Finding(asked.label, Level.WARN, message, hint, TABLE_MISSING)
                continue
            level = Level.WARN if self._tables_may_come() else self._level(asked.want)
            yield Finding(asked.label, level, f"there is no table {pattern!r}", hint, TABLE_MISSING)

    def _all_told(self, patterns: Sequence[str], changes: FrameChanges) -> bool:
        """Return whether no table that is meant may be hidden from the account, come later, or have names left open."""
        if len(changes.tables) < len(self._judged) or any(matches(name, patterns) for name in self._now.partly_shown):
            return False
        later = bool(self._now.unmatched) and self._tables_may_come()
        return not later and all(map(self._now.tells, self._flow.source.datasets()))

    def _keys(self) -> Iterator[Finding]:
        for spec in self._flow.sinks:
            if not spec.needs_key:
                continue
            for table in self._told:
                if not table.primary_key and outputs_of(self._flow, spec, (table,)):
                    message = f"table {table.full_name} has no primary key, and the sink keeps rows by their key"
                    hint = (
                        f"Give {table.full_name} a primary key, take it out by `exclude_tables` of the source, "
                        "or leave it out of the sink's `routes`."
                    )
                    wanted = want("key", spec.sink_name)
                    yield self._of_table(table, f"sink {spec.sink_name}", message, hint, NO_KEY, wanted)

    def _reserved(self) -> Iterator[Finding]:
        """Name columns that sinks take for members of their own, key columns that messages lack, and refused keys.

        The batch that comes to such a table is refused.
        """
        level = Level.WARN if self._accepted else Level.ERROR
        tables = written_tables(self._flow, self._told, compared=True)
        for spec in self._flow.sinks:
            if spec is not self._sink and (spec.transforms or self._sink is not None):
                continue
            lost = lost_keys_in(self._flow, spec, tables, self._told)
            refused = refused_keys_in(self._flow, spec, tables)
            for error in (*reserved_in(self._flow, spec, tables), *lost, *refused):
                yield Finding.of(f"sink {spec.sink_name}", error, level)

    def _lanes(self) -> Iterator[Finding]:
        """Name what sends rows through Spark, of a sink that only the direct lane can write to."""
        try:
            errors = tuple(table_lane_errors(self._flow, self._told))
        except DatabusError:
            return  # of a column that is not there, which is told
        for error in errors:
            yield Finding.of("lane", error, Level.WARN if self._accepted else Level.ERROR)

    def _lost(self) -> Iterator[Finding]:
        """Name tables without a column that was hidden in them; the batch that comes to such rows is refused.

        It may lie behind rows that can be moved, and so is no error.
        """
        for table in self._told:
            try:
                HiddenLoss(self._hidden, self._remembered).require((table,))
            except TransformError as error:
                yield Finding.of(f"{self._now.place}: table {table.full_name}", error, Level.WARN)

    def _outputs(self) -> Iterator[Finding]:
        """Name tables for whose rows a sink has no output of a valid name; the batch that comes to them is refused."""
        level = Level.WARN if self._accepted else Level.ERROR
        for spec in self._flow.sinks:
            for table, route in outputs_of(self._flow, spec, self._now.captured):
                try:
                    spec.output_of(table, route, self._flow.name)
                except SinkSettingError as error:
                    finding = Finding.of(f"sink {spec.sink_name}", error, level)
                    yield replace(finding, message=error.message.removeprefix(f"flow {self._flow.name}: "))

    def _of_table(self, table: TableSchema, subject: str, message: str, hint: str, code: str, wanted: str) -> Finding:
        """Return a finding about one table; a warning where both the table and what is asked of it were found once."""
        patterns = self._flow.source.datasets()
        found = any(table_want(p) in self._accepted for p in patterns if self._flow.source.means(p, table))
        level = self._level(wanted) if found else Level.ERROR
        return Finding(subject, level, message, hint, code)

    def _tables_may_come(self) -> bool:
        """Return whether tables that are not there are meant so, by an option or by patterns that wait."""
        source = self._flow.source
        patterns = source.patterns_wait and not all(map(source.names_one, source.datasets()))
        return source.tables_may_come_later or patterns

    def _level(self, wanted: str) -> Level:
        return Level.WARN if wanted in self._accepted else Level.ERROR


def _left_of(spec: TransformSpec, one: FrameChanges) -> FrameChanges:
    """Return what a transform leaves of one table; where an assumed column has the name that it gives, without those.

    Raises:
        Exception: of any user's transform.
    """
    try:
        return spec.columns_after(one)  # type: ignore[return-value] # the only implementation
    except DatabusError:
        if not (any_assumed(one) and isinstance(spec, RenameColumns)):
            raise
        return spec.columns_after(without_assumed(one))  # type: ignore[return-value]


def _near(name: str, known: Sequence[str]) -> str:
    """Return "Did you mean …? " for the nearest names, "" where none is near."""
    by_case = {each.casefold(): each for each in known}
    near = get_close_matches(name.casefold(), by_case, n=3, cutoff=0.7)
    return f"Did you mean {' or '.join(by_case[each] for each in near)}? " if near else ""


def _columns_of(table: TableSchema, names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Columns of {table.full_name}: {', '.join(names[:_SHOWN])}{more}."
