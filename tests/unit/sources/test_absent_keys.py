"""Absent keys: which are deleted, how they are stored, and that a row which comes to life meanwhile stays.

The last tests play histories: a view that covers the batch's place, and a range of the log that supersedes, are needed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import DELETE, TableBatch
from databus.binlog.segments.chunk_store import ChunkStore
from databus.rows.emit import emit
from databus.rows.keys import key_encoder
from databus.sources.mysql.snapshot.absent_keys import deletes_of_absent
from databus.sources.mysql.snapshot.chunk_file import open_chunk, without_touched, write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.touched_keys import TouchedKeys, _ordered
from databus.testing.table_batches import batch, table, transactions

PAIRS = table("s.t", {"k": "varchar(9)", "v": "int", "n": "tinyint", "e": "blob"}, ("k", "n"))
COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int32()), ("n", pa.int8()), ("e", pa.binary())])
HEAD = ChunkHead(PAIRS, snapshot=3, number=2, read_at_ms=7, deletes=True)


def keys(found: TableBatch) -> list[str]:
    encoder = key_encoder(found)
    assert encoder is not None
    return [key.decode() for key in encoder.keys(found.after_row, found.before_row).to_pylist()]


def deletes(*named: str, there: tuple[tuple[str, int], ...] = ()) -> TableBatch | None:
    rows = batch(PAIRS, [(None, {"k": k, "n": n, "v": 1, "e": b""}) for k, n in there], read=True)
    return deletes_of_absent(COLUMNS, PAIRS, named, [rows])


def test_keys_that_the_view_has_are_left_out_and_the_others_carry_their_key_alone() -> None:
    made = deletes('{"k":"a","n":1}', '{"k":"ü","n":-2}', '{"k":"A","n":1}', there=(("a", 1), ("b", 1)))
    assert made is not None
    assert keys(made) == ['{"k":"ü","n":-2}', '{"k":"A","n":1}']
    (rows,) = emit(made, transactions(), "server")
    assert (set(rows["op"].to_pylist()), rows["after"].null_count) == ({"d"}, 2)
    assert deletes('{"k":"a","n":1}', there=(("a", 1),)) is None


def test_what_no_row_can_have_for_a_key_is_not_deleted(caplog: pytest.LogCaptureFixture) -> None:
    named = ('{"k":"a","n":999}', '{"k":"a"}', '{"k":1,"n":1}', '{"k":"a","n":null}', '{"k":"a","n":"x"}')
    made = deletes(*named, '{"k":"a","n":1}')
    assert made is not None
    assert keys(made) == ['{"k":"a","n":1}']
    assert caplog.text.count("nothing is deleted for it") == len(named)


def test_a_chunk_holds_them_and_loses_those_that_the_log_has(tmp_path: Path) -> None:
    store = ChunkStore(str(tmp_path), "f", "server")
    made = deletes(*(f'{{"k":"a","n":{n}}}' for n in range(4)))
    assert made is not None
    file = write_chunk(store, HEAD, [made])
    logged = pa.array([f'{{"k":"a","n":{n}}}'.encode() for n in (1, 3)])
    touched = TouchedKeys({"s.t": _ordered(("k", "n"), [logged])})
    left = without_touched(store, file, touched)
    chunk = open_chunk(store.address(left.name), left.sha256)
    (found,) = chunk.batches()
    assert (chunk.head, left.rows, left.superseded) == (HEAD, 2, 2)
    assert (keys(found), set(found.op)) == (['{"k":"a","n":0}', '{"k":"a","n":2}'], {DELETE})
    with pytest.raises(ValueError, match="a chunk takes whole rows"):
        write_chunk(store, replace(HEAD, deletes=False), [made])
    with pytest.raises(ValueError, match="a chunk takes whole rows"):
        write_chunk(store, HEAD, [batch(PAIRS, [({"k": "a", "n": 1, "v": 1, "e": b""}, None)])])
    assert ChunkHead.from_json(HEAD.to_json()) == HEAD


@dataclass(frozen=True)
class Rules:
    """Rules of a repair; the defaults are the protocol.

    Attributes:
        covers: whether the view shows all that lies before the batch's place.
        looks: whether the view decides, or what the validation saw.
        supersedes: whether an image of the key in the batch's range keeps its delete back.
        through: whether the range ends behind the last read.
    """

    covers: bool = True
    looks: bool = True
    supersedes: bool = True
    through: bool = True


WEAKENED = {
    "a view that may be behind": Rules(covers=False),
    "what was validated is deleted": Rules(looks=False),
    "no superseding": Rules(supersedes=False),
    "a range that ends before the read": Rules(through=False),
}


def wrong(seed: int, rules: Rules) -> str:
    """Play a history of a table, two sinks, a validation and a repair; return what is wrong at its end."""
    chance = random.Random(seed)
    log: list[tuple[int, int]] = [(0, 0)]

    def writes() -> None:
        for _ in range(chance.randrange(4)):
            log.append((chance.randrange(4), chance.choice((0, len(log)))))

    def table_at(place: int) -> dict[int, int]:
        return {key: value for key, value in dict(log[: place + 1]).items() if value}

    def some(low: int) -> int:
        return chance.randint(low, len(log) - 1)

    writes()
    place = some(0)
    extra = {key for key in range(4) if key not in table_at(place)}
    records = {**table_at(place), **dict.fromkeys(extra, -1)}
    documents = {key: (place, value) for key, value in records.items()}
    writes()  # and the flow goes on before the repair begins
    ahead = some(place)
    for at in range(place + 1, ahead + 1):
        records[log[at][0]] = log[at][1]
        documents[log[at][0]] = (at, log[at][1])
    writes()
    shown = table_at(some(ahead) if rules.covers else some(0))
    gone = {key for key in extra if not rules.looks or key not in shown}
    writes()
    end = some(len(log) - 1) if rules.through else some(ahead)
    rows = [(at, *log[at]) for at in range(ahead + 1, end + 1)]
    touched = {key for _, key, _ in rows} if rules.supersedes else set()
    if alive := (gone - touched) & table_at(ahead).keys():
        return f"{alive} live at {ahead}, where they are deleted"
    for at, key, value in [*((ahead, key, 0) for key in sorted(gone - touched)), *rows]:
        records[key] = value
        if at >= documents.get(key, (0, 0))[0]:
            documents[key] = (at, value)
    wanted = table_at(end)
    for sink in (records, {key: value for key, (_, value) in documents.items()}):
        if {key: value for key, value in sink.items() if value} != wanted:
            return f"{sink} is not {wanted}"
    return ""


def test_a_repair_deletes_extra_keys_and_nothing_that_lives() -> None:
    assert [found for seed in range(3_000) if (found := wrong(seed, Rules()))] == []


@pytest.mark.parametrize("rules", WEAKENED.values(), ids=WEAKENED)
def test_each_rule_that_is_left_out_is_found(rules: Rules) -> None:
    assert any(wrong(seed, rules) for seed in range(3_000))
