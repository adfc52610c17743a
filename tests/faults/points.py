"""Named points of the path, and what happens there: a kill, or a stop until somebody continues the process.

Points of the driver stand around public calls of the checkpoint store and the recorder; those of an executor around the
steps of a Kafka transaction. A point that does not exist is an error, so that none rots away unseen.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

DRIVER_POINTS = tuple(
    f"{call}.{side}" for call in ("claim", "write_plan", "commit", "record", "release") for side in ("before", "after")
)
EXECUTOR_POINTS = (
    "init.before",
    "init.after",
    "begin.before",
    "begin.after",
    "flush.before",
    "flush.after",
    "transaction.before",
    "transaction.after",
)
POINTS = DRIVER_POINTS + EXECUTOR_POINTS

Tell = Callable[..., None]


class Point:
    """Waits for the n-th passing of one point, and then does its deed.

    Attributes:
        wanted: {"point", "hit", "action", "group"}: action "kill" or "stop"; group: also the whole process group.
    """

    def __init__(self, wanted: Mapping[str, Any] | None, tell: Tell):
        if wanted is not None and wanted["point"] not in POINTS:
            raise ValueError(f"no point {wanted['point']!r}; there are {', '.join(POINTS)}")
        self._wanted, self._tell, self._hits = wanted, tell, 0

    def passed(self, name: str) -> None:
        """Say that a point is passed."""
        wanted = self._wanted
        if wanted is None or wanted["point"] != name:
            return
        self._hits += 1
        if self._hits != wanted["hit"]:
            return
        self._tell("point", name=name, pid=os.getpid())
        number = signal.SIGKILL if wanted["action"] == "kill" else signal.SIGSTOP
        if wanted["group"]:
            os.killpg(os.getpgid(0), number)
        else:
            os.kill(os.getpid(), number)

    def around(self, call: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a point before and one after it."""

        def wrapped(*args: Any, **options: Any) -> Any:
            self.passed(f"{call}.before")
            result = function(*args, **options)
            self.passed(f"{call}.after")
            return result

        return wrapped


class Watched:
    """An object some of whose methods have points around them."""

    def __init__(self, wrapped: Any, point: Point, names: Mapping[str, str], tell: Tell):
        self._wrapped, self._names, self._point, self._tell_it = wrapped, names, point, tell

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        return self._point.around(self._names[name], found) if name in self._names else found


class WatchedStore(Watched):
    """A checkpoint store that tells of its claims and commits."""

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> Any:
        self._point.passed("claim.before")
        lease = self._wrapped.claim(flow, who, wait_s, run_url)
        self._tell_it("claimed", epoch=lease.epoch)
        self._point.passed("claim.after")
        return Watched(lease, self._point, {"release": "release"}, self._tell_it)

    def write_plan(self, lease: Any, plan: Any) -> None:
        self._point.passed("write_plan.before")
        self._wrapped.write_plan(lease, plan)
        self._tell_it("planned", batch=plan.batch)
        self._point.passed("write_plan.after")

    def start(self, flow: str, lease: Any, offset: Any, who: str, why: str = "") -> Any:
        return self._wrapped.start(flow, lease, offset, who, why)

    def commit(self, lease: Any, plan: Any, *rest: Any) -> None:
        self._point.passed("commit.before")
        self._wrapped.commit(lease, plan, *rest)
        self._tell_it("committed", batch=plan.batch, epoch=lease.epoch)
        self._point.passed("commit.after")


def install_in_executor(point: Point, tell: Tell) -> None:
    """Put the points of a Kafka transaction around the session's steps; tell what became of each write."""
    from databus.core.errors import DatabusError
    from databus.sinks.kafka import session, writer

    write = writer.KafkaSlotWriter.write

    def told(self: Any, rows: Any, slot: int) -> Any:
        try:
            receipt = write(self, rows, slot)
        except DatabusError as error:
            tell("refused", code=error.code, slot=slot, batch=self.plan.batch)
            raise
        tell("found" if receipt.duplicate else "wrote", slot=slot, batch=self.plan.batch)
        return receipt

    changed: Any = writer.KafkaSlotWriter
    changed.write = told

    kind: Any = session.Session
    for method, call in (("__init__", "init"), ("begin", "begin"), ("flush", "flush"), ("commit", "transaction")):
        setattr(kind, method, point.around(call, getattr(kind, method)))
