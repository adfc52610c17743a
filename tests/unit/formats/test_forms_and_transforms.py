"""Every form of message behind transforms that look at values: what JSON says, and nothing of a hidden value."""

# ruff: noqa: DTZ001 - DATETIME has no zone

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import fastavro
import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus import AddColumn, DropColumns, Filter, Hash, Kafka, Mask, NotNull, RenameColumns
from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions
from databus.core.flow_specs import TransformSpec
from databus.core.state.plan import SinkPlan
from databus.rows.emit import emit
from databus.rows.frames.computed import computed_column
from databus.rows.image_form import json_form
from databus.rows.row_program import FatedRows
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.registered.descriptions import FORMATS as DESCRIBED
from databus.sinks.kafka.registered.encoder import encoder_of
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.reference.made_messages import SERVER, plan
from tests.unit.formats.transformed_messages import FORMS, REGISTERED, Made, made, pinned, registered_schemas
from tests.unit.rows.protobuf_messages import flags_of, message_type

MILLIS = st.datetimes(datetime(1970, 1, 2)).map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
NO_DATES = st.sampled_from(["0000-00-00", "2026-02-31", "1999-00-00"]).map(Unrepresentable)
NO_TEXTS = st.binary(max_size=5).map(lambda tail: Unrepresentable(b"\xff" + tail))
HIDDEN: dict[str, tuple[str, tuple[st.SearchStrategy[Any], ...]]] = {
    "card": ("varchar(40)", (st.text("abc\"\\é", max_size=9), NO_TEXTS)),
    "amount": ("decimal(12,2)", (st.integers(-(10**11), 10**11).map(lambda n: Decimal(n).scaleb(-2)),)),
    "wide": ("decimal(38,9)", (st.integers(-(10**30), 10**30).map(lambda n: Decimal(f"{n}e-9")),)),
    "day": ("date", (st.dates(), NO_DATES)),
    "at": ("datetime(3)", (MILLIS,)),
    "stamp": ("timestamp(6)", (st.datetimes(datetime(1970, 1, 2), timezones=st.just(UTC)),)),
    "took": ("time(2)", (st.integers(-10**6, 10**6).map(lambda n: timedelta(milliseconds=10 * n)),)),
    "u64": ("bigint unsigned", (st.integers(0, 2**64 - 1),)),
    "n": ("int", (st.integers(-(2**31), 2**31 - 1),)),
    "bits": ("bit(9)", (st.integers(0, 511),)),
    "x": ("double", (st.floats(allow_nan=False, allow_infinity=False),)),
    "raw": ("blob", (st.binary(max_size=9),)),
    "doc": ("json", (st.integers().map(lambda n: json.dumps({"k": n})),)),
    "parts": ("set('a','b','c')", (st.sampled_from(["", "a", "a,b", "a,b,c"]),)),
}  # fmt: skip
"""Column to be hidden → its type, and values of each kind of which flags tell."""
CLEAR = {"id": "int", "v": "int", "note": "varchar(20)"}
SCHEMA = table("shop.orders", {**CLEAR, **{name: kind for name, (kind, _) in HIDDEN.items()}})
FILTER = Filter("v > 5")
MASK = Mask(*HIDDEN)
REST = [name for name in HIDDEN if name not in ("card", "n")]
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]


def _pairs(kinds: tuple[st.SearchStrategy[Any], ...]) -> st.SearchStrategy[Any]:
    """Return NULL twice, or two values of one kind."""
    return st.just((None, None)) | st.one_of(*(st.tuples(kind, kind) for kind in kinds))


CLEARLY = {"v": st.none() | st.integers(4, 7), "note": st.none() | st.sampled_from(["a", "b"])}
TWICE = {name: value.map(lambda v: (v, v)) for name, value in CLEARLY.items()}
TWICE |= {name: _pairs(kinds) for name, (_, kinds) in HIDDEN.items()}
IMAGE: st.SearchStrategy[Pair] = st.builds(
    lambda number, values: cast(
        "Pair", tuple({"id": number, **{n: v[side] for n, v in values.items()}} for side in (0, 1))
    ),
    st.integers(1, 3),
    st.fixed_dictionaries({}, optional=TWICE),
)
"""Two images that differ in hidden values alone."""
CHANGES = st.lists(st.tuples(st.none() | IMAGE, st.none() | IMAGE).filter(any), min_size=1, max_size=5)


def _side(changes: list[tuple[Pair | None, Pair | None]], side: int) -> TableBatch:
    return batch(SCHEMA, [(b and b[side], a and a[side]) for b, a in changes])


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=settings.default.max_examples // 10)
@given(CHANGES)
def test_no_message_key_header_or_held_row_depends_on_a_hidden_value(
    form: str, changes: list[tuple[Pair | None, Pair | None]]
) -> None:
    one, other = (made(_side(changes, side), [FILTER, MASK], form, [NotNull("note")]) for side in (0, 1))

    assert one.records == other.records
    assert one.held == other.held
    assert one.counts == other.counts


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=settings.default.max_examples // 25)
@given(CHANGES)
def test_a_sinks_own_transforms_are_those_of_a_flow_of_its_own(
    form: str, changes: list[tuple[Pair | None, Pair | None]]
) -> None:
    """Behind those of the flow, or all of them the sink's; what these hold back is the sink's."""
    rows, behind = _side(changes, 0), [Hash("card"), Mask("n", keep_last=2), RenameColumns({"card": "the card"})]
    wanted = made(rows, [FILTER, *behind], form)
    after_filter, all_own = made(rows, [FILTER], form, own=behind), made(rows, [], form, own=[FILTER, *behind])

    assert wanted.records == after_filter.records == all_own.records
    plain = made(rows, [FILTER], form)  # what the flow holds is kept as the flow leaves it
    assert after_filter.held == plain.held
    assert [row.event_id for row in plain.held] == [row.event_id for row in wanted.held]
    assert all_own.held == after_filter.refused == []
    assert [replace(row, stage="check") for row in all_own.refused] == wanted.held
    assert {row.stage for row in all_own.refused} <= {"kafka"}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "iso"])
@settings(deadline=None, max_examples=settings.default.max_examples // 10)
@given(CHANGES)
def test_every_form_says_what_json_says(form: str, changes: list[tuple[Pair | None, Pair | None]]) -> None:
    rows = _side(changes, 0)
    transforms = [FILTER, Hash("card"), Mask("n", keep_last=2), Mask(*REST), RenameColumns({"card": "the card"})]

    found, json_ = (made(rows, transforms, each, [NotNull("note")]) for each in (form, "iso"))

    assert found.held == json_.held
    assert found.counts == json_.counts
    for mine, said in zip(found.records, json_.records, strict=True):
        for name in ("topic", "partition", "event_id", "tombstone", "log", "place", "ordinal", "part"):
            assert mine[name] == said[name]
        assert mine.get("canonical_key", said["key"]) == said["key"]
        value = json.loads(said["value"])
        READ[form](mine["value"], value, transforms)


def _same_images(message: dict[str, Any], said: dict[str, Any], *_: Any) -> None:
    assert (message["op"], message["before"], message["after"]) == (said["op"], said["before"], said["after"])
    assert message["source"].get("flags") == said["source"].get("flags")


def _debezium(value: bytes, said: dict[str, Any], *_: Any) -> None:
    _same_images(json.loads(value), said)


def _with_schemas(value: bytes, said: dict[str, Any], *_: Any) -> None:
    message = json.loads(value)
    _same_images(message["payload"], said)
    row = next(each for each in message["schema"]["fields"] if each["field"] == "after")
    types = {each["field"]: (each["type"], each.get("name")) for each in row["fields"]}
    assert {types.pop("id"), types.pop("v")} == {("int32", None)}
    assert types == dict.fromkeys(["the card", *list(HIDDEN)[1:], "note"], ("string", None))


def _row(value: bytes, said: dict[str, Any], *_: Any) -> None:
    message = json.loads(value)
    shown = {name: each for name, each in message.items() if not name.startswith("__")}
    assert shown == (said["after"] or said["before"])


def _maxwell(value: bytes, said: dict[str, Any], *_: Any) -> None:
    _flat(json.loads(value), said, lambda v: v)


def _canal(value: bytes, said: dict[str, Any], *_: Any) -> None:
    message = json.loads(value)
    (message["data"],), (message["old"],) = message["data"], message["old"] or [{}]
    _flat(message, said, lambda v: v if v is None else str(v))
    types = {name: kind for name, kind in message["mysqlType"].items() if name not in CLEAR}
    assert types == dict.fromkeys(["the card", *list(HIDDEN)[1:]], "text")


def _flat(message: dict[str, Any], said: dict[str, Any], text: Callable[[Any], Any]) -> None:
    before, after = ({n: text(v) for n, v in (image or {}).items()} for image in (said["before"], said["after"]))
    if said["op"] != "u":
        assert message["data"] == (after or before)
        return
    assert message["data"] == {"id": before.get("id"), **after}
    assert message["old"] == {n: v for n, v in before.items() if n in after and v != after[n]}


def _avro(value: bytes, said: dict[str, Any], transforms: list[TransformSpec]) -> None:
    schema = fastavro.parse_schema(json.loads(registered_schemas("avro", transforms, SCHEMA).value))
    read: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
    for image in ("before", "after"):
        flags = (read[image] or {}).pop("__flags", None) or {}
        assert set(flags.values()) <= {"absent"}
        names = {"the_card": "the card"}
        if read[image]:
            read[image] = {names.get(n, n): v for n, v in read[image].items() if flags.get(n) != "absent"}
    _same_images({**read, "source": {"flags": read["source"]["flags"]}}, said)


def _json_schema(value: bytes, said: dict[str, Any], transforms: list[TransformSpec]) -> None:
    assert json.loads(value[5:]) == said
    jsonschema.validate(said, json.loads(registered_schemas("json_schema", transforms, SCHEMA).value))


def _protobuf(value: bytes, said: dict[str, Any], transforms: list[TransformSpec]) -> None:
    read = message_type(registered_schemas("protobuf", transforms, SCHEMA).value, "Envelope").FromString(value[6:])
    assert len(value) - 6 == read.ByteSize(), "no field that the schema has not"
    images = {name: _image(getattr(read, name)) if read.HasField(name) else None for name in ("before", "after")}
    flags = {"flags": list(read.source.flags)} if read.source.flags else {}
    _same_images({**images, "op": read.op, "source": flags}, said)


def _image(message: Any) -> dict[str, Any]:
    """Return the columns that an image has, named as in JSON."""
    flags = flags_of(message)
    assert set(flags.values()) <= {"absent"}
    fields = [each for each in message.DESCRIPTOR.fields if each.name not in {"__flags", *flags}]
    return {each.json_name: getattr(message, each.name) if message.HasField(each.name) else None for each in fields}


READ: Mapping[str, Callable[..., None]] = {
    "row": _row,
    "debezium": _debezium,
    "debezium with schemas": _with_schemas,
    "debezium with doubles": _debezium,
    "maxwell": _maxwell,
    "canal": _canal,
    "avro": _avro,
    "json_schema": _json_schema,
    "protobuf": _protobuf,
}
SMALL = table("shop.orders", {"id": "int", "v": "int", "card": "varchar(20)", "u64": "bigint unsigned"})


def _values(found: Made) -> list[Any]:
    return [json.loads(record["value"]) for record in found.records]


@pytest.mark.parametrize("form", ["maxwell", "canal"])
def test_an_update_that_leaves_a_filter_is_a_whole_row_where_old_values_are_those_that_changed(form: str) -> None:
    row = {"id": 1, "v": 9, "card": "4711", "u64": 1}
    rows = batch(SMALL, [(row, {**row, "v": 1}), ({**row, "v": 1}, row), (row, {**row, "card": "4712", "v": 8})])

    left, entered, stayed = _values(made(rows, [FILTER, Mask("card")], form))

    data = [message["data"] if form == "maxwell" else message["data"][0] for message in (left, entered, stayed)]
    assert [message["type"].lower() for message in (left, entered, stayed)] == ["delete", "insert", "update"]
    assert [(d["card"], int(d["v"]), int(d["u64"])) for d in data] == [("***", 9, 1), ("***", 9, 1), ("***", 8, 1)]
    assert stayed["old"] in ({"v": 9}, [{"v": "9"}])


@pytest.mark.parametrize("form", ["debezium", *REGISTERED, "maxwell", "canal"])
def test_nothing_is_left_of_a_batch_that_a_filter_leaves_out(form: str) -> None:
    row = {"id": 1, "v": 1, "card": "4711", "u64": 1}

    found = made(batch(SMALL, [(None, row), (row, None)]), [FILTER, Mask("card")], form)

    assert (found.records, found.counts["0_filtered"]) == ([], 2)


def test_a_hidden_number_is_not_told_as_wrapped_and_another_is() -> None:
    two = table("shop.orders", {"id": "int", "u64": "bigint unsigned", "other": "bigint unsigned", "v": "int"})
    row = {"id": 1, "u64": 2**64 - 1, "other": 2**64 - 2, "v": 9}
    left_out = {**row, "v": 1}

    first, second = _values(
        made(batch(two, [(None, left_out), (None, row), (row, {**row, "v": 8})]), [FILTER, Mask("u64")], "debezium")
    )

    assert first["after"] == {"id": 1, "u64": "***", "other": -2, "v": 9}
    assert first["source"]["flags"] == ["after.other:wrapped"]
    assert second["source"]["flags"] == ["before.other:wrapped", "after.other:wrapped"]


@pytest.mark.parametrize("form", ["debezium", "maxwell", "canal", *REGISTERED])
def test_rows_that_a_filter_cannot_judge_are_kept_as_json_with_hidden_values(form: str) -> None:
    found = made(batch(SMALL, [({"id": 1}, {"card": "4711"})]), [FILTER, Mask("card")], form)

    (held,) = found.held
    assert (held.cause, held.key, found.records) == ("filter_lacks(v)", '{"id":1}', [])
    assert json.loads(held.payload) == {"op": "u", "before": {"id": 1}, "after": {"card": "***"}}


@pytest.mark.parametrize("form", ["debezium", "debezium with schemas"])
def test_a_truncate_passes_by(form: str) -> None:
    event = TableEvent("t", "shop", "orders", "TRUNCATE orders", 1, 0)
    row = {"id": 1, "v": 9, "card": "4711", "u64": 1}

    insert, truncate = _values(made(batch(SMALL, [(None, row)]), [FILTER, Mask("card")], form, events=[event]))

    told = [message.get("payload", message) for message in (insert, truncate)]
    assert [(m["op"], m["after"] and m["after"]["card"]) for m in told] == [("c", "***"), ("t", None)]
    assert insert.get("schema") == truncate.get("schema")


def test_hashed_values_are_texts_of_every_form() -> None:
    row = {"id": 1, "v": 9, "card": "4711", "u64": 2**63}
    hashed = hashlib.sha256(str(2**63).encode()).hexdigest()
    for form in ("debezium", "maxwell", "canal"):
        (message,) = _values(made(batch(SMALL, [(None, row)]), [FILTER, DropColumns("card"), Hash("u64")], form))
        image = message.get("after") or message["data"]
        assert (image if isinstance(image, dict) else image[0])["u64"] == hashed


@pytest.mark.parametrize("day", [date(2026, 1, 2), Unrepresentable("0000-00-00")])
def test_a_key_keeps_its_own_form(day: Any) -> None:
    dated = table("shop.orders", {"day": "date", "v": "int", "card": "text"}, ("day",))
    rows = batch(dated, [(None, {"day": day, "v": 9, "card": "4711"})])

    keys = {form: made(rows, [FILTER, Mask("card")], form).records[0]["key"] for form in FORMS}

    plain = {form: made(rows, [], form).records[0]["key"] for form in FORMS}
    assert keys == plain


def test_a_computed_number_that_json_lacks_is_held_back_where_a_schema_has_no_place_for_it() -> None:
    stored = table("shop.orders", {"id": "int", "v": "int"})
    rows = batch(stored, [(None, {"id": 1, "v": 9}), ({"id": 2, "v": 3}, {"id": 2, "v": 0}), (None, {"id": 3, "v": 2})])
    ratio = AddColumn(ratio="CAST(CASE WHEN v > 5 THEN 'NaN' WHEN v = 0 THEN 'Infinity' ELSE '0.5' END AS double)")
    found = made(rows, [ratio], "json_schema")

    assert [(row.cause, row.stage, row.key) for row in found.refused] == [
        ("json_number(ratio)", "kafka", '{"id":1}'),
        ("json_number(ratio)", "kafka", '{"id":2}'),
    ]
    assert '"ratio":"NaN"' in found.refused[0].payload
    assert [json.loads(record["value"][5:])["after"] for record in found.records] == [{"id": 3, "v": 2, "ratio": 0.5}]
    others = made(rows, [ratio], "avro"), made(rows, [ratio, DropColumns("ratio")], "json_schema")
    assert [(len(each.records), each.refused) for each in others] == [(3, []), (3, [])]


@dataclass(frozen=True)
class Doubling:
    """Program that adds columns behind those of the table, as one of computed columns does.

    Attributes:
        none: value of the column of that name.
    """

    none: float = math.nan

    @property
    def places(self) -> bool:
        return False

    def judged(self, batch: TableBatch, transactions: Transactions, rows: FatedRows) -> FatedRows:
        return rows

    def shown(self, batch: TableBatch, transactions: Transactions) -> TableBatch:
        twice = pa.array([2 * v for v in batch.images["v"].to_pylist()], pa.decimal128(12, 2))
        days = pa.array([date(1970, 1, 1 + v) for v in batch.images["v"].to_pylist()])
        odd = pa.array([v % 2 == 1 for v in batch.images["v"].to_pylist()])
        none = pa.array([self.none] * batch.images.num_rows)
        names = [*batch.images.schema.names, *(c.name for c in ADDED)]
        return replace(
            batch,
            schema=replace(batch.schema, columns=(*batch.schema.columns, *ADDED)),
            images=pa.RecordBatch.from_arrays([*batch.images.columns, twice, days, odd, none], names=names),
            presence_sets=tuple(np.append(carried, [True] * len(ADDED)) for carried in batch.presence_sets),
        )


ADDED = (
    computed_column("\1twice", "decimal(12,2)"),
    computed_column("\1day", "date"),
    computed_column("\1odd", "boolean"),
    computed_column("\1none", "double"),
)
NAMED = {0: tuple((name, name.removeprefix("\1")) for name in ("id", "v", "\1twice", "\1day", "\1odd", "\1none"))}


def test_columns_that_a_program_adds_are_columns_of_every_form() -> None:
    stored = table("shop.orders", {"id": "int", "v": "int"})
    written = replace(stored, columns=(*stored.columns, *(replace(c, name=c.name[1:]) for c in ADDED)))
    rows = batch(stored, [(None, {"id": 1, "v": 9})])
    found: dict[str, Any] = {}
    told = {form: DESCRIBED[form](stored, written, "cdc.shop.orders", "mysql", lambda _: None) for form in REGISTERED}
    for form in ("debezium with schemas", "maxwell", "canal", *REGISTERED):
        sink = Kafka(conn_id="k", **FORMS[form])
        schemas = {0: pinned(told[form], "cdc.shop.orders")} if form in REGISTERED else {}
        whole = plan(SinkPlan(partitions={"cdc.shop.orders": 1}, schemas=schemas))
        encoder: Any
        if form in REGISTERED:
            encoder = encoder_of(sink, whole)
            program = Doubling(0.5 if form == "json_schema" else math.nan)
            images = replace(encoder.image_form(NAMED, None), program=program)
        else:
            encoder = KafkaEncoder(sink, whole, sink.message_format()).of_tables([written])
            images = json_form(NAMED, None, Doubling(), values=encoder.values)
        (made_rows,) = emit(rows, transactions(), SERVER, images)
        (value,) = encoder.encode(made_rows.append_column("route", pa.array(["shop.orders"])), 0)["value"].to_pylist()
        found[form] = value if form in REGISTERED else json.loads(value)
    message = found["debezium with schemas"]
    assert message["payload"]["after"] == {"id": 1, "v": 9, "twice": "18.00", "day": 9, "odd": True, "none": "NaN"}
    row = next(each for each in message["schema"]["fields"] if each["field"] == "after")
    assert [(each["field"], each["type"], each.get("name")) for each in row["fields"][2:]] == [
        ("twice", "string", None), ("day", "int32", "io.debezium.time.Date"), ("odd", "boolean", None),
        ("none", "double", None),
    ]  # fmt: skip
    assert found["maxwell"]["data"] == {"id": 1, "v": 9, "twice": 18.0, "day": "1970-01-10", "odd": True, "none": "NaN"}
    assert found["canal"]["data"] == [
        {"id": "1", "v": "9", "twice": "18.00", "day": "1970-01-10", "odd": "true", "none": "NaN"}
    ]
    assert found["canal"]["sqlType"]["twice"] == 3
    schema = fastavro.parse_schema(json.loads(told["avro"].value))
    read: Any = fastavro.schemaless_reader(io.BytesIO(found["avro"][5:]), schema, None)
    assert math.isnan(read["after"].pop("none"))
    assert read["after"] == {
        "id": 1, "v": 9, "twice": Decimal("18.00"), "day": "1970-01-10", "odd": True, "__flags": None,
    }  # fmt: skip
    after = _image(message_type(told["protobuf"].value, "Envelope").FromString(found["protobuf"][6:]).after)
    assert math.isnan(after.pop("none"))
    assert after == {"id": 1, "v": 9, "twice": "18.00", "day": "1970-01-10", "odd": True}
    described = json.loads(found["json_schema"][5:])
    jsonschema.validate(described, json.loads(told["json_schema"].value))
    assert described["after"] == {
        "id": 1, "v": 9, "twice": 18.0, "day": "1970-01-10", "odd": True, "none": 0.5,
    }  # fmt: skip
