"""A watchdog outside Airflow: looks at all flows, judges them by the same rules, notifies the same channels.

It needs neither scheduler, triggerer nor metadata database. Alerts are remembered in ZooKeeper, so that it and
Airflow's tasks notify of each one once; notifications while ZooKeeper itself is away are remembered here.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from databus.core.alerts.alert import Alert, AlertKind, ChannelSpec
from databus.core.alerts.flow_status import FlowFigures
from databus.core.connections import ConnectionSource
from databus.core.errors.checkpoint import CheckpointError
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.protocols.recorder import Clock
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.observe.alerts.outbox import MemoryBook, Outbox, none_ended
from databus.observe.alerts.rules import AlertWhen, Observation, rules_of
from databus.observe.batch_points import Point, point
from databus.observe.prometheus import of_flow
from databus.ops.flows.discovery import dag_files, dags_folder, discover
from databus.ops.health.airflow import AirflowHealth
from databus.ops.health.alerts import Teller, channels_of, judged
from databus.ops.health.status import STORE, FlowLook

log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Flows looked at at the same time: one whose server does not answer must not hold up the others."""


@dataclass(frozen=True)
class Round:
    """Round of `databus watch`: one look at all flows.

    Attributes:
        number: counts from 1.
        ended: monotonic time at its end.
        seconds: how long it took.
        figures: of each flow.
        alerts: decided on in it.
        points: for Prometheus.
        problems: a line for each DAG file or flow that could not be looked at.
    """

    number: int
    ended: float
    seconds: float
    figures: tuple[FlowFigures, ...]
    alerts: tuple[Alert, ...]
    points: tuple[Point, ...]
    problems: tuple[str, ...]


@dataclass
class FlowWatch:
    """Looks at all flows of a DAG folder, round by round.

    Attributes:
        dags: folder of the DAG files; read again in each round in which one has changed.
        connections: resolves conn_ids.
        settings: where the records are.
        airflow: whose health is asked for; None for nobody's.
        clock: gives the time.
    """

    dags: Path | None
    connections: ConnectionSource
    settings: Settings
    airflow: AirflowHealth | None = None
    clock: Clock = field(default_factory=SystemClock)
    last: Round | None = field(default=None, init=False)
    _looks: dict[str, FlowLook] = field(default_factory=dict, init=False)
    _local: MemoryBook = field(default_factory=MemoryBook, init=False)
    _broken: tuple[str, ...] = field(default=(), init=False)
    _files: tuple[tuple[str, int, int], ...] | None = field(default=None, init=False)

    def round(self) -> Round:
        """Look at every flow, judge and notify; what goes wrong with one flow harms no other."""
        started = time.monotonic()
        flows = self._flows()
        with ThreadPoolExecutor(min(_AT_ONCE, len(flows) or 1)) as pool:
            seen = list(pool.map(self._safely, flows))
        figures = tuple(f for f, _, _ in seen if f is not None)
        alerts = [alert for _, told, _ in seen for alert in told]
        problems = [problem for _, _, problem in seen if problem]
        health = self.airflow.look() if self.airflow is not None else {}
        if health:
            alerts += self._tell_health(flows, health)
        number = self.last.number + 1 if self.last else 1
        ended = time.monotonic()
        points = [p for f in figures for p in of_flow(f)]
        points += [p for flow in flows for p in self._alert_points(flow)]
        points += [point("airflow_healthy", not problem, component=part) for part, problem in health.items()]
        points += [
            point("watch_rounds_total", number),
            point("watch_round_seconds", ended - started),
            point("watch_flows", len(flows)),
            point("watch_broken_files", len(self._broken)),
        ]
        self.last = Round(
            number, ended, ended - started, figures, tuple(alerts), tuple(points), (*self._broken, *problems)
        )
        return self.last

    def close(self) -> None:
        """Close every connection; safe to call twice."""
        for look in self._looks.values():
            look.close()
        self._looks = {}

    def _flows(self) -> tuple[Flow, ...]:
        """Return the flows of the folder; those whose file cannot be read just now are watched as they were."""
        root = self.dags or dags_folder()
        files = _stamps(root)
        if self._files == files:
            return tuple(self._looks[name].flow for name in sorted(self._looks))
        try:
            found, broken = discover(root)
        except ConfigError as error:
            found, self._broken = [], (str(error),)
        else:
            self._broken, self._files = tuple(str(item.error) for item in broken), files
        flows = {item.flow.name: item.flow for item in found}
        for name, look in list(self._looks.items()):
            if name not in flows and self._broken:
                flows[name] = look.flow
            elif flows.get(name) != look.flow:
                self._looks.pop(name).close()
        for name, flow in flows.items():
            if name not in self._looks:
                self._looks[name] = FlowLook(flow, self.connections, self.settings, self.clock)
        return tuple(flows[name] for name in sorted(flows))

    def _safely(self, flow: Flow) -> tuple[FlowFigures | None, list[Alert], str]:
        try:
            return self._look_at(flow)
        except DatabusError as error:
            return None, [], f"flow {flow.name}: {error}"
        except Exception as error:
            log.exception("flow %s: not looked at", flow.name)
            return None, [], f"flow {flow.name}: {type(error).__name__}: {error}"

    def _look_at(self, flow: Flow) -> tuple[FlowFigures, list[Alert], str]:
        look = self._looks[flow.name]
        figures = look.look(rules_of(flow).quarantine_minutes * 60)
        if not channels_of(flow):
            return figures, [], ""
        observations, known = judged(flow, figures, outside=True)
        if STORE not in figures.unreachable:
            try:
                told = self._teller(look).tell(flow, observations, known, figures.at)
            except CheckpointError as error:
                return figures, [], f"flow {flow.name}: alerts were not sent: {error}"
            # What was notified while ZooKeeper was away is over.
            return figures, told + self._teller(None).tell(flow, (), (AlertKind.UNREACHABLE,)), ""
        away = [o for o in observations if o.kind is AlertKind.UNREACHABLE]
        return figures, self._teller(None).tell(flow, away, (AlertKind.UNREACHABLE,)), ""

    def _teller(self, look: FlowLook | None) -> Teller:
        book = look.store.alert_book() if look is not None else self._local
        ended = look.audited if look is not None else none_ended
        return Teller(book, self.connections, self.settings, self.clock, ended)

    def _tell_health(self, flows: Sequence[Flow], health: dict[str, str]) -> list[Alert]:
        """Notify every channel of any flow of unwell parts of Airflow; remembered where the first one can be."""
        told = [flow for flow in flows if AlertKind.AIRFLOW not in rules_of(flow).off]
        channels: dict[str, ChannelSpec] = {c.channel_name: c for flow in told for c in channels_of(flow)}
        if not channels:
            return []
        observations = [AirflowHealth.observation(part, problem) for part, problem in health.items()]

        def tell(teller: Teller, said: Sequence[Observation]) -> list[Alert]:
            outbox = Outbox("", teller.book, tuple(channels.values()), self.connections, self.clock, self.settings)
            return outbox.consider(said, (), AlertWhen().patience)

        tried: set[str] = set()
        for flow in told:
            if flow.zookeeper_conn_id in tried:
                continue
            tried.add(flow.zookeeper_conn_id)
            try:
                return tell(self._teller(self._looks[flow.name]), observations)
            except DatabusError as error:
                log.warning("alerts on Airflow are not remembered in %s: %s", flow.zookeeper_conn_id, error)
        return tell(self._teller(None), observations)

    def _alert_points(self, flow: Flow) -> list[Point]:
        """Return how many alerts are on, by kind; 0 for those that were on once, so that a graph comes down."""
        look, counts = self._looks[flow.name], dict.fromkeys(map(str, AlertKind), 0)
        try:
            books = [self._local.load(flow.name), look.store.alert_book().load(flow.name) if channels_of(flow) else {}]
        except DatabusError:
            books = [self._local.load(flow.name)]
        for book in books:
            for key, noted in book.items():
                kind = key.partition("/")[0]
                if kind in counts:  # not one of a newer version
                    counts[kind] += noted.state.raised
        return [point("alerts", count, flow=flow.name, kind=kind) for kind, count in counts.items()]


def _stamps(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a fingerprint of the DAG files: path, time and size of each."""
    stamps = []
    for file in dag_files(root):
        with contextlib.suppress(OSError):  # gone since it was listed
            stat = file.stat()
            stamps.append((str(file), stat.st_mtime_ns, stat.st_size))
    return tuple(stamps)


def run(watch: FlowWatch, every_s: float, wait: Callable[[float], bool], after: Callable[[Round], None]) -> None:
    """Look round by round until a stop is asked for; a round that fails is logged, and the next one is begun.

    Args:
        watch: the watch.
        every_s: from the start of one round to the start of the next.
        wait: sleeps, and returns whether a stop was asked for.
        after: called after each round.
    """
    while True:
        started = time.monotonic()
        try:
            seen = watch.round()
        except Exception:
            log.exception("a look at all flows failed, another follows")
        else:
            after(seen)
        if wait(max(0.1, every_s - (time.monotonic() - started))):
            return
