"""Records that a schema registry describes as rows: their shape, their flags, and which of them are held back."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from databus import Decodable, DropColumns, Flow, KafkaTopics, Noop
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.violation_bits import MARKS
from databus.runtime.check import row_checks
from databus.runtime.direct.row_checks import held_rows, holding, image_marks, unmarked
from databus.schema_registry import decoder as of_values
from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.decoder import SchemaDecoder
from databus.schema_registry.settings import RegistrySettings
from databus.sources.kafka.rows import Record, batches, tables_of

SCHEMAS = {
    1: RegisteredSchema(1, "AVRO", '"string"'),
    2: RegisteredSchema(2, "AVRO", '{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}'),
    3: RegisteredSchema(
        3,
        "AVRO",
        '{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "string"}]}',
    ),
}
KEY, OLD, NEW = b"\0\0\0\0\1\x02k", b"\0\0\0\0\2\x0a", b"\0\0\0\0\3\x0c\x02x"
RECORDS = [
    (KEY, OLD),
    (KEY, NEW),
    (KEY, b"bad"),
    (b"bad", NEW),
    (KEY, None),
    (b"bad", None),
    (KEY, OLD[:-1]),
    (None, NEW),
]


def flow_of(**options: Any) -> Flow:
    source = KafkaTopics(
        conn_id="east", topics=("t",), key_format="avro", value_format="avro", registry_conn_id="reg",
        fields={"id": "bigint", "n": "string"}, **options,
    )  # fmt: skip
    return Flow(name="f", source=source, transforms=(DropColumns("value"),), sinks=(Noop(),))


def rows_of(flow: Flow, patch: pytest.MonkeyPatch) -> pa.Table:
    patch.setattr(of_values, "registered", lambda _settings, number: SCHEMAS.get(number))
    spec = flow.source
    assert isinstance(spec, KafkaTopics)
    schemas = tables_of(spec, ["t"])
    planned = SourcePlan(OffsetRange(KafkaOffsets({}), KafkaOffsets({})), schemas, len(RECORDS), 0)
    assert not unmarked(flow, *planned.tables)
    form = json_form({}, image_marks(flow, planned))
    records = [Record(offset, key, value, (), 1, 5) for offset, (key, value) in enumerate(RECORDS)]
    decoders = {"avro": SchemaDecoder(RegistrySettings("reg", "http://rows"), "avro")}
    pieces = [
        piece for batch, log in batches(spec, schemas, 0, records, decoders) for piece in emit(batch, log, "srv", form)
    ]
    return pa.Table.from_batches(pieces).sort_by("place")


def test_rows_keep_one_shape_and_what_does_not_decode_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_of()
    rows = rows_of(flow, monkeypatch)
    images = [json.loads(row["after"] or row["before"]) for row in rows.to_pylist()]
    assert rows["op"].to_pylist() == ["c", "c", "c", "c", "d", "c", "c", "c"]
    assert [(image["id"], image["n"]) for image in images] == [
        (5, None), (6, "x"), (None, None), (6, "x"), (None, None), (None, None), (None, None), (6, "x"),
    ]  # fmt: skip
    assert [image["value"] for image in images[:3]] == ['{"id":5}', '{"id":6,"n":"x"}', "YmFk"]
    assert rows["key"].to_pylist()[:2] == [b'{"key":"\\"k\\""}'] * 2
    assert rows["flags"].to_pylist() == [
        None, None, ["after.value:unframed"], ["after.key:unframed"], None,
        ["after.key:unframed"], ["after.value:undecodable"], None,
    ]  # fmt: skip
    judged = [mark & holding(flow) != 0 for mark in rows[MARKS].to_pylist()]
    held = held_rows(flow, rows.filter(pa.array(judged)).combine_chunks().to_batches()[0])
    assert [(row.position, row.cause) for row in held] == [
        ("t[0]:2", "decodable(value, unframed)"),
        ("t[0]:3", "decodable(key, unframed)"),
        ("t[0]:5", "decodable(key, unframed)"),
        ("t[0]:6", "decodable(value, undecodable)"),
    ]


def test_the_flow_may_judge_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_of(on_undecodable="deliver")
    assert row_checks(flow) == []
    counting = flow.model_copy(update={"checks": (Decodable("value", severity="warn"),)})
    marks = rows_of(counting, monkeypatch)[MARKS].to_pylist()
    assert [n for n, mark in enumerate(marks) if mark] == [2, 6]
    assert holding(counting) == 0
