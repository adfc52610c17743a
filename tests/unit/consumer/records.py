"""Records of the written log in each form that the sink writes, as a consumer gets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from databus.consumer.change import Change
from databus.consumer.messages import read
from databus.consumer.spill import StoredMessage
from tests.reference.made_messages import messages

FORMS: dict[str, dict[str, Any]] = {
    "iso": {},
    "row": {"envelope": "row", "headers": ("event_id", "ts_ms", "table", "gtid", "position", "transaction")},
    "debezium": {"types": "debezium"},
    "schema": {"types": "debezium", "schemas": True},
    "maxwell": {"envelope": "maxwell"},
    "canal": {"envelope": "canal"},
    "cloudevents": {"cloudevents": True},
}


def records(table: str, form: str, **more: Any) -> list[StoredMessage]:
    """Return the records of a table, tombstones too."""
    return [
        StoredMessage(m.topic, 0, n, _bytes(m.key), _bytes(m.value), [(k, v.encode()) for k, v in m.headers.items()])
        for n, m in enumerate(messages(table, **FORMS[form], **more))
    ]


def changes(table: str, form: str, **more: Any) -> list[Change]:
    found = [read(record) for record in records(table, form, **more)]
    return [change for change in found if isinstance(change, Change)]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def record(value: Any, *, topic: str = "t", partition: int = 0, offset: int = 0, key: Any = None,
           headers: Sequence[tuple[str, bytes]] = ()) -> StoredMessage:  # fmt: skip
    """Return a record with a JSON value, or with these bytes."""
    raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return StoredMessage(topic, partition, offset, None if key is None else json.dumps(key).encode(), raw, headers)


def change_record(order: int, transaction: str = "", *, partition: int = 0, offset: int = 0, table: str = "shop.a",
                  **after: Any) -> StoredMessage:  # fmt: skip
    """Return a record of an insert in databus's own form."""
    database, name = table.split(".")
    source = {"db": database, "table": name, "event_id": f"{transaction}:{order}:{partition}:{offset}", "ts_ms": 5}
    block = {"id": transaction, "total_order": order} if transaction else None
    value = {"before": None, "after": {"id": order, **after}, "op": "c", "source": source, "transaction": block}
    return record(value, topic="data", partition=partition, offset=offset)
