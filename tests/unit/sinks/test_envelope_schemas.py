from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest

from databus.sinks import envelope

EVENT: dict[str, Any] = {
    "before": None,
    "after": {"id": 1, "note": None},
    "source": {
        "version": "1",
        "connector": "mysql",
        "name": "f",
        "ts_ms": 1,
        "snapshot": "false",
        "db": "shop",
        "table": "orders",
        "server_id": 5,
        "gtid": None,
        "file": "mysql-bin.000001",
        "pos": 900,
        "row": 0,
        "query": None,
        "event_id": "srv:1:0:0",
    },
    "op": "c",
    "ts_ms": 2,
    "transaction": {"id": "x", "total_order": 1},
}


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(envelope.schema(name))


@pytest.mark.parametrize("name", envelope.ENVELOPES)
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(envelope.schema(name))


def test_a_good_event_passes() -> None:
    validator("debezium").validate(EVENT)
    flagged = copy.deepcopy(EVENT)
    flagged["source"]["flags"] = ["after.name:undecodable"]
    validator("debezium").validate(flagged)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("op",), "x"),
        (("op",), "d"),  # a delete has no after
        (("after",), None),  # an insert has one
        (("ts_ms",), "2"),
        (("source", "event_id"), ""),
        (("source", "pos"), None),
        (("source", "flags"), []),  # absent, not empty
        (("source", "flags"), ["name"]),
        (("extra",), 1),
    ],
)
def test_a_bad_event_fails(path: tuple[str, ...], value: Any) -> None:
    event = copy.deepcopy(EVENT)
    target = event
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    assert not validator("debezium").is_valid(event)


def test_a_row_says_whether_it_is_deleted() -> None:
    row = {"id": 1, "__op": "d", "__deleted": True, "__ts_ms": 1, "__event_id": "e"}
    validator("row").validate(row)
    assert not validator("row").is_valid({**row, "__deleted": False})
    assert not validator("row").is_valid({**row, "__op": "c"})
    assert not validator("row").is_valid({"id": 1})
