"""Rows filtered by range, remainder and hash before they are encoded; each image judged on its own, all counted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus import HashPartition, ModuloPartition, MysqlBinlog, RangePartition
from databus.core.errors import ConfigError
from databus.registry import flow_from_json, spec_class
from databus.rows.emit import emit
from databus.rows.murmur2 import murmur2
from databus.rows.partitions import modulo_mask, range_mask
from databus.sources.mysql.row_filters import RowFilter, RowFilters
from databus.testing.table_batches import Image, batch, table, transactions

SCHEMA = table("shop.orders", {"id": "int", "v": "text"})
TABLE = "shop.orders"


def rows(filters: tuple[RowFilter, ...], *changes: tuple[Image | None, Image | None]) -> list[dict[str, Any]]:
    narrowed = RowFilters(filters).narrow(batch(SCHEMA, changes))
    return [r for piece in emit(narrowed, transactions(4), "srv") for r in piece.to_pylist()]


def shape(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["op"], r["ordinal"], r["part"], r["key"], r["before"] is None, r["after"] is None) for r in found]


LOW = RangePartition(tables=TABLE, column="id", upper=10)


def test_inserts_and_deletes_outside_are_counted_without_content() -> None:
    found = rows((LOW,), (None, {"id": 1, "v": "a"}), (None, {"id": 10, "v": "a"}), ({"id": 11, "v": "b"}, None))
    assert shape(found) == [
        ("c", 0, 0, b'{"id":1}', True, False),
        ("f", 1, 0, None, True, True),
        ("f", 2, 0, None, True, True),
    ]
    assert [r["key_hash"] for r in found[1:]] == [0, 0]
    assert len({r["event_id"] for r in found}) == 3


def test_each_half_of_a_moving_update_is_judged_on_its_own() -> None:
    inside, outside = {"id": 1, "v": "a"}, {"id": 20, "v": "a"}
    assert shape(rows((LOW,), (inside, outside))) == [
        ("d", 0, 0, b'{"id":1}', False, True),
        ("f", 0, 1, None, True, True),
    ]
    assert shape(rows((LOW,), (outside, inside))) == [
        ("f", 0, 0, None, True, True),
        ("c", 0, 1, b'{"id":1}', True, False),
    ]
    assert shape(rows((LOW,), (inside, {"id": 2, "v": "a"}))) == [
        ("d", 0, 0, b'{"id":1}', False, True),
        ("c", 0, 1, b'{"id":2}', True, False),
    ]
    assert shape(rows((LOW,), (outside, {"id": 21, "v": "a"}))) == [("f", 0, 0, None, True, True)]
    by_value = RangePartition(tables=TABLE, column="v", lower="m")
    assert shape(rows((by_value,), ({"id": 1, "v": "z"}, {"id": 1, "v": "a"}))) == [
        ("d", 0, 0, b'{"id":1}', False, True),
        ("f", 0, 1, None, True, True),
    ]
    assert shape(rows((by_value,), ({"id": 1, "v": "z"}, {"id": 1, "v": "y"})))[0][0] == "u"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), max_size=30), st.integers(1, 7))
def test_partitions_together_hold_each_row_once(keys: list[tuple[int, int]], count: int) -> None:
    changes = [({"id": a, "v": "x"}, {"id": b, "v": "y"}) for a, b in keys]
    whole = {r["event_id"] if r["op"] != "u" else (r["event_id"], "u") for r in rows((), *changes)}
    for filters in (
        [ModuloPartition(tables=TABLE, column="id", modulus=count, remainders=(n,)) for n in range(count)],
        [HashPartition(tables=TABLE, partitions=count, keep=(n,)) for n in range(count)],
    ):
        pieces = [rows((f,), *changes) for f in filters]
        kept = [r["event_id"] if r["op"] != "u" else (r["event_id"], "u") for p in pieces for r in p if r["op"] != "f"]
        assert len(kept) == len(set(kept))
        assert set(kept) == whole
        for piece in pieces:  # every change is accounted for in every flow
            assert [r["ordinal"] for r in piece if r["part"] == 0] == list(range(len(keys)))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.integers(), st.integers())
def test_integer_ranges_are_pythons(values: list[int | None], lower: int, upper: int) -> None:
    expected = [v is not None and lower <= v < upper for v in values]
    assert range_mask(pa.array(values, pa.int64()), lower, upper).tolist() == expected
    unsigned = [None if v is None else v + 2**63 for v in values]
    expected = [v is not None and lower <= v < upper for v in unsigned]
    assert range_mask(pa.array(unsigned, pa.uint64()), lower, upper).tolist() == expected


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.integers(1, 2**31 - 1))
def test_remainders_are_pythons(values: list[int | None], modulus: int) -> None:
    wanted = (0, modulus - 1)
    expected = [v is not None and v % modulus in wanted for v in values]
    assert modulo_mask(pa.array(values, pa.int64()), modulus, wanted).tolist() == expected
    unsigned = [None if v is None else v + 2**63 for v in values]
    expected = [v is not None and v % modulus in wanted for v in unsigned]
    assert modulo_mask(pa.array(unsigned, pa.uint64()), modulus, wanted).tolist() == expected


@pytest.mark.parametrize(
    ("values", "kind", "lower", "upper", "inside"),
    [
        ([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(10, 2), "1.505", 3, [False, True, False]),
        ([dt.date(2026, 1, 1), dt.date(2026, 2, 1)], pa.date32(), dt.date(2026, 1, 15), None, [False, True]),
        ([dt.datetime(2026, 1, 1, 5), dt.datetime(2026, 1, 2)], pa.timestamp("us"), None,  # noqa: DTZ001 - DATETIME
         dt.datetime(2026, 1, 1, 6), [True, False]),  # noqa: DTZ001
        (["a", "ä", "b"], pa.string(), "b", None, [False, True, True]),
        (["a", "ä", "b"], pa.dictionary(pa.int16(), pa.string()), None, "b", [True, False, False]),
        ([b"\x00", b"\xff"], pa.binary(), "a", None, [False, True]),
        ([1.5, 2.5, None], pa.float64(), 2, None, [False, True, False]),
    ],
)  # fmt: skip
def test_ranges_of_every_type(values: list[Any], kind: Any, lower: Any, upper: Any, inside: list[bool]) -> None:
    spec = RangePartition(tables=TABLE, column="x", lower=lower, upper=upper)
    assert range_mask(pa.array(values, kind), spec.lower, spec.upper).tolist() == inside


def test_hash_is_that_of_a_kafka_topic() -> None:
    keep = (murmur2(b'{"id":7}') & 0x7FFFFFFF) % 12
    spec = HashPartition(tables=TABLE, partitions=12, keep=(keep,))
    assert [r["op"] for r in rows((spec,), (None, {"id": 7, "v": "a"}))] == ["c"]
    others = HashPartition(tables=TABLE, partitions=12, keep=tuple(set(range(12)) - {keep}))
    assert [r["op"] for r in rows((others,), (None, {"id": 7, "v": "a"}))] == ["f"]


def test_all_filters_of_a_table_must_pass_and_other_tables_do() -> None:
    even = ModuloPartition(tables="shop.*", column="id", modulus=2, remainders=(0,))
    other = RangePartition(tables="re:store\\..*", column="nothing", lower=1)
    inserts = [(None, {"id": n, "v": "a"}) for n in (1, 2, 11, 12)]
    assert [r["op"] for r in rows((LOW, even, other), *inserts)] == ["f", "c", "f", "f"]


def test_a_new_image_without_the_column_is_as_the_old_one() -> None:
    minimal = rows((LOW,), ({"id": 1}, {"v": "b"}), ({"id": 11}, {"v": "b"}))
    assert [r["op"] for r in minimal] == ["u", "f"]
    by_value = RangePartition(tables=TABLE, column="v", lower="m")
    noblob = rows((by_value,), ({"id": 1, "v": "z"}, {"id": 1}), ({"id": 2, "v": "a"}, {"id": 2}))
    assert [(r["op"], r["flags"]) for r in noblob] == [("u", None), ("f", None)]


class TestUnjudged:
    """The log does not say what the column was: no partition may guess."""

    COUNT: ClassVar = 3

    @staticmethod
    def partition(value: str) -> int:
        return (murmur2(json.dumps({"v": value}, separators=(",", ":")).encode()) & 0x7FFFFFFF) % TestUnjudged.COUNT

    def found(self, before: Image | None, after: Image | None, count: int = COUNT) -> list[list[dict[str, Any]]]:
        """Return the rows of each partition's flow."""
        specs = [HashPartition(tables=TABLE, columns=("v",), partitions=count, keep=(n,)) for n in range(count)]
        return [rows((spec,), (before, after)) for spec in specs]

    def test_an_old_value_that_is_not_logged_is_held_where_the_row_may_leave(self) -> None:
        found = self.found({"id": 1}, {"v": "a"})
        here = self.partition("a")
        (kept,) = found.pop(here)
        assert (kept["op"], kept["flags"], kept["after"] is None) == ("u", None, False)
        for (held,) in found:
            assert (held["op"], held["key"]) == ("u", b'{"id":1}')
            assert held["flags"] == ["before.v:unjudged", "after.v:unjudged"]

    @pytest.mark.parametrize(
        ("before", "after", "op", "flags"),
        [
            (None, {"id": 1}, "c", ["after.v:unjudged"]),
            ({"id": 1}, None, "d", ["before.v:unjudged"]),
            ({"id": 1}, {"id": 1}, "u", ["before.v:unjudged", "after.v:unjudged"]),
        ],
    )
    def test_a_change_without_the_column_is_held_in_each(
        self, before: Image | None, after: Image | None, op: str, flags: list[str]
    ) -> None:
        for (held,) in self.found(before, after):
            assert (held["op"], held["flags"]) == (op, flags)

    def test_both_halves_of_a_moved_key_are_held(self) -> None:
        found = self.found({"id": 1}, {"id": 2, "v": "a"})
        found.pop(self.partition("a"))
        for halves in found:
            assert [(r["op"], r["flags"]) for r in halves] == [
                ("d", ["before.v:unjudged"]),
                ("c", ["after.v:unjudged"]),
            ]

    def test_what_another_filter_leaves_out_for_certain_is_out(self) -> None:
        by_value = HashPartition(tables=TABLE, columns=("v",), partitions=2, keep=(0,))
        found = rows((LOW, by_value), ({"id": 20}, {"id": 20}), (None, {"id": 1}))
        assert [(r["op"], r["flags"]) for r in found] == [("f", None), ("c", ["after.v:unjudged"])]

    def test_a_document_of_which_only_differences_are_logged_is_not_what_it_was(self) -> None:
        changes = [({"id": 1, "v": "z"}, {"id": 1}), ({"id": 2, "v": "z"}, {"id": 2})]
        partial = dataclasses.replace(batch(SCHEMA, changes), partial={1: frozenset({1})})
        narrowed = RowFilters((RangePartition(tables=TABLE, column="v", lower="m"),)).narrow(partial)
        assert (narrowed.unjudged, narrowed.partial) == ({1: frozenset({0, 1})}, {1: frozenset({1})})

    @pytest.mark.parametrize("kind", ["range", "modulo"])
    def test_of_every_filter(self, kind: str) -> None:
        number = table(TABLE, {"id": "int", "n": "int"})
        spec: RowFilter = RangePartition(tables=TABLE, column="n", lower=5)
        if kind == "modulo":
            spec = ModuloPartition(tables=TABLE, column="n", modulus=10, remainders=(5, 6, 7, 8, 9))
        changes = [({"id": 1}, {"n": 7}), ({"id": 1}, {"n": 2}), ({"id": 1}, None), ({"id": 1, "n": 7}, {"id": 2})]
        narrowed = RowFilters((spec,)).narrow(batch(number, changes))
        assert narrowed.unjudged == {1: frozenset({2, 3, 4})}
        assert (narrowed.before_row.tolist(), narrowed.after_row.tolist()) == ([0, 2, 4, 5], [1, 3, -1, 6])


def test_what_is_known_of_images_moves_with_them() -> None:
    changes = [(None, {"id": 20, "v": "a"}), ({"id": 1}, {"id": 1}), ({"id": 2, "v": "a"}, {"id": 2})]
    flagged = dataclasses.replace(batch(SCHEMA, changes), partial={1: frozenset({2, 4})})
    narrowed = RowFilters((LOW,)).narrow(flagged)
    assert narrowed.partial == {1: frozenset({1, 3})}


def test_filters_survive_json_and_pickle() -> None:
    spec = MysqlBinlog(
        conn_id="m",
        tables=("shop.*",),
        row_filters=(
            RangePartition(tables=TABLE, column="at", lower=dt.date(2026, 1, 1)),
            ModuloPartition(tables=(TABLE, "shop.b"), column="id", modulus=4, remainders=(1, 3)),
            HashPartition(tables="shop.*", partitions=3, keep=(0,)),
        ),
    )
    options = {k: v for k, v in spec.to_json().items() if k != "kind"}
    assert spec_class("sources", "mysql_binlog").from_stored(options) == spec
    assert flow_from_json.__doc__
    filters = RowFilters(spec.row_filters)
    assert pickle.loads(pickle.dumps(filters)) == filters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RangePartition(tables=TABLE, column="id"), "give lower, upper or both"),
        (lambda: RangePartition(tables=TABLE, column="id", lower=5, upper=5), "is empty"),
        (lambda: RangePartition(tables="orders", column="id", lower=5), "names no database"),
        (lambda: ModuloPartition(tables=TABLE, column="id", modulus=0, remainders=(0,)), "modulus"),
        (lambda: ModuloPartition(tables=TABLE, column="id", modulus=3, remainders=(3,)), "3 is not in 0 … 2"),
        (lambda: ModuloPartition(tables=TABLE, column="id", modulus=3, remainders=()), "remainders"),
        (lambda: HashPartition(tables=TABLE, partitions=3, keep=(-1,)), "-1 is not in 0 … 2"),
        (lambda: HashPartition(tables=(), partitions=3, keep=(1,)), "tables"),
        (lambda: MysqlBinlog(conn_id="m", tables=("a.b",), row_filters=({"by": "colour"},)), "row_filters"),
        (lambda: MysqlBinlog(conn_id="m", tables=("a.b",), row_filters=({"by": "hash", "tables": "a.b"},)), "missing"),
    ],
)
def test_bad_options_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (RangePartition(tables=TABLE, column="nix", lower=1), "shop.orders has no column 'nix'; its columns are id, v"),
        (ModuloPartition(tables=TABLE, column="v", modulus=2, remainders=(0,)), "only integers have a remainder"),
        (HashPartition(tables=TABLE, columns=("nix",), partitions=2, keep=(0,)), "has no column 'nix'"),
    ],
)
def test_tables_that_cannot_be_judged_are_refused_before_any_row(wanted: RowFilter, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RowFilters((wanted,)).check((SCHEMA,))
    with pytest.raises(ConfigError, match=r"shop\.orders"):
        rows((wanted,), (None, {"id": 1, "v": "a"}))


def test_a_bound_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'soon' is no value"):
        rows((RangePartition(tables=TABLE, column="id", lower="soon"),), (None, {"id": 1, "v": "a"}))


def test_a_table_without_key_needs_columns_to_hash() -> None:
    keyless = table("shop.orders", {"id": "int"}, primary_key=())
    with pytest.raises(ConfigError, match="no primary key"):
        RowFilters((HashPartition(tables=TABLE, partitions=2, keep=(0,)),)).check((keyless,))
