"""Undecodable text and an impossible date through the whole path: into Kafka and into a strict search index."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import jsonschema
import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog, RenameColumns
from databus.demo.consumers import index_documents, topic_records
from databus.sinks import envelope
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark]

BAD = b"\xe1\xaa"


def test_rows_that_are_flagged_arrive_whole(world: World, database: str) -> None:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        cursor.execute("SET SESSION sql_mode='ALLOW_INVALID_DATES'")
        cursor.execute("CREATE TABLE t (k VARCHAR(9) CHARACTER SET greek PRIMARY KEY, born DATE, v INT)")
        cursor.execute(f"INSERT INTO t VALUES (x'{BAD.hex()}', '2024-02-30', 1), (x'E1', '2024-02-29', 2)")
        cursor.execute("UPDATE t SET born = NULL, v = 3 WHERE v = 1")
    fields = {"k": {"type": "keyword"}, "born": {"type": "keyword"}, "n": {"type": "long"}}
    flow = Flow(
        name="path_flags",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.t",), start=f"{file}:{position}"),
        transforms=(RenameColumns({"v": "n"}),),
        sinks=(
            Kafka(conn_id="kafka_east", topic="path_flags"),
            Elasticsearch(
                conn_id="opensearch_default", index="path-flags", mapping={"dynamic": "strict", "properties": fields}
            ),
        ),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    world.run(flow)
    records = list(topic_records(world.sandbox.address("kafka"), "path_flags"))
    # The changes of one key keep their order; the two keys may lie in any.
    by_key: dict[str, list[dict[str, object]]] = {}
    for key, value in records:
        assert key is not None
        assert value is not None
        event = json.loads(value)
        jsonschema.Draft202012Validator(envelope.schema("debezium")).validate(event)
        by_key.setdefault(key.decode(), []).append(event)
    text = base64.b64encode(BAD).decode()
    bad_key = f'{{"k":{{"base64":"{text}"}}}}'
    assert by_key.keys() == {bad_key, '{"k":"α"}'}
    first, second = by_key[bad_key]
    assert first["after"] == {"k": text, "born": "2024-02-30", "n": 1}
    assert first["source"]["flags"] == ["after.k:undecodable", "after.born:invalid_date"]  # type: ignore[index]
    assert second["after"] == {"k": text, "born": None, "n": 3}
    assert second["source"]["flags"] == ["before.k:undecodable", "before.born:invalid_date", "after.k:undecodable"]  # type: ignore[index]
    (good,) = by_key['{"k":"α"}']
    assert "flags" not in good["source"]  # type: ignore[operator]
    documents = index_documents(world.sandbox.address("opensearch"), "path-flags")
    assert sorted((d["k"], d["n"], d.get("__flags")) for d in documents.values()) == sorted(
        [("α", 2, None), (text, 3, second["source"]["flags"])]  # type: ignore[index]
    )
