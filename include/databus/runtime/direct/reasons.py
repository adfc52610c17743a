"""Lane of a flow's tables, and its reasons: the definition, the checks and the transforms of each table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec, TransformSpec
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.expressions.errors import NotCompiledError
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.hidden import Hidden
from databus.runtime.direct.row_checks import holding, unmarked, without_rows
from databus.runtime.tables.sink_views import own_transforms, seen_by, transforms_anywhere, views_of

if TYPE_CHECKING:
    from databus.rows.row_program import SinkProgram
    from databus.runtime.direct.compiled_transforms.compilation import CompiledRows, TableProgram
    from databus.runtime.direct.compiled_transforms.row_holding import TableHolding


@dataclass(frozen=True)
class TableLane:
    """Lane that the rows of one table ask for.

    Attributes:
        table: `database.table`, "" for all of the flow.
        lane: "direct" or "spark". A batch whose tables differ takes both lanes.
        reason: why it is Spark's, "" of the direct one.
    """

    table: str
    lane: Literal["direct", "spark"]
    reason: str = ""

    def __str__(self) -> str:
        """Return the lane in words: "Spark, because filter 'f(a) > 1': function f is not compiled"."""
        return "direct" if self.lane == "direct" else f"Spark, because {self.reason}"


def refusal(flow: Flow) -> str:
    """Say why a flow's definition alone leaves it to Spark's lane, "" where it does not.

    The lane is direct, unless the flow says otherwise, when its source writes images as text, its transforms for all
    tables can be compiled, and every sink encodes text. One that makes several records of a row leaves no table to
    Spark alone, and none to a sink in a form of its own.
    """
    if flow.lane == "spark":
        return 'lane="spark" says so'
    if not flow.source.direct:
        return f"source {flow.source.kind} has rows for Spark alone"
    for transform in transforms_anywhere(flow):
        if not transform.compilable() and (transform.most_copies > 1 or not _leaves_tables_alone(transform)):
            return _by_spark(transform)
    for sink in flow.sinks:
        if not sink.direct:
            return f"sink {sink.sink_name} takes rows from Spark alone"
        if (option := sink.has_value_form()) and (copying := _copying(flow)):
            return f"{copying} makes several records of a row, and {option} has no form for them"
    return ""


def _copying(flow: Flow) -> str:
    """Return the label of a transform that chooses routes or keys by value, "" without."""
    return next((f"transform {each.label()}" for each in flow.transforms if each.most_copies > 1), "")


def table_lanes(flow: Flow, tables: Sequence[TableSchema]) -> tuple[TableLane, ...]:
    """Return the lane that each table asks for, in their order, each table once.

    Args:
        flow: the flow.
        tables: as its source has them; a table may have several schemas.

    Raises:
        TransformError: what the transform raises in Spark's lane too.
        ConfigError: a check names a column that its table does not have.
    """
    why = refusal(flow) or unmarked(flow)
    if why:
        return (TableLane("", "spark", why),)
    reasons: dict[str, str] = {}
    for view in views_of(flow):
        for schema, found in _programs(view, tables):
            reason = found if isinstance(found, str) else unmarked(flow, schema) if view is flow else ""
            reasons[schema.full_name] = reasons.get(schema.full_name) or reason
    _join(flow, reasons)
    return tuple(TableLane(table, "spark" if why else "direct", why) for table, why in reasons.items())


def _join(flow: Flow, reasons: dict[str, str]) -> None:
    """Take all tables to the lane of one that goes through Spark, where rows of both cannot be written together."""
    alone = next((table for table, why in reasons.items() if why), "")
    copying = _copying(flow)
    for table, why in reasons.items() if alone and copying else ():
        reasons[table] = why or f"{copying} makes several records of a row, and {alone} goes there: {reasons[alone]}"
    option = next((f"{sink.sink_name} ({told})" for sink in flow.sinks if (told := sink.needs_transactions())), "")
    for table, why in reasons.items() if alone and option else ():
        shared = f"sink {option} counts rows of all tables together, and {alone} goes there: {reasons[alone]}"
        reasons[table] = why or shared


def row_program(flow: Flow, planned: SourcePlan, apart: Collection[str] = ()) -> CompiledRows | None:
    """Return the program of a plan's rows, None where the transforms look at no value.

    Args:
        flow: the flow.
        planned: the source's plan.
        apart: tables that it leaves out: their rows go through Spark.

    Raises:
        TransformError: what the transform raises in Spark's lane too.
        NotCompiledError: a table's rows ask for Spark's lane.
    """
    programs = _required(flow, planned, apart)
    return _rows_of(programs) if programs else None


def sink_program(
    flow: Flow, spec: SinkSpec, planned: SourcePlan, apart: Collection[str] = ()
) -> CompiledRows | SinkProgram | None:
    """Return the program of a plan's rows as a sink has them; that of the flow where its own look at no value.

    What has no place in the sink's form is held back for it.

    Raises:
        TransformError, NotCompiledError: as `row_program`.
    """
    before, both = _required(flow, planned, apart), _required(seen_by(flow, spec), planned, apart)
    numbers = _held_numbers(both) if spec.takes_numbers_alone() else {}
    if not numbers and all(each.by_table for each in own_transforms(flow, spec)):
        return _rows_of(before) if before else None
    from databus.rows.row_program import SinkProgram

    behind = {
        number: replace(
            program,
            steps=(
                *program.steps[len(before[number].steps) if number in before else 0 :],
                *numbers.get(number, ()),
            ),
        )
        for number, program in both.items()
    }
    return SinkProgram(_rows_of(before) if before else None, _rows_of(behind), holding(flow))


def _held_numbers(programs: Mapping[int, TableProgram]) -> dict[int, tuple[TableHolding, ...]]:
    """Return schema_id → step that holds back rows with a computed number that is none."""
    from databus.rows.frames.computed import ADDED
    from databus.runtime.direct.compiled_transforms.row_holding import NotFinite, TableHolding

    found: dict[int, tuple[TableHolding, ...]] = {}
    for number, program in programs.items():
        shown = (each for each in program.columns if each.column.spark_type in ("float", "double"))
        columns = tuple(NotFinite(each.column.name.lstrip(ADDED), each.program) for each in shown)
        if columns:
            found[number] = (TableHolding("json_number", columns),)
    return found


def _rows_of(programs: Mapping[int, TableProgram]) -> CompiledRows:
    from databus.runtime.direct.compiled_transforms.compilation import CompiledRows

    return CompiledRows(programs)


def _required(flow: Flow, planned: SourcePlan, apart: Collection[str]) -> dict[int, TableProgram]:
    """Return schema_id → program of the tables of a plan that have one."""
    programs: dict[int, TableProgram] = {}
    for schema, found in _programs(flow, planned.tables):
        if schema.full_name in apart:
            continue
        if isinstance(found, str):
            raise NotCompiledError(found)
        if found is not None:
            programs[schema.schema_id] = found
    return programs


_Programs = Sequence[tuple[TableSchema, "TableProgram | str | None"]]
_KEPT = 16
_last: dict[int, tuple[Flow, Sequence[TableSchema], _Programs]] = {}


def _programs(flow: Flow, tables: Sequence[TableSchema]) -> _Programs:
    """Return each table with its program, None where it has none, or the reason why there cannot be one."""
    # Asked several times of each batch, and batches of a flow have the same tables.
    flow_before, tables_before, found = _last.get(id(flow), (None, (), ()))
    if flow_before is not flow or tables_before != tables:
        found = tuple(_compiled(flow, tables))
        _last.pop(id(flow), None)
        while len(_last) >= _KEPT:
            _last.pop(next(iter(_last)))
        _last[id(flow)] = (flow, tables, found)
    return found


def _compiled(flow: Flow, tables: Sequence[TableSchema]) -> Iterator[tuple[TableSchema, TableProgram | str | None]]:
    if all(spec.by_table for spec in flow.transforms):  # no program: nothing that decodes is loaded
        yield from ((schema, None) for schema in tables)
        return
    from databus.runtime.direct.compiled_transforms.compilation import table_program

    changes = without_rows(flow, tables)
    for schema in tables:
        alone = next((t for t in flow.transforms if not t.compilable() and t.applies_to(schema.full_name)), None)
        try:
            yield schema, table_program(changes, schema) if alone is None else _by_spark(alone)
        except NotCompiledError as error:
            yield schema, f"{error.reason} is not compiled"


def _leaves_tables_alone(transform: TransformSpec) -> bool:
    """Return whether a transform for Spark alone is for some tables, and says what it makes of their columns.

    What it hides has to be known of batches without rows of these tables too: a statement may rename one.
    """
    if transform.applies_to(""):
        return False
    try:
        transform.columns_after(FrameChanges(None, (), {}, hidden=Hidden()))
    except NotImplementedError:
        return False
    except DatabusError:  # such as a function that cannot be imported: its rows say it
        return True
    return True


def _by_spark(transform: TransformSpec) -> str:
    return f"transform {transform.label()} is applied by Spark alone"
