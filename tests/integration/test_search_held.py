"""Held documents on real servers: what a validation reads of OpenSearch and Elasticsearch, exactly."""

from __future__ import annotations

import json
import random
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from databus.core.errors import SinkAccessError, SinkUnavailableError
from databus.core.errors.sink import ValidationRefusedError
from databus.core.protocols.validated_sink import ValidatedSink, held_schema
from databus.core.tables.schemas import TableSchema
from databus.sinks.elasticsearch import held_documents
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.row_state import settled, shown
from tests.integration import search_target as given
from tests.integration.search_target import ORDERS, arrow, change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target

ITEMS = TableSchema(1, "shop", "Items", (), ("id",))


def held(to: Any, *indices: str) -> dict[tuple[str, str], Any]:
    """Return what `rows` yields, the later row of a key in place of an earlier one."""
    with closing(to.sink.held(indices or (to.index(),))) as opened:
        batches = list(opened.rows())
    assert all(batch.schema == held_schema() for batch in batches)
    return stated(batches)


def looked(to: Any, *pairs: tuple[str, str]) -> dict[tuple[str, str], Any]:
    keys = pa.RecordBatch.from_pylist(
        [{"output": index, "key": key.encode()} for index, key in pairs],
        pa.schema([("output", pa.string()), ("key", pa.binary())]),
    )
    with closing(to.sink.held(sorted({index for index, _ in pairs}))) as opened:
        found = opened.look(keys)
    assert found.select(["output", "key"]).equals(keys)
    return stated([found])


def stated(batches: list[pa.RecordBatch]) -> dict[tuple[str, str], Any]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {(row["output"], row["key"].decode()): settled(row["content"]) for row in rows}


def expected(to: Any, *changes: dict[str, Any]) -> dict[tuple[str, str], Any]:
    made = to.sink.expected(arrow(changes))
    assert made.schema == held_schema()
    assert made["version"].null_count == len(changes)
    return stated([made])


def test_what_rows_leave_is_what_the_index_holds(target):
    to = target(ids="table_key", index="{flow}-all", mapping={"dynamic": False})
    index = f"{to.flow}-all"
    to.prepare(ORDERS, ITEMS)
    first = change("r", 1, '{"id":1,"big":18446744073709551615,"price":12345678901234567890.1230,"f":1e-7}', 100)
    others = (
        change("r", 2, {"text": 'ü " \u2028 \U0001f600 \x7f', "none": None, "nested": {"b": [1, 2.5], "a": {}}}, 100),
        change("r", "x" * 600, {"n": 1}, 100, table="Items"),
        change("r", {"a": "1,2", "b": 1}, {"n": 2}, 100, table="Items"),
    )
    receipt = to.write(first, *others)
    assert receipt.outputs == {index: {"created": 4}}
    assert isinstance(to.sink, ValidatedSink)
    there = held(to, index, f"{index}-never-made")
    assert there == expected(to, first, *others)
    with closing(to.sink.held([index])) as opened:
        written = {text for batch in opened.rows() for text in batch["content"].to_pylist()}
    assert written == set(to.sink.expected(arrow([first, *others]))["content"].to_pylist())  # byte by byte
    assert shown(there[index, "shop.Orders:1"]) == {
        "id": 1, "big": 18446744073709551615, "price": "12345678901234567890.123", "f": "1E-7"
    }  # fmt: skip
    assert looked(to, *there, (index, "shop.Orders:9"), ("never-made", "1")) == {
        **there,
        (index, "shop.Orders:9"): None,
        ("never-made", "1"): None,
    }


@pytest.mark.parametrize("soft", [False, True])
def test_a_deleted_row_is_not_held(target, soft):
    to = target(soft_deletes=soft)
    to.prepare()
    rows = [change("c", n, {"n": n}, 100) for n in (1, 2, 3)]
    to.write(*rows, change("u", 2, {"n": 9}, 200), change("d", 3, None, 200))
    left = {**expected(to, rows[0], change("u", 2, {"n": 9})), (to.index(), "3"): None}
    assert held(to) == ({key: content for key, content in left.items() if content is not None} if not soft else left)
    assert looked(to, *left) == left
    assert expected(to, change("d", 3)) == {(to.index(), "3"): None}


def test_one_altered_one_deleted_and_one_added_document_are_told(target):
    to = target()
    to.prepare()
    rows = [change("r", n, {"n": n, "text": "a"}, 100) for n in range(50)]
    to.write(*rows)
    wanted = expected(to, *rows)
    assert held(to) == wanted
    to.client.index(index=to.index(), id="7", body={"id": 7, "n": 7, "text": "b"})
    to.client.delete(index=to.index(), id="8")
    to.client.index(index=to.index(), id="by hand", body={"id": 1})
    there = held(to)
    differing = {key[1] for key in wanted.keys() | there.keys() if wanted.get(key) != there.get(key)}
    assert differing == {"7", "8", "by hand"}
    assert looked(to, (to.index(), "7"), (to.index(), "8"), (to.index(), "by hand")) == {
        (to.index(), "7"): b'{"id":7,"n":7,"text":"b"}',
        (to.index(), "8"): None,
        (to.index(), "by hand"): b'{"id":1}',
    }


def test_pages_of_several_shards_miss_nothing(target, monkeypatch):
    monkeypatch.setattr(held_documents, "_FIRST_DOCUMENTS", 2)
    monkeypatch.setattr(held_documents, "MOST_DOCUMENTS", 7)
    to = target(settings={"number_of_shards": 3})
    to.prepare()
    rows = [change("r", n, {"n": n}, 100) for n in range(200)]
    to.write(*rows)
    to.write(*(change("u", n, {"n": -n}, 200) for n in range(0, 200, 3)))
    with closing(to.sink.held([to.index()])) as opened:
        pages = list(opened.rows())
    assert len(pages) > 200 / 7
    assert sum(page.num_rows for page in pages) == 200
    assert stated(pages) == expected(to, *rows, *(change("u", n, {"n": -n}) for n in range(0, 200, 3)))


def test_a_document_that_is_written_while_pages_are_read_is_among_them(target, monkeypatch):
    monkeypatch.setattr(held_documents, "MOST_DOCUMENTS", 10)
    monkeypatch.setattr(held_documents, "_FIRST_DOCUMENTS", 10)
    to = target()
    to.prepare()
    rows = [change("r", n, {"n": 0}, 100) for n in range(100)]
    to.write(*rows)
    pages = []
    with closing(to.sink.held([to.index()])) as opened:
        for number, page in enumerate(opened.rows()):
            pages.append(page)
            if number < 5:  # those that were read, and those that were not
                to.write(*(change("u", n, {"n": number + 1}, 200 + number) for n in (3, 50 + number, 99)))
                to.client.indices.refresh(index=to.index())
    assert set(stated(pages)) == set(expected(to, *rows))
    newest = (change("u", 3, {"n": 5}), *(change("u", 50 + n, {"n": n + 1}) for n in range(5)))
    assert expected(to, *newest).items() <= stated(pages).items()


def test_large_documents_come_in_small_pages_and_whole(target, monkeypatch):
    monkeypatch.setattr(held_documents, "MOST_BYTES", 300_000)
    to = target(mapping={"dynamic": False})
    to.prepare()
    drawn = random.Random(5)
    sizes = [10] * 300 + [120_000] * 5 + [10] * 10 + [1_000_000]
    rows = [
        change("r", n, {"text": f"{drawn.randrange(10**9)}" * (size // 9 + 1)}, 100) for n, size in enumerate(sizes)
    ]
    to.write(*rows)
    wanted = expected(to, *rows)
    assert held(to) == wanted
    assert looked(to, *wanted) == wanted


def test_a_row_that_was_written_anew_has_another_version(target):
    to = target()
    to.prepare()
    key = pa.RecordBatch.from_pydict({"output": pa.array([to.index()]), "key": pa.array([b"1"], pa.binary())})
    opened = to.sink.held([to.index()])

    def version() -> str | None:
        return opened.look(key)["version"].to_pylist()[0]

    assert version() is None
    to.write(change("r", 1, {"n": 1}, 100))
    first = version()
    assert first is not None
    assert first == version() == next(iter(opened.rows()))["version"].to_pylist()[0]
    to.write(change("r", 1, {"n": 1}, 100))
    assert version() != first
    opened.close()
    opened.close()


@pytest.mark.parametrize("source", [{"enabled": False}, {"excludes": ["n"]}, {"includes": ["id"]}, None])
def test_an_index_that_keeps_no_whole_documents_is_refused(target, connection, source):
    if source is None:  # OpenSearch 2 makes no documents up of their fields
        source = {"mode": "synthetic"} if connection.conn_type == "elasticsearch" else {"includes": ["n"]}
    to = target(mapping={"_source": source, "dynamic": False})
    to.prepare()
    with pytest.raises(
        ValidationRefusedError, match=rf"index '{to.index()}' does not keep documents as they were sent"
    ):
        to.sink.held([to.index()])


def test_a_server_that_is_away_or_refuses_is_named(target):
    to = target()
    to.prepare()
    to.write(change("r", 1, {"n": 1}, 100))
    nobody = ElasticsearchSink(to.spec, to.connection.model_copy(update={"port": 1}), to.flow)
    with pytest.raises(SinkUnavailableError, match="search"):
        nobody.held([to.index()])
    opened = to.sink.held([to.index()])
    to.client.indices.put_settings(index=to.index(), body={"index.blocks.read": True})
    with pytest.raises(SinkAccessError, match="documents of index") as refused:
        list(opened.rows())
    assert "read" in str(refused.value.hint)
    opened.close()


def test_documents_tell_their_keys(target):
    """Ids are those that the writer gives, for whatever key."""
    to = target(mapping={"dynamic": False})
    to.prepare()
    keys = [1, -5, "a b/ü", "", {"a": 1, "b": "x"}, "y" * 512, "y" * 513]
    rows = [change("r", key, {"n": 1}, 100) for key in keys]
    to.write(*rows)
    assert {json.dumps(key[1]) for key in held(to)} == {json.dumps(key[1]) for key in expected(to, *rows)}
