"""Updates that cross a filter's condition, on real DataFrames; the oracle is a reader that keeps rows by key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.core.flow_specs import TransformSpec
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import Unrepresentable, batch, table
from databus.transforms.filter import Filter
from databus.transforms.mask import Mask
from databus.transforms.project import Project
from databus.transforms.rename import RenameColumns
from databus.transforms.route import Route

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]
Row = dict[str, Any]
Change = tuple[Row | None, Row | None]

T = table("shop.t", {"id": "int", "v": "int", "w": "varchar(5)", "note": "text"})


def out(changes: FrameChanges, *specs: TransformSpec) -> list[Any]:
    for spec in specs:
        changes = spec.apply(changes)  # type: ignore[assignment]  # the protocol's one implementation
    columns = ("op", "filtered", "unjudged", "event_id", "part", "route", "flags", "absent")
    images = ["cast(key AS string) AS key", "to_json(before) AS before", "to_json(after) AS after"]
    return changes.materialize().orderBy("ordinal", "part").selectExpr(*columns, *images).collect()


def went_on(rows: Sequence[Any]) -> list[tuple[str, Any, Any]]:
    return [
        (r["op"], json.loads(r["before"] or "null"), json.loads(r["after"] or "null"))
        for r in rows
        if not r["filtered"] and r["unjudged"] is None
    ]


def row(id: int, v: int | None, w: str | None = "a") -> Row:  # noqa: A002
    return {"id": id, "v": v, "w": w, "note": "n"}


CROSSINGS: list[Change] = [
    (row(1, 9), row(1, 1)),  # leaves
    (row(2, 1), row(2, 9)),  # enters
    (row(3, 9), row(3, 8)),  # stays in
    (row(4, 1), row(4, 2)),  # stays out
    (row(5, 9), row(5, None)),  # NULL is not true
    (row(6, None), row(6, 9)),
    (row(7, 9), row(8, 1)),  # another key: the source made a delete and an insert of it
    (row(9, 1), row(10, 9)),
]


def test_an_update_that_leaves_is_a_delete_and_one_that_enters_an_insert(changes_of: Build) -> None:
    rows = out(changes_of(batch(T, CROSSINGS)), Filter("v > 5"))

    assert went_on(rows) == [
        ("d", row(1, 9), None),
        ("c", None, row(2, 9)),
        ("u", row(3, 9), row(3, 8)),
        ("d", row(5, 9), None),
        ("c", None, row(6, 9)),
        ("d", row(7, 9), None),
        ("c", None, row(10, 9)),
    ]
    assert len(rows) == len(CROSSINGS) + 2
    assert [(r["event_id"], r["part"]) for r in rows[:3]] == [
        ("source:1:0:0", 0),
        ("source:1:1:0", 0),
        ("source:1:2:0", 0),
    ]
    assert [r["key"] for r in rows[:2]] == ['{"id":1}', '{"id":2}']


def test_by_choice_an_update_that_leaves_is_filtered(changes_of: Build) -> None:
    assert went_on(out(changes_of(batch(T, CROSSINGS)), Filter("v > 5", leaving="ignore"))) == [
        ("u", row(2, 1), row(2, 9)),
        ("u", row(3, 9), row(3, 8)),
        ("u", row(6, None), row(6, 9)),
        ("d", row(7, 9), None),
        ("c", None, row(10, 9)),
    ]


@pytest.mark.parametrize(
    ("condition", "ops"),
    [
        ("_op = 'd' OR v > 5", "dcudc"),  # what is usually written so that deletes pass
        ("_op <> 'd' AND v > 5", "cuc"),  # who wants no deletes gets none
        ("_op = 'u' AND v > 5", "uuu"),  # an insert would not be kept: it stays an update
        ("before.v <> after.v", "uuuu"),  # of the change alone: nothing leaves
        ("after.v > 5", "uuu"),
        ("_table = 't' AND _ts_ms > 0 AND v > 5", "dcudc"),
    ],
)
def test_a_condition_on_more_than_the_row(changes_of: Build, condition: str, ops: str) -> None:
    rows = out(changes_of(batch(T, CROSSINGS[:6])), Filter(condition))

    assert "".join(op for op, _, _ in went_on(rows)) == ops


def test_what_is_said_of_a_lost_image_is_lost_with_it(changes_of: Build) -> None:
    bad = Unrepresentable(b"\xff")
    leaves = {**row(1, 9), "note": bad}, {**row(1, 1), "w": bad}
    enters = {**row(2, 1), "note": bad}, {**row(2, 9), "w": bad}

    rows = out(changes_of(batch(T, [leaves, enters])), Filter("v > 5"))

    assert [r["flags"] for r in rows] == [["before.note:undecodable"], ["after.w:undecodable"]]


def test_deletes_made_pass_what_follows(changes_of: Build) -> None:
    specs = (
        Filter("v > 5"),
        RenameColumns({"v": "n"}),
        Mask("w"),
        Filter("n < 9"),
        Project("id", "w"),
        Route({"*": "all"}),
    )

    rows = out(changes_of(batch(T, CROSSINGS[:3])), *specs)

    assert went_on(rows) == [("c", None, {"id": 3, "w": "***"})]
    assert {r["route"] for r in rows} == {"all"}
    (left,) = went_on(out(changes_of(batch(T, CROSSINGS[:1])), *specs[:3]))
    assert left == ("d", {"id": 1, "n": 9, "w": "***", "note": "n"}, None)


MINIMAL: list[Change] = [
    ({"id": 1}, {"v": 9}),  # kept, whatever it was
    ({"id": 2}, {"v": 1}),  # may leave
    ({"id": 3}, {"w": "x"}),  # v is in no image
    ({"id": 4}, None),
    (None, {"id": 5, "w": "x"}),
    (None, {"id": 6, "v": 9}),
]


def test_what_cannot_be_judged_is_held_back_by_name(changes_of: Build) -> None:
    rows = out(changes_of(batch(T, MINIMAL)), Filter("v > 5"))

    assert went_on(rows) == [("u", {"id": 1}, {"v": 9}), ("c", None, {"id": 6, "v": 9})]
    held = {json.loads(r["key"])["id"]: r["unjudged"] for r in rows if r["unjudged"]}
    assert held == dict.fromkeys((2, 3, 4, 5), "filter_lacks(v)")
    ignoring = out(changes_of(batch(T, MINIMAL)), Filter("v > 5", leaving="ignore"))
    assert {json.loads(r["key"])["id"] for r in ignoring if r["unjudged"]} == {3, 4, 5}
    by_key = out(changes_of(batch(T, MINIMAL)), Filter("id <> 2"))
    assert [r["unjudged"] for r in by_key] == [None] * 6
    assert [op for op, _, _ in went_on(by_key)] == ["u", "u", "d", "c", "c"]


def history(seed: int, changes: int) -> tuple[list[Change], dict[int, Row]]:
    """Return the changes of a few rows, and the rows in the end."""
    choose, rows, done = random.Random(seed), dict[int, Row](), list[Change]()
    while len(done) < changes:
        key = choose.randrange(6)
        new = row(key, choose.choice([None, 1, 4, 6, 9]), choose.choice([None, "a", "b"]))
        old = rows.pop(key, None)
        if old is not None and choose.random() < 0.2:
            done.append((old, None))
            continue
        if old is not None and choose.random() < 0.15:
            new["id"] = choose.randrange(6)
            if new["id"] in rows:
                rows[key] = old
                continue
        rows[new["id"]] = new
        done.append((old, new))
    return done, rows


def reader(rows: Sequence[Any]) -> dict[int, Row]:
    """Keep rows by key as a reader does, and refuse what cannot happen to them."""
    held: dict[int, Row] = {}
    for op, before, after in went_on(rows):
        key = (after or before)["id"]
        assert (key in held) == (op != "c"), f"{op} of {key}"
        if op != "c":
            assert held[key] == before
        if op == "d":
            del held[key]
        else:
            held[key] = after
    return held


TRUTHS: Mapping[str, Callable[[Row], bool]] = {
    "v > 5": lambda r: r["v"] is not None and r["v"] > 5,
    "v IS NULL OR w = 'a'": lambda r: r["v"] is None or r["w"] == "a",
    "coalesce(w, 'b') = 'b' AND v BETWEEN 4 AND 6": lambda r: r["w"] in (None, "b") and r["v"] in (4, 6),
    "id % 2 = 0": lambda r: r["id"] % 2 == 0,
    "NOT (v > 5)": lambda r: r["v"] is not None and r["v"] <= 5,
}


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.lists(st.sampled_from(sorted(TRUTHS)), min_size=1, max_size=2))
def test_a_reader_holds_the_rows_that_satisfy_the_conditions(
    changes_of: Build, seed: int, conditions: list[str]
) -> None:
    changes, left = history(seed, 150)

    rows = out(changes_of(batch(T, changes)), *(Filter(text) for text in conditions))

    assert reader(rows) == {key: found for key, found in left.items() if all(TRUTHS[c](found) for c in conditions)}
