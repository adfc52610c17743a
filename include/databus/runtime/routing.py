"""Routing of a table's rows: the route they carry, the sinks that take it, and what they pin for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from databus.core.errors.sink import SinkSettingError
from databus.core.events import Op
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.optional_sink import FollowingSink, PinningSink
from databus.core.protocols.sink import Sink
from databus.core.state.known_outputs import KnownOutputs
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.core.tables.schemas import ChosenKey, TableSchema


def route_of(flow: Flow, table: TableSchema) -> str:
    """Return the route of a table's rows: `database.table` unless a transform sets another."""
    return route_named(flow, table.full_name)


def route_named(flow: Flow, name: str) -> str:
    """Return the route of the rows of a table by its name, `database.table`; the first one where values choose."""
    return routes_named(flow, name)[0]


def routes_of(flow: Flow, table: TableSchema) -> tuple[str, ...]:
    """Return all routes of a table's rows; several where a transform chooses by value."""
    return routes_named(flow, table.full_name)


def routes_named(flow: Flow, name: str) -> tuple[str, ...]:
    """Return all routes of the rows of a table by its name, `database.table`."""
    routes: tuple[str, ...] = (name,)
    for transform in flow.transforms:
        found = (transform.all_routes(name, route) for route in routes)
        routes = tuple(dict.fromkeys(route for each in found for route in each))
    return routes


def outputs_of(flow: Flow, sink: SinkSpec, tables: Sequence[TableSchema]) -> tuple[tuple[TableSchema, str], ...]:
    """Return (table, route) of every table whose rows a sink takes, for each route that they may have."""
    routed = ((table, route) for table in tables for route in routes_of(flow, table))
    return tuple((table, route) for table, route in routed if takes(sink, route))


def outputs_named(flow: Flow, spec: SinkSpec, sink: Sink, plan: SourcePlan) -> tuple[tuple[TableSchema, str], ...]:
    """Return (table, route) of every statement that a sink takes; a table without columns, its name "" for none."""
    if not plan.named:
        return ()
    accepted = sink.accepts()
    return outputs_of(flow, spec, tuple(dict.fromkeys(table for op, table in plan.named if op in accepted)))


def reserved_in(flow: Flow, spec: SinkSpec, tables: Sequence[TableSchema]) -> Iterator[SinkSettingError]:
    """Yield, for each table that has them, the error of columns whose names a sink gives members of its own.

    Args:
        flow: the flow.
        spec: the sink.
        tables: as the flow's transforms leave them.
    """
    reserved = spec.reserved_columns()
    for table, _ in outputs_of(flow, spec, tables):
        names = sorted(reserved.intersection(column.name for column in table.columns))
        if names:
            one = len(names) == 1
            what, those, them = ("column", "that name", "it") if one else ("columns", "those names", "them")
            other = f"; {spec.unreserved_with} of the sink takes {them} as {'it is' if one else 'they are'}"
            yield SinkSettingError(
                f"table {table.full_name} has the {what} {', '.join(names)}, and sink {spec.sink_name} keeps {those} "
                f"for members of its own: a row would have {them} twice, mean something else, or be refused",
                hint=f"Put RenameColumns or DropColumns for {', '.join(names)} of {table.full_name} into the flow's "
                f"transforms{other if spec.unreserved_with else ''}.",
                code="sink_reserved_column",
            )


def chosen_key(flow: Flow, table: TableSchema) -> ChosenKey | None:
    """Return the key that a flow's transforms give the records of a table; None where it is the source's."""
    found = [key for spec in flow.transforms if (key := spec.chosen_key(table.full_name)) is not None]
    return found[-1] if found else None


def refused_keys_in(flow: Flow, spec: SinkSpec, tables: Sequence[TableSchema]) -> Iterator[SinkSettingError]:
    """Yield, for each such table, the error of a chosen key under which the sink takes no rows.

    Args:
        flow: the flow.
        spec: the sink.
        tables: as the flow's transforms leave them.
    """
    for table in dict.fromkeys(table for table, _ in outputs_of(flow, spec, tables)):
        key = chosen_key(flow, table)
        if key is not None and (problem := spec.key_problem(key)):
            yield SinkSettingError(
                f"sink {spec.sink_name} cannot take rows of {table.full_name} by the key {', '.join(key.columns)}: "
                f"{problem}",
                hint=f"Leave {table.full_name} out of `tables` of KeyBy or out of the sink's `routes`, or say "
                "unique=True where no two rows share a key.",
                code="sink_key_chosen",
            )


def lost_keys_in(
    flow: Flow, spec: SinkSpec, tables: Sequence[TableSchema], stored: Sequence[TableSchema]
) -> Iterator[SinkSettingError]:
    """Yield, for each such table, the error of key columns that rows lack, of a sink whose messages name them there.

    Args:
        flow: the flow.
        spec: the sink.
        tables: as the flow's transforms leave them.
        stored: the same as the source has them.
    """
    option = spec.names_key_columns()
    of_source = {table.schema_id: {column.name: column.type for column in table.columns} for table in stored}
    for table, _ in outputs_of(flow, spec, tables) if option else ():
        types = {column.name: column.type for column in table.columns}
        was = of_source.get(table.schema_id, {})
        lost = [name for name in table.primary_key if types.get(name) != was.get(name)]
        if lost and table.columns:
            raw = f"key column{'s' if len(lost) > 1 else ''} {', '.join(lost)} of {table.full_name}"
            yield SinkSettingError(
                f"sink {spec.sink_name}: messages of {option} name the key's columns in the row, and a transform of "
                f"flow {flow.name} renames, drops or changes {raw}",
                hint=f'Leave {raw} as it is in the flow\'s transforms, or take types="iso" with '
                'envelope="debezium" or "row", whose keys stand alone.',
                code="sink_key_column_lost",
            )


def require_unreserved(
    flow: Flow, spec: SinkSpec, tables: Sequence[TableSchema], stored: Sequence[TableSchema]
) -> None:
    """Refuse columns whose names a sink keeps, key columns that its messages lack, and keys that it cannot take.

    Args:
        flow: the flow.
        spec: the sink.
        tables: as the flow's transforms leave them.
        stored: the same as the source has them.

    Raises:
        SinkSettingError: names the table and the columns.
    """
    lost = lost_keys_in(flow, spec, tables, stored)
    for error in (*reserved_in(flow, spec, tables), *lost, *refused_keys_in(flow, spec, tables)):
        raise error


def prepare(
    sink: Sink,
    plan: SourcePlan,
    outputs: Sequence[tuple[TableSchema, str]],
    known: KnownOutputs,
    named: Sequence[tuple[TableSchema, str]] = (),
) -> SinkPlan:
    """Return what a sink pins for outputs; one whose outputs have ids compares them with what is known.

    Args:
        sink: the sink.
        plan: the source's range.
        outputs: (table, route) of each table whose rows it takes.
        known: what is known of its outputs.
        named: see `outputs_named`; only a sink whose outputs have ids makes them before it writes.

    Raises:
        SinkOutputChangedError: an output that was written to was deleted.
        SinkError: the sink cannot be used.
    """
    if isinstance(sink, PinningSink):
        return sink.prepare_known(plan, (*outputs, *named), known)
    return sink.prepare(plan, outputs)


def follow_columns(flow: Flow, spec: SinkSpec, sink: Sink, plan: SourcePlan) -> None:
    """Notify a sink that follows them of columns whose names go to others, of each table that it takes.

    Raises:
        SinkError: the sink cannot be asked.
    """
    if plan.columns_moved and isinstance(sink, FollowingSink):
        names = dict.fromkeys(moved.table.partition(".") for moved in plan.columns_moved)
        tables = [TableSchema(-1, database, table, ()) for database, _, table in names]
        sink.follow_columns(plan, outputs_of(flow, spec, tables))


def takes(sink: SinkSpec, route: str) -> bool:
    """Return whether a sink takes a route."""
    return any(fnmatchcase(route, pattern) for pattern in sink.routes)


def offered_ops(accepted: frozenset[str], *, changing: bool) -> frozenset[str]:
    """Return the operations of rows that reach a sink.

    Args:
        accepted: those that it accepts.
        changing: see `changes_ops`.
    """
    return accepted | {Op.UPDATE.value} if changing and accepted & {Op.CREATE, Op.DELETE} else accepted


def changes_ops(spec: SinkSpec) -> bool:
    """Return whether a sink's own transforms may make a delete or an insert of an update: any looks at values."""
    return any(not each.by_table for each in spec.transforms)
