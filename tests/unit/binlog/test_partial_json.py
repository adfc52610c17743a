"""PARTIAL_UPDATE_ROWS: differences of JSON documents become whole documents again, or are named as unknown."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from databus.bench.decoding.json_encoder import document
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.scan import scan_events
from databus.binlog.values.json_binary import json_text
from databus.binlog.values.json_diff import apply_diffs
from databus.core.errors import DecodeError
from databus.rows.emit import emit
from tests.unit.binlog.log_encoder import Col, Log, bitmap, int_col
from tests.unit.binlog.value_encoder import integer, length_encoded, prefixed

FILE = "mysql-bin.000009"
REPLACE, INSERT, REMOVE = range(3)
Diff = tuple[int, str, Any] | tuple[int, str]


def diffs(*changes: Diff) -> bytes:
    out = b""
    for operation, path, *value in changes:
        encoded = path.encode()
        out += bytes([operation]) + length_encoded(len(encoded)) + encoded
        for one in value:
            data = document(one)
            out += length_encoded(len(data)) + data
    return out


def applied(value: Any, *changes: Diff, large: bool = False) -> Any:
    return json.loads(json_text(apply_diffs(document(value, large=large), diffs(*changes))))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ({"a": 1}, [(REPLACE, "$.a", "x")], {"a": "x"}),
        ({"a": 1}, [(INSERT, "$.bb", [1, 2])], {"a": 1, "bb": [1, 2]}),
        ({"a": 1, "b": 2}, [(REMOVE, "$.a")], {"b": 2}),
        ([1, 2, 3], [(REPLACE, "$[1]", None)], [1, None, 3]),
        ([1, 2, 3], [(INSERT, "$[1]", "n")], [1, "n", 2, 3]),
        ([1, 2, 3], [(INSERT, "$[99]", 4)], [1, 2, 3, 4]),
        ([1, 2, 3], [(REMOVE, "$[0]")], [2, 3]),
        ([1, 2, 3], [(REPLACE, "$[last]", 9), (REPLACE, "$[last-1]", 8)], [1, 8, 9]),
        ([1, 2, 3], [(REMOVE, "$[last]"), (REMOVE, "$[0]")], [2]),
        ({"a": {"b": [{"c": 1}]}}, [(REPLACE, "$.a.b[0].c", {"d": []})], {"a": {"b": [{"c": {"d": []}}]}}),
        ({"a b": {"": 1}}, [(REPLACE, '$."a b".""', 2)], {"a b": {"": 2}}),
        ({'q"\\': 1}, [(REPLACE, '$."q\\"\\\\"', 2)], {'q"\\': 2}),
        ({"x[0].y": 1}, [(REMOVE, '$."x[0].y"')], {}),
        ({"é": 1, "$": 2}, [(REPLACE, "$.é", 3), (REPLACE, "$.$", 4)], {"é": 3, "$": 4}),
        ({"a": 5}, [(REPLACE, "$.a[0]", 6)], {"a": 6}),
        ({"a": 5}, [(REPLACE, "$", [7])], [7]),
        ({"a": 5}, [(REPLACE, "$", {"b": {}}), (INSERT, "$.b.c", 1)], {"b": {"c": 1}}),
        ({"a": {"n": -40000, "m": 70000}}, [(REMOVE, "$.a.n")], {"a": {"m": 70000}}),
        (
            {"big": 2**64 - 1, "neg": -(2**63), "d": 1.5, "t": True, "z": None, "s": "x" * 300},
            [(INSERT, "$.k", 1)],
            {"big": 2**64 - 1, "neg": -(2**63), "d": 1.5, "t": True, "z": None, "s": "x" * 300, "k": 1},
        ),
    ],
)
def test_differences_give_the_document_after(before: Any, changes: list[Diff], after: Any, large: bool) -> None:
    assert applied(before, *changes, large=large) == after


def test_without_differences_the_document_is_the_same() -> None:
    assert apply_diffs(document({"a": 1}), b"") == document({"a": 1})


def test_documents_grow_past_the_small_form_and_shrink_back() -> None:
    before = {"a": [70000, -70000, 7], "b": "x"}
    grown = apply_diffs(document(before), diffs((INSERT, "$.c", "y" * 70_000)))
    assert json.loads(json_text(grown)) == {**before, "c": "y" * 70_000}
    assert grown[0] == 1
    inner = apply_diffs(grown, diffs((REPLACE, "$.a[0]", 80000)))
    shrunk = apply_diffs(inner, diffs((REMOVE, "$.c")))
    assert json.loads(json_text(shrunk)) == {"a": [80000, -70000, 7], "b": "x"}
    assert shrunk[0] == 0


@pytest.mark.parametrize(
    ("before", "change", "words"),
    [
        ({"a": 1}, diffs((REPLACE, "$.b", 1)), "does not allow"),
        ({"a": 1}, diffs((INSERT, "$.a", 1)), "does not allow"),
        ({"a": 1}, diffs((REMOVE, "$.b")), "does not allow"),
        ([1], diffs((REMOVE, "$[5]")), "does not allow"),
        ([1], diffs((INSERT, "$.a", 1)), "does not allow"),
        ({"a": 1}, diffs((INSERT, "$[0]", 1)), "does not allow"),
        ({"a": 1}, diffs((REPLACE, "$.b.c", 1)), r"nothing at \$\.b\.c"),
        ({"a": 1}, diffs((REPLACE, "a", 1)), "no JSON path"),
        ({"a": 1}, diffs((REPLACE, "$.*", 1)), "does not allow"),
        ({"a": 1}, diffs((REPLACE, "$**.a", 1)), "no JSON path"),
        ([1], diffs((REPLACE, "$[*]", 1)), "no JSON path"),
        ({"a": 1}, diffs((REPLACE, '$."a', 1)), "Unterminated|JSON path"),
        ({"a": 1}, diffs((REMOVE, "$")), "only be replaced"),
        ({"a": 1}, b"\x03" + diffs((REMOVE, "$.a"))[1:], "operation 3"),
        ({"a": 1}, diffs((REPLACE, "$.a", 1))[:-1], "past its end"),
        ({"a": 1}, diffs((REPLACE, "$.a", 1))[:1], "damaged"),
        ({"a": 1}, b"\x00\x02$\xff\x02\x04\x00", "utf-8"),
        ({"a": 1}, b"\x00\x03$.a\x00", "damaged"),
    ],
)
def test_differences_that_do_not_fit(before: Any, change: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        apply_diffs(document(before), change)


def test_damaged_documents_and_differences_never_break_it() -> None:
    whole = document({"a": [1, {"b": "xyz"}, 70000], "c": {"d": 1.5}})
    change = diffs((REPLACE, "$.a[1].b", "new"), (INSERT, "$.c.e", 7), (REMOVE, "$.a[0]"))
    detected = 0
    for place, data in enumerate((whole, change)):
        for at in range(len(data)):
            for bit in range(8):
                damaged = bytearray(data)
                damaged[at] ^= 1 << bit
                try:
                    if place == 0:
                        json_text(apply_diffs(bytes(damaged), change))
                    else:
                        json_text(apply_diffs(whole, bytes(damaged)))
                except ValueError:
                    detected += 1
    assert detected > 200


def test_values_that_share_bytes_are_no_document() -> None:
    text = bytes([20]) + b"x" * 20
    shared = bytes([2]) + struct.pack("<HHBHBH", 2, 10 + len(text), 12, 10, 12, 10) + text
    with pytest.raises(ValueError, match="overlap"):
        apply_diffs(shared, diffs((INSERT, "$[0]", 1)))


COLUMNS = [int_col(), Col("a", 245, b"\x04"), int_col("n"), Col("b", 245, b"\x04")]
Image = Sequence[bytes | None]


def stored(value: Any) -> bytes:
    return prefixed(document(value), 4)


def differing(*changes: Diff) -> bytes:
    return prefixed(diffs(*changes), 4)


def image(values: Image) -> bytes:
    return bitmap([v is None for v in values]) + b"".join(v for v in values if v is not None)


def partial_update(
    log: Log,
    rows: Sequence[tuple[Image, int | None, Image]],
    before: Sequence[bool] = (True,) * 4,
    after: Sequence[bool] = (True,) * 4,
) -> Log:
    """Add an event of updates: before-image, bits of partial columns (None: no PARTIAL_JSON), after-image."""
    body = (1).to_bytes(6, "little") + b"\x01\0\x02\0" + length_encoded(4) + bitmap(before) + bitmap(after)
    for old, bits, new in rows:
        body += image(old) + (b"\0" if bits is None else b"\x01" + bytes([bits])) + image(new)
    return log.add(39, body)


def begun(*, checksum: bool = True) -> Log:
    return Log(checksum=checksum).gtid().begin().table_map(1, "t", COLUMNS)


def batches(log: Log) -> list[TableBatch]:
    return [b for b in decode_events(bytes(log.data), file=FILE) if isinstance(b, TableBatch)]


def ints(*values: int) -> list[bytes]:
    return [integer(v, 4) for v in values]


def test_updates_become_whole_again() -> None:
    log = begun()
    one, two, five = ints(1, 2, 5)
    log.rows(30, 1, 4, [[one, stored({"k": 1}), five, stored([])], [two, None, five, stored({})]])
    partial_update(
        log,
        [
            ([one, stored({"k": 1}), five, stored([])], 1, [one, differing((REPLACE, "$.k", 2)), five, stored([9])]),
            ([two, None, five, stored({})], 2, [two, stored(7), five, differing((INSERT, "$.z", 1))]),
            ([one, stored({"k": 2}), five, stored([9])], 3, [one, differing(), five, differing((REMOVE, "$[0]"))]),
            ([one, stored({"k": 2}), five, stored([])], 0, [one, None, two, stored([])]),
            ([one, None, two, stored([])], None, [one, stored("s"), two, None]),
        ],
    )
    log.rows(32, 1, 4, [[one, stored("s"), two, None]]).xid()
    (batch,) = batches(log)
    seen = [(r["id"], r["a"], r["n"], r["b"]) for r in batch.images.to_pylist()]
    after = [seen[i] for i in batch.after_row.tolist() if i >= 0]
    assert after == [
        (1, '{"k":1}', 5, "[]"),
        (2, None, 5, "{}"),
        (1, '{"k":2}', 5, "[9]"),
        (2, "7", 5, '{"z":1}'),
        (1, '{"k":2}', 5, "[]"),
        (1, None, 2, "[]"),
        (1, '"s"', 2, None),
    ]
    assert batch.op.tolist() == [0, 0, 1, 1, 1, 1, 1, 2]
    assert batch.ordinal.tolist() == list(range(8))
    assert batch.partial == {}
    assert all(p.all() for p in batch.presence_sets)
    assert scan_events(bytes(log.data), file=FILE).rows == {"shop.t": 8}


@pytest.mark.parametrize("other_table", [False, True])
def test_documents_that_the_log_does_not_hold_are_absent_and_named(other_table: bool) -> None:
    log = begun()
    if other_table:  # then ordinals are given per event
        log.table_map(2, "u", [int_col()]).rows(30, 2, 1, [ints(1)])
    one, two, five = ints(1, 2, 5)
    key = (True, False, False, False)
    after = (False, True, True, True)
    partial_update(
        log,
        [
            ([one], 1, [differing((REPLACE, "$.k", 2)), five, stored([9])]),
            ([two], 0, [stored("whole"), five, None]),
            ([one], 3, [differing(), five, differing((REMOVE, "$.k"))]),
            ([two], 3, [differing(), five, differing()]),
        ],
        key,
        after,
    )
    log.rows(32, 1, 4, [[one]], list(key)).xid()
    batch = next(b for b in batches(log) if b.schema.table == "t")
    names = batch.images.schema.names
    carried = [
        {n for n, there in zip(names, batch.presence_sets[batch.presence[i]].tolist(), strict=True) if there}
        for i in batch.after_row.tolist()
        if i >= 0
    ]
    assert carried == [{"n", "b"}, {"a", "n", "b"}, {"n"}, {"n"}]
    images = batch.after_row.tolist()
    assert batch.partial == {1: frozenset({images[0]}), 3: frozenset({images[2]})}
    assert batch.images.column("a")[images[1]].as_py() == '"whole"'
    assert batch.ordinal.tolist() == [n + other_table for n in range(5)]
    assert batch.op.tolist() == [1, 1, 1, 1, 2]


def test_rows_with_unknown_documents_are_flagged() -> None:
    log = begun()
    after = (False, True, False, False)
    unknown, unchanged = [differing((REPLACE, "$.k", 2))], [differing()]
    partial_update(log, [(ints(1), 1, unknown), (ints(2), 1, unchanged)], (True, False, False, False), after).xid()
    decoded = decode_events(bytes(log.data), file=FILE)
    (batch,) = [b for b in decoded if isinstance(b, TableBatch)]
    (rows,) = emit(batch, decoded.transactions, "server")
    assert rows["flags"].to_pylist() == [["after.a:partial"], None]


def test_many_updates_over_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.binlog.decoding.table_rows.MAX_IMAGES", 8)
    log = begun()
    key, after = (True, False, False, False), (False, True, False, False)
    for n in range(30):
        partial_update(
            log,
            [([integer(n, 4)], int(n % 3 == 0), [differing((REMOVE, "$.k")) if n % 3 == 0 else stored(n)])],
            key,
            after,
        )
    log.xid()
    found = batches(log)
    assert len(found) > 3
    unknown = []
    for batch in found:
        rows = batch.partial.get(1, frozenset())
        unknown += [after in rows for after in batch.after_row.tolist()]
    assert unknown == [n % 3 == 0 for n in range(30)]


@pytest.mark.parametrize("checksum", [True, False])
def test_faults_are_named_with_position_and_column(checksum: bool) -> None:
    one, five = ints(1, 5)
    cases = [
        ([one, None, five, None], 1, [one, differing((REPLACE, "$.k", 2)), five, None], r"shop\.t\.a .*is NULL"),
        (
            [one, stored({}), five, None],
            1,
            [one, differing((REPLACE, "$.k", 2)), five, None],
            r"shop\.t\.a .*do not fit",
        ),
        ([one, stored({}), five, None], 4, [one, stored({}), five, None], "more JSON columns"),
    ]
    for before, bits, after, words in cases:
        log = begun(checksum=checksum)
        at = log.position
        partial_update(log, [(before, bits, after)]).xid()
        with pytest.raises(DecodeError, match=words) as caught:
            batches(log)
        assert caught.value.message.startswith(f"{FILE}:{at}: event PARTIAL_UPDATE_ROWS (39) for shop.t")


def test_flipped_bits_never_break_the_decoder() -> None:
    log = begun(checksum=False)
    at = len(log.data)
    one, five = ints(1, 5)
    partial_update(
        log,
        [([one, stored({"k": [1, 2]}), five, None], 1, [one, differing((INSERT, "$.k[1]", "v")), five, stored([9])])],
    )
    end = len(log.data)
    log.xid()
    data = bytes(log.data)
    detected = 0
    for place in range(at, end):
        for bit in (place % 8, (place + 3) % 8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            try:
                list(decode_events(bytes(damaged), file=FILE))
            except DecodeError as found:
                detected += found.message.startswith(f"{FILE}:")
    assert detected > end - at


def test_rewriting_leaves_other_tables_alone() -> None:
    log = begun()
    log.table_map(2, "u", [int_col()]).rows(30, 2, 1, [ints(1), ints(2)])
    one, five = ints(1, 5)
    partial_update(log, [([one, stored({"k": 1}), five, None], 1, [one, differing((REMOVE, "$.k")), five, None])])
    log.rows(30, 2, 1, [ints(3)]).xid()
    by_table = {b.schema.table: b for b in batches(log)}
    assert by_table["u"].ordinal.tolist() == [0, 1, 3]
    assert by_table["t"].ordinal.tolist() == [2]
    assert by_table["t"].images.column("a").to_pylist() == ['{"k":1}', "{}"]
    assert np.array_equal(by_table["u"].op, [0, 0, 0])
