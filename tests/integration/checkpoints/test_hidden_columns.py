"""What is remembered of hidden columns, on a real ZooKeeper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from databus.core.errors import CheckpointFormatError
from databus.core.tables.hidden_columns import RememberedHidden
from tests.contract.checkpoint_store import FLOW
from tests.integration.checkpoints.stores import Connect, in_thread

pytestmark = pytest.mark.integration


def test_hidden_columns_are_added_and_told_apart_by_flow(connect: Connect, raw: Any) -> None:
    kept = connect().hidden_columns()
    assert not kept.load(FLOW)
    kept.add(FLOW, RememberedHidden({"shop.a": {"x"}}))
    connect().hidden_columns().add(FLOW, RememberedHidden({"shop.b": {"y"}, "shop.a": {"z"}}))
    kept.add("other", RememberedHidden({"shop.c": {"x"}}))
    assert connect().hidden_columns().load(FLOW).tables == {"shop.a": {"x", "z"}, "shop.b": {"y"}}
    path = f"{connect.root}/flows/{FLOW}/hidden_columns"
    assert json.loads(raw.get(path)[0]) == {"v": 1, "tables": {"shop.a": ["x", "z"], "shop.b": ["y"]}}
    kept.add(FLOW, RememberedHidden(renamed={"shop.b": {"shop.a"}}, shown={"shop.a": {"x"}}))
    more = {"renamed": {"shop.b": ["shop.a"]}, "shown": {"shop.a": ["x"]}}
    assert json.loads(raw.get(path)[0]) == {"v": 2, "tables": {"shop.a": ["x", "z"], "shop.b": ["y"]}, **more}
    kept.add(FLOW, RememberedHidden(beside={"shop._a_gho": {"x\0y"}}), RememberedHidden(shown={"shop.a": {"x"}}))
    more = {"renamed": {"shop.b": ["shop.a"]}, "beside": {"shop._a_gho": ["x\0y"]}}
    assert json.loads(raw.get(path)[0]) == {"v": 3, "tables": {"shop.a": ["x", "z"], "shop.b": ["y"]}, **more}
    kept.of_sink("a/b").add(FLOW, RememberedHidden({"shop.a": {"own"}}))
    assert connect().hidden_columns().of_sink("a/b").load(FLOW).tables == {"shop.a": {"own"}}
    assert not connect().hidden_columns().of_sink("other").load(FLOW)
    assert json.loads(raw.get(f"{path}@a%2Fb")[0])["tables"] == {"shop.a": ["own"]}
    assert "own" not in connect().hidden_columns().load(FLOW).tables["shop.a"]
    raw.set(path, b'{"v":4,"tables":{}}')
    with pytest.raises(CheckpointFormatError, match="hidden columns of flow"):
        kept.load(FLOW)


def test_hidden_columns_of_any_number_of_tables_are_remembered(connect: Connect, raw: Any) -> None:
    def tables(*numbers: int) -> RememberedHidden:
        return RememberedHidden({f"tenant_{n:05}.customers": frozenset({"email"}) for n in range(*numbers)})

    path = f"{connect.root}/flows/{FLOW}/hidden_columns"
    stored = json.dumps(tables(6_000).to_json(), separators=(",", ":")).encode()
    raw.create(path, stored, makepath=True)  # as an earlier databus left it: close to what it could write
    kept = connect().hidden_columns()
    assert kept.load(FLOW) == tables(6_000)
    for first in range(5_500, 8_000, 500):
        kept.add(FLOW, tables(first, first + 500))
    kept.add(FLOW, tables(20_000))  # at once
    assert raw.get(path)[0] == stored
    sizes = [len(raw.get(f"{path}/{name}")[0]) for name in raw.get_children(path)]
    assert len(sizes) > 3
    assert max(sizes) < 160 * 1024
    assert connect().hidden_columns().load(FLOW) == tables(20_000)


def test_what_holds_no_more_is_taken_back_wherever_it_stands(connect: Connect) -> None:
    kept = connect().hidden_columns()
    for side in "abc":  # a page each
        kept.add(FLOW, RememberedHidden(beside={f"shop.{side}": frozenset(f"{'x' * 40}_{n:04}" for n in range(2_000))}))
        kept.add(FLOW, RememberedHidden(shown={"shop.t": {side, "x"}}))
    before = connect().hidden_columns().load(FLOW)
    gone = RememberedHidden(beside={"shop.a": before.beside["shop.a"]}, shown={"shop.t": {"a", "c", "x"}})
    kept.add(FLOW, RememberedHidden({"shop.t": {"new"}}), gone)
    kept.add(FLOW, RememberedHidden(), gone)
    after = connect().hidden_columns().load(FLOW)
    assert (after.tables, after.shown) == ({"shop.t": {"new"}}, {"shop.t": {"b"}})
    assert after.beside == {name: before.beside[name] for name in ("shop.b", "shop.c")}


def test_hidden_columns_that_two_runs_find_at_once_are_all_kept(connect: Connect) -> None:
    # A page each: both make the same one again and again.
    names = [f"{'x' * 40}_{n:04}" for n in range(2_000)]
    both = [(connect().hidden_columns(), side) for side in ("a", "b")]
    running = [
        in_thread(
            lambda kept=kept, side=side: [
                kept.add(FLOW, RememberedHidden({f"{side}.{n}": frozenset(names)})) for n in range(3)
            ]
        )
        for kept, side in both
    ]
    for thread, results in running:
        thread.join()
        assert not isinstance(results[0], Exception), results
    found = connect().hidden_columns().load(FLOW)
    assert found.tables == {f"{side}.{n}": frozenset(names) for _, side in both for n in range(3)}
