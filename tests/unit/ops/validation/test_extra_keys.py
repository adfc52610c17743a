"""Extra keys: deleted where a record or an id says that the row is the flow's, and no sink holds another's there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Filter, Flow, Kafka, ModuloPartition, MysqlBinlog
from databus.core.protocols.validated_sink import RowOrigin
from databus.ops.validation import sink_keys
from databus.ops.validation.extra_keys import (
    ELSEWHERE,
    FILTERED,
    HIDDEN,
    OTHERS,
    UNNAMED,
    UNSAID,
    ExtraKeys,
    judged,
    unseen_of,
    with_deletes,
)
from databus.ops.validation.result import DeletedKeys, Difference, SinkComparison, Validation
from databus.ops.validation.sink_keys import SinkKeys
from databus.sinks.kafka.held_rows import origin_of
from tests.unit.ops.validation.test_repair import NUMBERS, PAIRS, keys_of

OURS = RowOrigin("f", "shop.n")
FLOW = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Kafka(conn_id="k", topic="all"),))


def documents(table: str, *ids: str) -> list[Difference]:
    return [Difference("extra", table, "all", f"{table}:{each}".encode(), None, b"{}") for each in ids]


def record(key: bytes, origin: RowOrigin | None = OURS, table: str = "shop.n") -> Difference:
    return Difference("extra", table, "all", key, None, b"{}", origin)


def topic_of(*tables: str) -> SinkKeys:
    schemas = {"shop.n": NUMBERS, "shop.p": PAIRS}
    return SinkKeys(FLOW, SimpleNamespace(), {"all": tables}, tables, schemas)  # type: ignore[arg-type]


def named(extra: ExtraKeys) -> dict[str, list[str]]:
    return {table: [each.row_key for each in keys] for table, keys in extra.deletes.items()}


def test_documents_are_deleted_whose_id_says_table_and_row() -> None:
    found = [
        *documents("shop.n", "9", "by hand", "007"),
        *documents("shop.p", '[1,"ü"]'),
        *documents("shop.t", "10:00"),
    ]
    told = judged(
        keys_of(), [*found, Difference("missing", "shop.n", "all", b"shop.n:1", b"{}", None)], (), hidden=False
    )
    assert named(told) == {"shop.n": ['{"id":9}'], "shop.p": ['{"a":1,"b":"ü"}']}
    assert told.kept == {UNNAMED: 3}
    of_key = Difference("extra", "shop.n", "all", b"9", None, b"{}")
    plain = replace(keys_of("key"), outputs={"all": ("shop.n",)})
    told = judged(plain, [of_key], (), hidden=False)
    assert (named(told), told.kept) == ({}, {UNSAID: 1})


def test_records_are_deleted_that_name_the_flow_and_the_table() -> None:
    key = b'{"id":9}'
    told = judged(
        topic_of("shop.n"),
        [
            record(key),
            record(b'{"id":1}', RowOrigin("other_shard", "shop.n")),
            record(b'{"id":2}', RowOrigin("f", "shop.taken_out")),
            record(b'{"id":3}', None),
            record(b'{"id": 4}'),
        ],
        (),
        hidden=False,
    )
    assert named(told) == {"shop.n": ['{"id":9}']}
    assert told.kept == {OTHERS: 2, UNSAID: 1, UNNAMED: 1}
    assert told.others == {("shop.n", f'{{"id":{n}}}') for n in (1, 2, 3)}
    shared = judged(topic_of("shop.n", "shop.p"), [record(key, table="shop.n + shop.p")], (), hidden=False)
    assert (named(shared), shared.kept) == ({}, {UNNAMED: 1})


def test_records_are_deleted_under_the_key_that_a_row_would_have() -> None:
    keys = (b'{"a":1,"b":"x"}', b'{"a": 2,"b":"x"}', b'{"b":"x","a":3}', b'{"a":4,"b":"\\u00fc"}', b"5")
    found = [record(key, RowOrigin("f", "shop.p"), "shop.p") for key in keys]
    assert named(judged(topic_of("shop.p"), found, (), hidden=False)) == {"shop.p": ['{"a":1,"b":"x"}']}


@pytest.mark.parametrize(
    ("value", "envelope", "origin"),
    [
        (b'{"after":{},"source":{"name":"f","db":"shop","table":"n"},"op":"c"}', "debezium", OURS),
        (b'{"after":{},"source":{"db":"shop","table":"n"},"op":"c"}', "debezium", None),
        (b'{"after":{},"source":{"name":"f","db":null,"table":"n"}}', "debezium", None),
        (b'{"id":1,"source":{"name":"f","db":"shop","table":"n"}}', "row", None),
        (b"no JSON", "debezium", None),
        (b"[]", "debezium", None),
        (None, "debezium", None),
    ],
)
def test_an_origin_is_what_the_envelope_says(value: bytes | None, envelope: str, origin: RowOrigin | None) -> None:
    assert origin_of(value, envelope) == origin


def test_nothing_is_deleted_through_a_filter_or_while_tables_may_be_hidden() -> None:
    keys, differing = topic_of("shop.n"), [record(b'{"id":9}')]
    told = judged(keys, differing, (), hidden=True)
    assert (named(told), told.kept) == ({}, {HIDDEN: 1})
    chosen = Filter("id > 1", tables=("shop.n",))
    halves = ModuloPartition(tables=("shop.n",), column="id", modulus=2, remainders=(0,))
    source = MysqlBinlog(conn_id="m", tables=("shop.*",), row_filters=(halves,))
    for change in ({"transforms": (chosen,)}, {"source": source}):
        told = judged(replace(keys, flow=FLOW.model_copy(update=change)), differing, (), hidden=False)
        assert (named(told), told.kept) == ({}, {FILTERED: 1})


def compared(name: str, *found: Difference, moving: tuple[sink_keys.Key, ...] = (), **more: Any) -> SinkComparison:
    told = judged(topic_of("shop.n"), found, moving, hidden=False)
    return SinkComparison(name, {}, found, 0, (), {}, told.deletes, told.kept, frozenset(told.others), **more)


def deletes_of(*sinks: SinkComparison, **unseen: frozenset[str]) -> Validation:
    return with_deletes(Validation("f", sinks, 0, 0.0), FLOW, {"shop.n": NUMBERS}, unseen)


def test_a_key_of_several_sinks_is_deleted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_keys, "_AT_ONCE", 2)
    one, two, three = (record(b'{"id":%d}' % n) for n in (1, 2, 3))
    made = deletes_of(compared("a", one, two, three), compared("b", two, three, one))
    keys = [key for part in made.deletes["shop.n"] for key in part.keys]
    assert keys == ['{"id":1}', '{"id":2}', '{"id":3}']
    assert {part.where for part in made.deletes["shop.n"]} <= {"`id` IN (1, 2)", "`id` IN (2, 1)", "`id` IN (3)"}
    assert (len(made.deleted), made.kept) == (6, {})
    monkeypatch.setattr(sink_keys, "MOST_REPAIRED", 2)
    made = deletes_of(compared("a", one, two, three))
    assert (len(made.deleted), list(made.kept.values())) == (2, [1])


def test_a_delete_that_would_hit_another_s_row_in_another_sink_is_not_made() -> None:
    one, two = record(b'{"id":1}'), record(b'{"id":2}')
    theirs = record(b'{"id":1}', RowOrigin("other", "shop.n"))
    made = deletes_of(compared("a", one, two), compared("b", theirs))
    assert made.deletes == {"shop.n": (DeletedKeys("`id` IN (2)", ('{"id":2}',)),)}
    assert made.kept == {OTHERS: 1, ELSEWHERE: 1}
    moving = compared("b", moving=(("all", b'{"id":2}'),))
    assert [each.key for each in deletes_of(compared("a", one, two), moving).deleted] == [b'{"id":1}']
    assert deletes_of(compared("a", one), b=frozenset({"shop.n"})).kept == {ELSEWHERE: 1}
    assert deletes_of(compared("a", one), a=frozenset({"shop.n"})).deleted


def test_tables_whose_extra_keys_nobody_looked_at_are_told() -> None:
    outputs, tables = {"all": ("shop.n", "shop.p")}, {"shop.n": {"rows": 1}}
    assert unseen_of(SinkComparison("a", tables, ()), outputs, keys_say=False) == {"shop.n", "shop.p"}
    assert unseen_of(SinkComparison("a", tables, ()), outputs, keys_say=True) == frozenset()
    assert unseen_of(SinkComparison("a", tables, (), 1), outputs, keys_say=True) == {"shop.n", "shop.p"}
    assert unseen_of(SinkComparison("a", tables, ()), {"n": ("shop.n",)}, keys_say=False) == frozenset()
