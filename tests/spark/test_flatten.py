"""Members of JSON documents as columns, on real DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from databus import Flatten
from databus.core.errors.batch import TransformError
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import batch, table
from databus.transforms.drop import DropColumns

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

T = table("shop.t", {"id": "int", "doc": "json", "city": "text"})
FIELDS = {"address.city": "string", "age": "int", "items": "string", "rate": "decimal(6,2)"}
FULL = {"address": {"city": "Ulm", "zip": 7}, "age": 41, "items": [1, {"a": 2}], "rate": 1.5}


def out(changes: FrameChanges, *specs: Any) -> list[Any]:
    for spec in specs:
        changes = spec.apply(changes)
    images = ("to_json(before) AS before", "to_json(after) AS after")
    return list(changes.materialize().orderBy("ordinal").selectExpr("unjudged", *images).collect())


def test_members_become_columns_of_their_types_in_each_image(changes_of: Build) -> None:
    new, old = {"id": 1, "doc": json.dumps(FULL), "city": "x"}, {"id": 1, "doc": '{"age": null}', "city": "x"}
    spec = Flatten("doc", FIELDS)
    rows = out(changes_of(batch(T, [(None, new), (new, old), ({"id": 1}, {"id": 1, "doc": None})])), spec)

    added = {"address_city": "Ulm", "age": 41, "items": '[1,{"a":2}]', "rate": 1.5}
    nothing = dict.fromkeys(added)
    images = [[json.loads(r[image] or "null") for image in ("before", "after")] for r in rows]
    assert [r["unjudged"] for r in rows] == [None] * 3
    assert {name: images[0][1][name] for name in added} == added
    assert {name: images[1][0][name] for name in added} == added
    assert {name: images[1][1][name] for name in added} == nothing
    assert images[2] == [{"id": 1}, {"id": 1, "doc": None, **nothing}]
    changes = spec.apply(changes_of(batch(T, [(None, new)])))
    types = {column.name: column.spark_type for column in changes.tables[0].columns}  # type: ignore[attr-defined]
    assert {name: types[name] for name in added} == {
        "address_city": "string", "age": "int", "items": "string", "rate": "decimal(6,2)",
    }  # fmt: skip


def test_a_value_that_is_not_of_its_type_holds_the_row_back(changes_of: Build) -> None:
    rows = batch(T, [(None, {"id": 1, "doc": '{"age": "old", "a": {"n": "x"}}'})])
    fields = {"age": "int", "a.n": "bigint"}

    # The first cause that is found is kept.
    assert [r["unjudged"] for r in out(changes_of(rows), Flatten("doc", fields, prefix="p_"))] == ["flatten(p_a_n)"]
    kept = out(changes_of(rows), Flatten("doc", fields, on_failure="null", delimiter="."), DropColumns("doc"))
    assert [(r["unjudged"], json.loads(r["after"])) for r in kept] == [(None, {"id": 1, "a.n": None, "age": None})]


def test_a_name_that_the_table_has_and_a_table_without_the_column_are_refused(changes_of: Build) -> None:
    changes = changes_of(batch(T, [(None, {"id": 1, "doc": "{}"})]))
    with pytest.raises(TransformError, match="'city' already"):
        Flatten("doc", {"city": "string"}).apply(changes)
    with pytest.raises(TransformError, match="no column 'payload'"):
        Flatten("payload", {"a": "string"}, tables=("shop.t",)).apply(changes)
