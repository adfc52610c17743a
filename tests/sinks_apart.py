"""Flows of several sinks with transforms of their own, against flows of one sink each; over random histories."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from databus import (
    AddColumn,
    Cast,
    DropColumns,
    Filter,
    Flow,
    Hash,
    Lookup,
    Mask,
    Memory,
    Mock,
    NotNull,
    Project,
    RenameColumns,
    Truncate,
    __version__,
)
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchReport
from databus.core.flow_specs import CheckSpec, SinkSpec, TransformSpec
from databus.core.settings import Settings
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.ledger_chain import build
from databus.core.times import SystemClock
from databus.runtime.batch import run_batch
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.copies import most_copies
from databus.sinks.memory import clear, records
from databus.testing.memory_store import MemoryCheckpoints
from tests.direct_engine import DirectEngine, Task

COLUMNS = {"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "region": "varchar"}
TABLES = ("shop.orders", "shop.people")


class Here(DirectEngine):
    """The engine of this process."""

    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number in numbers:
            for batch in task([pa.RecordBatch.from_pydict({"id": [number]})]):
                found += batch.to_pylist()
        return found


@dataclass
class Told:
    """What a run stored and held."""

    reports: list[BatchReport] = field(default_factory=list)
    held: list[RejectedRow] = field(default_factory=list)
    stores: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    entries: list[HistoryEntry] = field(default_factory=list)

    def record(self, *reports: BatchReport) -> None:
        self.reports += reports

    def paged(self, flow: str) -> int:
        return 0

    def page(self, flow: str, entries: Any) -> int:
        return 0

    def quarantine(self, flow: str, batch: int, rows: Any, **_: Any) -> None:
        self.held.extend(rows)

    def held_by(self, stage: str) -> list[tuple[str, str, Any]]:
        return sorted((r.event_id, r.cause, json.loads(r.payload)["op"]) for r in self.held if r.stage == stage)

    def left_out(self, sink: str) -> int:
        receipts = (r for report in self.reports for r in report.receipts if r.sink == sink)
        return sum(int(r.outputs.get("", {}).get("filtered", 0)) for r in receipts)

    def confirmed(self, sink: str) -> int:
        return sum(sum(r.rows.values()) for report in self.reports for r in report.receipts if r.sink == sink)


def moved(engine: Any, flow: Flow) -> Told:
    """Run a flow of memory sinks to its end; the ledger has to hold."""
    names = [spec.store for spec in flow.sinks if isinstance(spec, Memory)]
    for name in names:
        clear(name)
    told, checkpoints = Told(), MemoryCheckpoints()
    recorder: Any = told
    services = Services(Settings("t", "", ""), EnvironmentConnections({}), checkpoints, None, recorder, SystemClock())
    with open_session(flow, services, engine, RunIdentity("run", "", __version__)) as session:
        lease = checkpoints.claim(flow.name, "run", 0)
        checkpoint = checkpoints.start(flow.name, lease, session.source.start_offset(), "run")
        while run_batch(session, lease, checkpoint) is not None:
            loaded = checkpoints.load(flow.name)
            assert loaded is not None
            checkpoint = loaded
        lease.release()
    told.stores = {name: [comparable(record) for record in records(name)] for name in names}
    told.entries = list(reversed(checkpoints.history(flow.name, 1_000)))
    for name in names:
        clear(name)
    ledger = build(flow.name, told.entries, copies=most_copies(flow))
    assert ledger.problems == ()
    return told


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    body = json.loads(record["value"])
    body.pop("ts_ms")
    return {**record, "value": body}


def flow_of(
    seed: int,
    rows: int,
    transforms: Sequence[TransformSpec],
    sinks: Sequence[SinkSpec],
    checks: Sequence[CheckSpec] = (),
    **options: Any,
) -> Flow:
    source = Mock(tables=TABLES, rows=rows, rows_per_transaction=7, columns=COLUMNS, null_ratio=0.25, seed=seed)
    return Flow(
        name="apart", source=source, transforms=tuple(transforms), checks=tuple(checks), sinks=tuple(sinks), **options
    )


def some_transforms(r: random.Random, most: int, prefix: str) -> list[TransformSpec]:
    """Return random transforms that fit behind each other in any order, columns of the key left as they are."""
    makers: list[Callable[[int], TransformSpec]] = [
        lambda _: Filter(r.choice(["amount > 400", "amount IS NULL OR amount > 200", "customer_id % 3 <> 1"])),
        lambda _: Filter("_op <> 'd'", leaving="ignore"),
        lambda _: Filter("amount > 300", tables=("shop.orders",), leaving=r.choice(["delete", "ignore"])),
        lambda _: Mask("status", keep_last=r.choice([0, 1])),
        lambda _: Hash("region", tables=(r.choice(TABLES),)),
        lambda n: AddColumn({f"{prefix}{n}": "CAST(amount * 1.19 AS decimal(14,2))"}),
        lambda _: Truncate("status", 2),
        lambda n: Lookup("status", {"new": "1"}, into=f"{prefix}{n}", missing=r.choice(["null", "hold"])),
        lambda n: Cast({"region": "int"}, on_failure=r.choice(["hold", "null"])) if n else Truncate("region", 1),
    ]
    found = [r.choice(makers)(n) for n in range(r.randint(1, most))]
    ends: list[Callable[[], TransformSpec]] = [
        lambda: RenameColumns({"status": f"{prefix}state"}),
        lambda: DropColumns("region"),
        lambda: Project("id", "customer_id", "amount"),
    ]
    return [*found, r.choice(ends)()] if r.random() < 0.7 else found


def require_apart(engine: Any, seed: int, rows: int, seen: Counter[str], **options: Any) -> None:
    """Compare a random flow of two sinks with a flow for each, whose transforms stand behind the flow's."""
    r = random.Random(seed)
    before = [Mask("status"), Filter("amount IS NULL OR amount > 100")][: r.randint(0, 2)]
    checks = [NotNull("customer_id", severity="quarantine")] if r.random() < 0.5 else []
    own = {name: some_transforms(r, 3, name) for name in ("east", "west")}
    routes = {"east": ("*",), "west": r.choice([("*",), ("shop.orders",)])}
    sinks = [Memory(name=n, store=n, routes=routes[n], transforms=tuple(own[n])) for n in own]
    together = moved(engine, flow_of(seed, rows, before, sinks, checks, **options))
    plain = Memory(name="plain", store="plain")
    beside = moved(engine, flow_of(seed, rows, before, [plain, *sinks], checks, **options))
    for name, specs in own.items():
        sink = Memory(name=name, store=name, routes=routes[name])
        # A check sees rows before the sink's transforms: what it holds is in neither.
        alone = moved(engine, flow_of(seed, rows, [*before, *specs], [sink], **options))
        held = {event for event, _, _ in together.held_by("check")}
        wanted = [record for record in alone.stores[name] if record["event_id"] not in held]
        assert together.stores[name] == wanted == beside.stores[name], (seed, name, specs)
        mine = [row for row in alone.held_by("check") if row[0] not in held]
        of_flow = [row for row in together.held_by("check") if row in mine]
        assert together.held_by(name) == [row for row in mine if row not in of_flow], (seed, name, specs)
        reached = sum(c.dispatched for report in together.reports for c in report.tables.values())
        reached += len({row[0] for n in own for row in together.held_by(n)})
        if routes[name] == ("*",):
            shares = together.confirmed(name), together.left_out(name), len(together.held_by(name))
            assert sum(shares) == reached, (seed, name, shares, reached)
        seen.update(spec.kind for spec in specs)
        seen["left out"] += together.left_out(name)
        seen["held for a sink"] += len(together.held_by(name))
    name = r.choice(["east", "west"])  # the ledger asks what a sink leaves out where it is the only one
    only = moved(engine, flow_of(seed, rows, before, [sink for sink in sinks if sink.name == name], checks, **options))
    assert only.stores[name] == together.stores[name], (seed, name)
    assert only.left_out(name) == together.left_out(name), (seed, name)
    untouched = moved(engine, flow_of(seed, rows, before, [plain], checks, **options))
    assert beside.stores["plain"] == untouched.stores["plain"], seed
    assert beside.held_by("check") == untouched.held_by("check") == together.held_by("check"), seed
