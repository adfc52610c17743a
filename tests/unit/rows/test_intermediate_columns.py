"""Intermediate columns: the SQL of a chain of transforms grows with its length, and not exponentially."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from databus import AddColumn, Cast, DropColumns, Filter, Hash, Lookup, Mask, PythonFunction, RenameColumns, Truncate
from databus.core.flow_specs import TransformSpec
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.expression import parse_expression
from databus.rows.frames.fields import Field, fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.intermediate import intermediate_columns, with_intermediate_columns
from databus.testing.table_batches import table

COLUMNS = {"id": "int", "a": "varchar(9)", "b": "varchar(9)", "n": "int"}
FIRST, SECOND = table("shop.first", COLUMNS), table("shop.second", COLUMNS, schema_id=1)


def of(*tables: TableSchema) -> FrameChanges:
    return FrameChanges(None, tables, {t.schema_id: fields_of(t) for t in tables}, hidden=Hidden())


def through(changes: FrameChanges, specs: Sequence[TransformSpec]) -> tuple[FrameChanges, list[dict[str, str]]]:
    """Return what transforms leave, with intermediate columns behind each, and these columns."""
    made = []
    for spec in specs:
        after: Any = spec.columns_after(changes)
        columns, fields = intermediate_columns(after)
        changes = replace(after, fields=fields, projections=after.projections + bool(columns))
        made.append(columns)
    return changes, made


def identity(values: Any) -> Any:
    return values


def column(changes: FrameChanges, name: str, of_table: TableSchema = FIRST) -> Field:
    return changes.require(name, of_table, "test")


def pair(number: int) -> list[TransformSpec]:
    """Return two transforms over the two columns that the pair before it left."""
    new = f"x{number}"
    kinds: list[TransformSpec] = [
        Lookup(new, {"k": "1"}, into=f"{new}y"),
        Cast({new: "timestamp"}, on_failure="null"),
        Mask(new, keep_last=1),
        PythonFunction(f"{__name__}:identity", inputs=(new,), into=new),
    ]
    older = "a" if number < 2 else f"x{number - 2}"
    return [
        AddColumn({new: f"concat(CAST({'b' if number == 0 else f'x{number - 1}'} AS string), {older}, b)"}),
        kinds[number % len(kinds)],
    ]


def test_the_sql_of_each_transform_is_as_long_in_a_long_chain_as_in_a_short_one() -> None:
    specs = [spec for number in range(16) for spec in pair(number)]
    changes, made = through(of(FIRST), specs)
    steps = [sum(map(len, columns.values())) for columns in made]
    assert max(steps[16:]) <= 1.2 * max(steps[:16])

    condition = parse_expression("x15 > 'k' AND before.x14 <> x13")
    assert len(changes.bind(condition, changes.tables[0], "test")) < 4_000
    assert max(len(each.variant("row")) for each in changes.fields[FIRST.schema_id]) < 5_000


def test_columns_are_known_by_what_is_stored_of_them() -> None:
    """Whether a value is there follows from the stored columns that it comes from, each asked once."""
    changes, _ = through(of(FIRST), [AddColumn(x="concat(a, b)"), AddColumn(y="concat(x, a)"), AddColumn(z="y || x")])
    made = column(changes, "z")
    assert made.leaves() == ("a", "b")
    assert made.present("after").count("variant_get(") == 2


def test_tables_share_columns_of_one_type() -> None:
    specs = [AddColumn(x="concat(a, b)", m="n + 1"), AddColumn(y="concat(x, b)", tables=("shop.second",))]
    changes, (both, second) = through(of(FIRST, SECOND), specs)
    assert len(both) == 4
    assert all(sql.count(" WHEN 0 THEN ") == sql.count(" WHEN 1 THEN ") == 1 for sql in both.values())
    assert len(second) == 2
    assert all(" WHEN 0 THEN " not in sql for sql in second.values())
    assert not both.keys() & second.keys()
    names = {column(changes, name).computed.columns for name in ("x", "m")}  # type: ignore[union-attr]
    assert len(names) == 2
    assert names == {column(changes, name, SECOND).computed.columns for name in ("x", "m")}  # type: ignore[union-attr]


def test_values_as_they_are_stored_or_replaced_once_have_none() -> None:
    specs = [Mask("a", keep_last=2), Hash("b"), RenameColumns({"n": "m"}), DropColumns("b"), Filter("m > 1")]
    assert through(of(FIRST), specs)[1] == [{}] * 5


def test_a_text_that_is_replaced_again_and_again_has_one_for_two_of_them() -> None:
    changes, made = through(of(FIRST), [Mask("a", keep_last=2)] * 6)
    assert [len(columns) for columns in made] == [0, 2, 0, 2, 0, 2]
    lengths = [sum(map(len, columns.values())) for columns in made[1::2]]
    assert lengths[2] == lengths[1]
    assert column(changes, "a").texts is not None
    assert column(changes, "a").renamed("c").texts is not None


@pytest.mark.parametrize("image", ["before", "after"])
def test_a_row_that_loses_an_image_has_no_value_of_it(image: str) -> None:
    changes, _ = through(of(FIRST), [AddColumn(x="concat(a, b)"), Truncate("a", 1), Mask("a"), Mask("a")])
    assert column(changes, "x").typed(image).startswith(f"CASE WHEN `{image}` IS NOT NULL THEN `value_")
    assert f"CASE WHEN `{image}` IS NOT NULL THEN `value_" in column(changes, "a").typed(image)


def test_changes_without_rows_have_none() -> None:
    changes = of(FIRST)
    for spec in (AddColumn(x="concat(a, b)"), AddColumn(y="concat(x, b)")):
        changes = spec.columns_after(changes)  # type: ignore[assignment] # the protocol's one implementation
    assert with_intermediate_columns(changes) is changes
    assert column(changes, "y").computed.columns is None  # type: ignore[union-attr]
