"""Consumer that regroups the source's transactions from all partitions, by BEGIN and END: an oracle of tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Headers = Sequence[tuple[str, Any]]


@dataclass
class Regrouped:
    """One transaction, as far as its messages came.

    Attributes:
        events: total order → (data collection, its order, event id, value).
        begin: value of BEGIN.
        end: value of END.
    """

    events: dict[int, tuple[str, int, str, Any]] = field(default_factory=dict)
    begin: Any = None
    end: Any = None

    @property
    def complete(self) -> bool:
        """Whether all that END counts has come, and nothing else."""
        if self.begin is None or self.end is None or self.end["event_count"] != len(self.events):
            return False
        counts = {each["data_collection"]: each["event_count"] for each in self.end["data_collections"]}
        return counts == Counter(name for name, *_ in self.events.values())

    @property
    def changes(self) -> list[tuple[str, str]]:
        """(data collection, event id) in total order."""
        return [(name, event_id) for _, (name, _, event_id, _) in sorted(self.events.items())]


class Regrouper:
    """Takes messages of data topics and of the topic of transactions, in any order of partitions.

    A message that comes twice, an order that is given twice, and a BEGIN behind its END are failures.
    """

    def __init__(self, topic: str):
        self.topic = topic
        self.transactions: dict[str, Regrouped] = {}
        self.alone: list[Any] = []
        self._seen: set[str] = set()

    def take(self, topic: str, headers: Headers, value: Any) -> None:
        """Take a message; tombstones (value None) are passed over."""
        if value is None:
            return
        told = {name: text.decode() if isinstance(text, bytes) else text for name, text in headers}
        assert told["event_id"] not in self._seen, f"{told['event_id']} came twice"
        self._seen.add(told["event_id"])
        if topic == self.topic:
            self._boundary(value)
            return
        block = value["transaction"] if "transaction" in value else _of_headers(told)
        if block is None:
            self.alone.append(value)
            return
        of = self.transactions.setdefault(block["id"], Regrouped())
        name = told.get("table") or "{db}.{table}".format(**value["source"])
        assert block["total_order"] not in of.events, (block, of)
        of.events[block["total_order"]] = (name, block["data_collection_order"], told["event_id"], value)

    def take_all(self, messages: Iterable[Any]) -> Regrouper:
        """Take messages of a Kafka consumer."""
        for message in messages:
            text = message.value()
            self.take(message.topic(), message.headers() or (), None if text is None else json.loads(text))
        return self

    def incomplete(self) -> list[str]:
        """Return the ids of transactions of which something is missing."""
        return [name for name, found in self.transactions.items() if not found.complete]

    def require_orders(self) -> None:
        """Require that each complete transaction is numbered from 1 without holes, in whole and by table."""
        for name, found in self.transactions.items():
            if not found.complete:
                continue
            assert sorted(found.events) == list(range(1, len(found.events) + 1)), name
            orders: dict[str, list[int]] = {}
            for _, (table, order, _, _) in sorted(found.events.items()):
                orders.setdefault(table, []).append(order)
            assert all(each == list(range(1, len(each) + 1)) for each in orders.values()), (name, orders)

    def _boundary(self, value: Any) -> None:
        of = self.transactions.setdefault(value["id"], Regrouped())
        if value["status"] == "BEGIN":
            assert (of.begin, of.end) == (None, None), value
            assert (value["event_count"], value["data_collections"]) == (None, None)
            of.begin = value
        else:
            assert of.begin is not None, value
            assert of.end is None, value
            of.end = value


def _of_headers(told: dict[str, str]) -> dict[str, Any] | None:
    if "total_order" not in told:
        return None
    orders = {name: int(told[name]) for name in ("total_order", "data_collection_order")}
    return {"id": told["transaction"], **orders}
