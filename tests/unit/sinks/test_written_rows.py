"""Rows inside envelopes: found as they were written, and the same as a parser finds."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from databus.sinks.kafka.held_rows import contents_of, state_of
from databus.sinks.row_state import FOREIGN, settled
from databus.sinks.written_rows import DELETED, OTHER, ROW, cut_out, written_rows

NASTY = ['"', "\\", '","after":', '},"source":{', '","__op":"c","__deleted":true,', "}{][", "null", "ü\n"]


def some_row(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """Return a row with names and values that look like an envelope's parts."""
    kinds: list[Any] = [None, True, 1, -2.5, *NASTY]
    values = [chance.choice(kinds) for _ in range(chance.randrange(4))]
    row: dict[str, Any] = {chance.choice([*NASTY, "a", "after", "source"]) + str(n): v for n, v in enumerate(values)}
    if depth < 2 and chance.random() < 0.4:
        row["j"] = [some_row(chance, depth + 1), chance.choice(NASTY)]
        row["after"] = some_row(chance, depth + 1)
    return row


def dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def envelope(before: str, after: str) -> bytes:
    return f'{{"before":{before},"after":{after},"source":{{"version":"1"}},"op":"u","transaction":null}}'.encode()


def plain(row: dict[str, Any], deleted: bool) -> bytes:
    added = {"__op": "u", "__deleted": deleted, "__ts_ms": 5, "__event_id": 'e"1', "__flags": ["x"]}
    return dumped({**row, **added}).encode()


@pytest.mark.parametrize("seed", range(30))
def test_what_databus_wrote_is_found_without_a_parser(seed: int) -> None:
    chance = random.Random(seed)
    rows = [some_row(chance) for _ in range(20)]
    images = [chance.choice(["null", dumped(some_row(chance))]) for _ in rows]
    values = [envelope(before, dumped(row)) for before, row in zip(images, rows, strict=True)]
    found, states = written_rows(pa.array(values, pa.binary()), "debezium")
    assert (found.to_pylist(), set(states)) == ([dumped(row).encode() for row in rows], {ROW})
    assert [settled(each) for each in found.to_pylist()] == [state_of(value, "debezium") for value in values]

    rows = [{**row, "last": 1} for row in rows]
    gone = [chance.random() < 0.3 for _ in rows]
    values = [plain(row, deleted) for row, deleted in zip(rows, gone, strict=True)]
    found, states = written_rows(pa.array(values, pa.binary()), "row")
    assert [state == DELETED for state in states] == gone
    assert OTHER not in states
    assert [settled(each) for each in found.to_pylist()] == [state_of(value, "row") for value in values]


@pytest.mark.parametrize("kind", ["debezium", "row"])
def test_what_others_wrote_is_parsed_and_no_row_of_a_foreign_value(kind: str) -> None:
    whole = [envelope('{"id":1}', '{"id":2}'), plain({"id": 2}, deleted=False)]
    cut = [value[:size] for value in whole for size in range(len(value))]
    odd = [b'{"id":1}', b"[]", b'{"__op":"c","__deleted":false}', envelope("null", "null"), envelope("[]", '{"a":1}')]
    spaced = [b'{"before": null, "after": {"id": 1.0}}', b'{"id":1.0,"__deleted":false}']
    values = [*cut, *odd, *spaced, None, envelope("null", '{"a":1]')]
    found = contents_of(pa.array(values, pa.binary()), kind).to_pylist()
    for value, content in zip(values, found, strict=True):
        parsed, read = state_of(value, kind), settled(content)
        foreign = [each is not None and each.startswith(FOREIGN) for each in (parsed, read)]
        assert foreign == [True, True] or read == parsed
    assert found[values.index(b'{"id":1}')] == FOREIGN + b'{"id":1}'


@pytest.mark.parametrize("seed", range(20))
def test_documents_are_cut_out_of_an_answer_as_they_were_written(seed: int) -> None:
    chance = random.Random(seed)
    rows = [{"_source": {"a": 1}, **some_row(chance)} for _ in range(chance.randrange(40))]
    hits = [{"_id": chance.choice([*NASTY, '"_source":{}']), "_source": row, "sort": [1]} for row in rows]
    text = dumped({"hits": {"_source": {"not": "deep"}, "hits": hits}})
    rest, found = cut_out(text.encode(), "_source", 4)
    assert found == [dumped(row).encode() for row in rows]
    numbered = [{**hit, "_source": number} for number, hit in enumerate(hits)]
    assert json.loads(rest) == {"hits": {"_source": {"not": "deep"}, "hits": numbered}}
    assert cut_out(text.encode()[: len(text) // 2], "_source", 0)[1] == []
