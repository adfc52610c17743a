"""A state of the protocol model, and ZooKeeper as the store sees it there; see model.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import (
    ANY_VERSION,
    Operation,
    OperationKind,
    OutcomeUnknownError,
    RefusedError,
)
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan

FLOW, SINK = "model", "kafka"
Nodes = tuple[tuple[str, bytes, int, int], ...]
"""(path, data, version, owning session) of each node, sorted."""


@dataclass(frozen=True)
class Size:
    """What bounds the search.

    Attributes:
        units: length of the log; unit u has a row for slot s where u is a multiple of s + 1.
        slots: writers.
        crashes: crashes in one history.
        expiries: sessions of live processes that end, in one history.
        lost: answers of ZooKeeper lost in one history.
        epochs: claims in one history.
        definitions: definitions of the flow; each claim is of any of them.
        resized: each plan has any number of slots up to `slots`.
    """

    units: int = 2
    slots: int = 1
    crashes: int = 1
    expiries: int = 1
    lost: int = 0
    epochs: int = 3
    definitions: int = 1
    resized: bool = False


class Slot(NamedTuple):
    """One slot of the sink: its marker (JSON), its producer's epoch, and the rows that consumers see."""

    marker: str = ""
    producer: int = 0
    seen: tuple[int, ...] = ()


class Writer(NamedTuple):
    """A slot's writer at work: which plan (its hash), what it does next, its producer, what of it is committed."""

    plan: str
    slot: int
    step: str = "init"
    producer: int = 0
    kept: bool = False
    chunk: int = 0
    done: int = 0


class Process(NamedTuple):
    """One process of the flow.

    Attributes:
        step: what it does next.
        session: number of its ZooKeeper session; 0 for none.
        lease: its claim's epoch, and the data version of the epoch's node.
        checkpoint: as it last read or wrote it, in JSON.
        plan: hash of the plan in hand.
        read: the nodes (by number) as it read them, for its next write; -1 for none.
        writer: the writer at work.
        producers: kept producers by slot, 0 for none.
        definition: number of the definition that it runs.
        answers: what Kafka has answered so far to a closing of the plan in hand (see model_closing.py).
        marks: batches that the slots hold after a closing.
        cut_off: whether another process has closed the plan in hand since this one looked whether it is open.
    """

    step: str = "claim"
    session: int = 0
    lease: tuple[int, int] = (0, 0)
    checkpoint: str = ""
    plan: str = ""
    read: int = -1
    writer: Writer | None = None
    producers: tuple[int, ...] = ()
    definition: int = 0
    answers: tuple[Any, ...] = ()
    marks: tuple[int, ...] = ()
    cut_off: bool = False


class State(NamedTuple):
    """All of it; nodes by number."""

    nodes: int
    slots: tuple[Slot, ...]
    processes: tuple[Process, ...]
    orphans: tuple[Writer, ...] = ()
    sessions: int = 0
    crashes: int = 0
    expiries: int = 0
    lost: int = 0


class Violation(Exception):  # noqa: N818 - what is looked for
    """An invariant does not hold."""


class ModelSession:
    """What the store sees of ZooKeeper: the nodes of a state."""

    def __init__(self) -> None:
        self.nodes: Nodes = ()
        self.first_read: Nodes | None = None
        self.session = 0
        self.lose: str = ""
        self.claimed: int | None = None
        self.options = SimpleNamespace(session_timeout_s=1.0)

    def _get(self, path: str, nodes: Nodes) -> Node | None:
        return next((Node(data, version, owner) for name, data, version, owner in nodes if name == path), None)

    def read(self, *paths: str, sync: bool = False) -> list[Node | None]:
        nodes = self.nodes if sync or self.first_read is None else self.first_read
        return [self._get(path, nodes) for path in paths]

    def children(self, path: str) -> list[str]:
        root = f"{path}/"
        return sorted(n[len(root) :] for n, *_ in self.nodes if n.startswith(root) and "/" not in n[len(root) :])

    def ensure(self, path: str) -> None:
        pass

    def watch(self, path: str, changed: Callable[[], None]) -> bool:
        return False

    def alive(self, session_id: int) -> bool:
        return True

    def write(self, operations: list[Operation], what: str) -> list[Any]:
        lose, self.lose = self.lose, ""
        if lose == "write":
            raise OutcomeUnknownError(what)
        nodes = {name: (data, version, owner) for name, data, version, owner in self.nodes}
        for o in operations:
            there = nodes.get(o.path)
            if o.kind is OperationKind.CREATE:
                if there is not None:
                    raise RefusedError(o, Exception("exists"))
                nodes[o.path] = (o.data, 0, self.session if o.ephemeral else 0)
                continue
            if there is None or o.version not in (ANY_VERSION, there[1]):
                raise RefusedError(o, Exception("missing" if there is None else "version"))
            if o.kind is OperationKind.SET:
                nodes[o.path] = (o.data, there[1] + 1, there[2])
            elif o.kind is OperationKind.DELETE:
                del nodes[o.path]
        if self.claimed is not None:
            stored = self._get(f"/databus/flows/{FLOW}/epoch", self.nodes)
            if stored is not None and stored.version != self.claimed:
                raise Violation(f"a zombie wrote: {what}")
        self.nodes = tuple(sorted((n, *rest) for n, rest in nodes.items()))
        if lose == "answer":
            raise OutcomeUnknownError(what)
        return []


# States hold these by hash or text, for plans and checkpoints are not hashable.
PLANS: dict[str, Plan] = {}
CHECKPOINTS: dict[str, Checkpoint] = {}


def interned(plan: Plan) -> str:
    """Return the text by which states name a plan."""
    PLANS[plan.hash] = plan
    return plan.hash


def stored_text(checkpoint: Checkpoint) -> str:
    """Return the text by which states name a checkpoint."""
    text = json.dumps(checkpoint.to_json(), sort_keys=True)
    CHECKPOINTS[text] = checkpoint
    return text


def with_process(state: State, number: int, process: Process) -> State:
    """Put a process in; the two are alike, so that they stand in an order of their own."""
    one, two = put(state.processes, number, process)
    return state._replace(processes=(one, two) if hash(one) <= hash(two) else (two, one))


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """Return the values with another at an index."""
    return (*values[:index], value, *values[index + 1 :])
