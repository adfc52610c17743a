"""The demonstration's judgement of each flow: by key and value, not by counts alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.demo.airflow_api import AirflowApi
from databus.demo.consumers import index_documents, topic_records
from databus.demo.oracle import ConsumedTopic, State, fold, mismatches, source_state
from databus.demo.shop import ShopTotals
from databus.ops.flows.discovery import find_flow
from databus.ops.health.lag import measure
from databus.ops.services import open_services
from databus.runtime.context import Services
from databus.sandbox import Sandbox
from databus.sandbox.connections import databus_environment

_KEYS = {
    "orders": ("order_id",),
    "products": ("sku",),
    "customers": ("customer_id",),
    "order_items": ("order_id", "line"),
}


@dataclass(frozen=True)
class RunLink:
    """A run in Airflow: its state, and the address of its page."""

    state: str
    address: str


@dataclass
class FlowVerdict:
    """Verdict on one flow: what arrived of it.

    Attributes:
        flow: flow name.
        rows_before: rows that the flow's tables held before its first run.
        source_rows: row changes that the writer made in them since.
        messages: records with a value in its topics, None when it has none.
        documents: documents in its indices, None when it has none.
        problems: a line per mismatch.
        lag_s: seconds behind the source.
        runs: its runs, newest first.
    """

    flow: str
    rows_before: int = 0
    source_rows: int = 0
    messages: int | None = None
    documents: int | None = None
    problems: list[str] = field(default_factory=list)
    lag_s: float | None = None
    runs: list[RunLink] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Return whether everything arrived as it should."""
        return not self.problems


@dataclass
class Judge:
    """Compares the flows of `dags/` with the source and with what the writer did.

    Attributes:
        sandbox: the servers.
        connection: open connection to the shop.
        written: what the writer did.
        api: Airflow.
        dags: folder of the DAG files.
    """

    sandbox: Sandbox
    connection: Any
    written: ShopTotals
    api: AirflowApi
    dags: Path

    def verdict(self, flow: str) -> FlowVerdict:
        """Judge one flow as it stands now; a sink that is not there yet is a mismatch."""
        checks = {
            "orders_to_kafka": self._orders_to_kafka,
            "orders_to_search": self._orders_to_search,
            "shop_fan_out": self._shop_fan_out,
        }
        verdict = FlowVerdict(flow)
        try:
            checks[flow](verdict)
        except Exception as error:  # noqa: BLE001 - whatever keeps a consumer from reading is the flow's failure
            verdict.problems.append(f"{type(error).__name__}: {error}")
        runs = self.api.runs(flow)
        if not any(r["state"] == "success" for r in runs):
            verdict.problems.append("no run, with its audit, has ended well yet")
        verdict.runs = [RunLink(r["state"], self.api.run_address(flow, r["dag_run_id"])) for r in runs]
        return verdict

    def _orders_to_kafka(self, verdict: FlowVerdict) -> None:
        self._count(verdict, "orders")
        expected = self._state("orders", _without_card)
        _judge_topic(verdict, self._topic("cdc.orders"), {"shop.orders": expected}, self.written)

    def _orders_to_search(self, verdict: FlowVerdict) -> None:
        self._count(verdict, "orders", "products")
        self._judge_index(verdict, "orders", self._state("orders", _hashed_card))
        self._judge_index(verdict, "products", self._state("products"))

    def _shop_fan_out(self, verdict: FlowVerdict) -> None:
        self._count(verdict, *_KEYS)
        customers = self._state("customers", _masked_email)
        _judge_topic(verdict, self._topic("shop.people"), {"shop.customers": customers}, self.written)
        trade = self._topic("shop.trade")
        expected = {f"shop.{table}": self._state(table) for table in ("products", "order_items")}
        _judge_topic(verdict, trade, expected, self.written)
        shown = {k: row for k, row in self._state("orders", _without_card).items() if row["status"] != "new"}
        verdict.problems += mismatches(shown, trade.state.get("shop.orders", {}))
        self._judge_index(verdict, "shop-people", customers)

    def _count(self, verdict: FlowVerdict, *tables: str) -> None:
        verdict.source_rows = sum(map(self.written.rows, tables))
        verdict.rows_before = sum(table in tables for table, _ in self.written.before)

    def _judge_index(self, verdict: FlowVerdict, index: str, expected: State) -> None:
        documents = index_documents(self.sandbox.address("opensearch"), index)
        verdict.documents = (verdict.documents or 0) + len(documents)
        by_id = {_document_id(key): row for key, row in expected.items()}
        verdict.problems += [f"{index} {line}" for line in mismatches(by_id, documents)]

    def _topic(self, topic: str) -> ConsumedTopic:
        return fold(topic_records(self.sandbox.address("kafka"), topic))

    def _state(self, table: str, change: Callable[[dict[str, Any]], Any] = lambda row: row) -> State:
        return source_state(self.connection, f"shop.{table}", _KEYS[table], change)

    def begun(self, flow: str) -> bool:
        """Return whether a flow has a checkpoint."""
        with self._services(flow) as services:
            return services.store.load(flow) is not None

    def add_lag(self, verdict: FlowVerdict) -> None:
        """Measure how far behind the source the flow's checkpoint is."""
        with self._services(verdict.flow) as services:
            lag = measure(find_flow(verdict.flow, self.dags).flow, services).lag
        verdict.lag_s = lag.seconds if lag else None

    @contextmanager
    def _services(self, name: str) -> Iterator[Services]:
        environment = databus_environment(self.sandbox.status(), self.sandbox.home)
        settings = Settings.from_environment(environment)
        flow = find_flow(name, self.dags).flow
        with open_services(flow, EnvironmentConnections(environment), settings) as services:
            yield services


def _judge_topic(verdict: FlowVerdict, seen: ConsumedTopic, expected: dict[str, State], written: ShopTotals) -> None:
    verdict.messages = (verdict.messages or 0) + seen.messages
    for name, count in (("duplicated", seen.duplicates), ("out of order", seen.disordered)):
        if count:
            verdict.problems.append(f"{count} records {name}")
    for table, state in expected.items():
        verdict.problems += [f"{table} {line}" for line in mismatches(state, seen.state.get(table, {}))]
        verdict.problems += _miscounted(table, seen, written)


def _miscounted(table: str, seen: ConsumedTopic, written: ShopTotals) -> list[str]:
    """Return a line for each key that came another number of times than it should.

    Each change since the flow began comes once. A row that was there before comes as it was read, unless a change of it
    came while it was read; no row comes so twice.
    """
    bare, lines = table.partition(".")[2], []
    for key in {key for name, key in (*written.per_key, *written.before) if name == bare}:
        place = table, _key_json(bare, key)
        times, changes, reads = written.per_key[bare, key], seen.changes[place], seen.reads[place]
        there = (bare, key) in written.before
        if changes != times:
            lines.append(f"{table} {key}: changed {times} times, {changes} records")
        if reads > 1 or (there and not reads and not changes):
            lines.append(f"{table} {key}: {'was' if there else 'was not'} there before, came {reads} times as a row")
    return lines


def _key_json(table: str, key: str) -> str:
    columns = _KEYS[table]
    values: list[Any] = [v if c == "sku" else int(v) for c, v in zip(columns, key.split("|"), strict=True)]
    return json.dumps(dict(zip(columns, values, strict=True)), separators=(",", ":"))


def _document_id(key: str) -> str:
    values = list(json.loads(key).values())
    return str(values[0]) if len(values) == 1 else json.dumps(values, separators=(",", ":"))


def _without_card(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "card_number"}


def _hashed_card(row: dict[str, Any]) -> dict[str, Any]:
    card = row["card_number"]
    return {**row, "card_number": None if card is None else hashlib.sha256(card.encode()).hexdigest()}


def _masked_email(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "email": "***"}
