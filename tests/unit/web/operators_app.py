"""The operators' routes on a store in this process and records in a file, asked as a person of a role."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from databus import Flow, Mask, Memory, Mock
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import RejectedRow
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.checkpoint import overview
from databus.records.recorder import SqlRecorder
from databus.runtime.context import Services
from databus.testing.memory_store import MemoryCheckpoints
from databus.web import installation as of_web
from databus.web.app import create_app
from databus.web.installation import Access, DagFlow, Installation
from databus.web.operations import add_operations
from tests.unit.web.described import checked

DAG = "orders_of_the_shop"
"""The DAG, whose name is not its flow's."""

FLOW = Flow(
    name="orders",
    source=Mock(tables=("shop.orders",), rows=10),
    transforms=(Mask("email"),),
    sinks=(Memory(),),
    sink_outage=timedelta(seconds=1),
)


@dataclass
class Operators:
    """The application and what it works on.

    Attributes:
        client: asks it.
        store: checkpoints.
        url: records.
        notes: events that it wrote to Airflow's log.
        role: of who asks: "viewer", "editor" or "stranger".
    """

    store: MemoryCheckpoints
    url: str
    notes: list[tuple[str, str, str, Mapping[str, Any]]] = field(default_factory=list)
    role: str = "editor"
    flow: Flow = FLOW
    connections: EnvironmentConnections = field(default_factory=lambda: EnvironmentConnections({}))
    client: TestClient = field(init=False)

    def get(self, path: str, status: int = 200, **parameters: Any) -> Any:
        answer = self.client.get(f"/api/v1/dags/{DAG}{path}", params=parameters)
        assert answer.status_code == status, answer.text
        return checked("get", path, answer)

    def post(self, path: str, status: int = 200, /, match: str = "*", key: str = "k", **body: Any) -> Any:
        sent = {"Idempotency-Key": key, "If-Match": match}
        answer = self.client.post(f"/api/v1/dags/{DAG}{path}", json=body, headers=sent)
        assert answer.status_code == status, answer.text
        return checked("post", path, answer)

    def needs(self, *roles: str) -> Any:
        def guard(request: Request) -> None:
            if self.role not in roles or request.path_params.get("dag_id") == "hidden":
                raise HTTPException(403, "Forbidden")

        return guard


@contextmanager
def operators_app(folder: Path) -> Iterator[Operators]:
    """Give the application over a flow that has a checkpoint."""
    url = f"sqlite:///{folder / 'records.db'}"
    store = MemoryCheckpoints()
    lease = store.claim(FLOW.name, "r1", 0.0)
    store.start(FLOW.name, lease, SequenceOffset(5), "r1")
    lease.release()
    of = Operators(store, url)
    settings = Settings("test", str(folder), url)
    sees, edits = of.needs("viewer", "editor"), of.needs("editor")

    def lists(request: Request) -> set[str]:
        sees(request)
        return {DAG, "no_flow"}

    access = Access(lists, sees, edits, edits, edits, lambda: "ada", lambda *told: of.notes.append(told))

    def flow_of(dag_id: str) -> DagFlow | None:
        return DagFlow(of.flow, "spark_default") if dag_id == DAG else None

    with SqlRecorder.open(url) as recorder:

        @contextmanager
        def services(*_: Any, **__: Any) -> Iterator[Services]:
            yield Services(
                settings,
                EnvironmentConnections({}),
                store,
                None,
                recorder,
                SystemClock(),  # type: ignore[arg-type]
            )

        operations = partial(
            add_operations, access=access,
            installation=Installation(flow_of, EnvironmentConnections({}), lambda *_: None),
        )  # fmt: skip
        app = create_app(sees, lambda: {DAG}, folder, operations)
        of.client = TestClient(app, raise_server_exceptions=False)
        with patch.object(of_web, "open_services", services), patch.object(overview, "open_services", services):
            yield of


def held(number: int, cause: str = "not_null(total)", **after: object) -> RejectedRow:
    payload = json.dumps({"op": "c", "before": None, "after": {"id": number, **after}})
    return RejectedRow(f"e{number}", "shop.orders", f'{{"id":{number}}}', cause, "check", f"b.1:{number}", payload)


def hold(app: Operators, *rows: RejectedRow) -> None:
    with SqlRecorder.open(app.url) as recorder:
        recorder.quarantine(FLOW.name, 3, rows)
