"""Starts runs of the path quickly: everything is imported once here, and each run is a fork.

Reads a JSON line per command from stdin, writes one per answer to stdout; what the runs tell goes by datagrams to the
socket named on the command line. A run is a process group: the driver, and one executor per slot.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import os
import random
import select
import signal
import socket
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

_log = logging.getLogger(__name__)

_IMPORTS = (
    "databus.ops.runs.run",
    "databus.ops.services",
    "databus.sources.mysql.source",
    "databus.sources.mysql.segments.split",
    "databus.sources.mysql.segments.library_decoder",
    "databus.sinks.kafka.sink",
    "databus.sinks.kafka.direct",
    "databus.sinks.kafka_mirror.sink",
    "databus.sinks.kafka_mirror.topic_sync",
    "databus.sources.kafka.source",
    "databus.ops.mirror.consumer_groups",
    "databus.runtime.direct.raw_records",
    "databus.sinks.elasticsearch.sink",
    "databus.sinks.elasticsearch.direct",
    "opensearchpy",
    "databus.runtime.direct.lane",
    "databus.runtime.direct.task",
    "databus.runtime.window",
    "databus.checkpoints.zookeeper",
    "databus.records.recorder",
    "databus.registry",
    "kazoo.client",
    "pyarrow.compute",
    "pyspark.cloudpickle",
    "sqlalchemy.dialects.sqlite",
    "tests.faults.engine",
    "tests.faults.points",
)


def main() -> None:
    """Serve commands until stdin ends."""
    address = sys.argv[1]
    for name in _IMPORTS:
        importlib.import_module(name)
    for name in sys.argv[2:]:
        _mutate(name)
    _answer({"ready": os.getpid()})
    running: set[int] = set()
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], 0.01)
        for pid in tuple(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                running.discard(pid)
                _answer({"exited": pid, "status": os.waitstatus_to_exitcode(status)})
        if not readable:
            continue
        line = sys.stdin.readline()
        if not line:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)
            return
        command = json.loads(line)
        if command.get("warm"):
            _answer({"warmed": _warm(command), "run": command["run"]})
            continue
        pid = os.fork()
        if pid == 0:
            _run(command, address)
        running.add(pid)
        _answer({"started": pid, "run": command["run"]})


def _warm(command: dict[str, Any]) -> int:
    """Plan, read and encode a batch here, without a thread and without a sink: forks then hold the compiled kernels."""
    import threading

    from databus.connections.environment import EnvironmentConnections
    from databus.core.batching import Batching
    from databus.core.flow_specs import FlowContext
    from databus.core.settings import Settings
    from databus.core.state.plan import Plan, SinkPlan
    from databus.core.times import SystemClock
    from databus.registry import flow_from_json
    from databus.runtime.direct.lane import image_columns
    from databus.runtime.direct.row_checks import image_marks
    from databus.runtime.direct.row_counts import RowCounter, Taker
    from databus.runtime.direct.task import DirectTask
    from databus.sinks.kafka.direct import KafkaEncoder

    flow = flow_from_json(command["flow"])
    spec: Any = flow.sinks[0]
    context = FlowContext(f"{flow.name}_warm", Settings(**command["settings"]))
    source: Any = flow.source.open(EnvironmentConnections(command["connections"]), context)
    try:
        planned = source.plan(source.start_offset(), Batching(max_rows=60, max_wait=timedelta(seconds=1)))
        sinks = {spec.sink_name: SinkPlan(1, (0,), {spec.topic: spec.partitions})}
        plan = Plan("faults", flow.name, 1, planned.range, sinks, "", SystemClock().now())
        takers = (Taker(spec.routes, frozenset("cudr")),)
        splits, columns = tuple(source.splits(planned, 8)), image_columns(flow, planned)
        marks, encoder, nobody = image_marks(flow, planned), KafkaEncoder(spec, plan), cast("Any", None)
        task = DirectTask(flow, planned, splits, columns, marks, takers, 0, False, encoder, nobody)
        rows = sum(batch.num_rows for batch in task._encoded(0, RowCounter(flow, planned, takers, 0)))
        source.release(planned)
    finally:
        source.close()
    _load_record_kernel()
    if threading.active_count() > 1:
        raise RuntimeError(f"a thread is left, and a fork would lack it: {threading.enumerate()}")
    return rows


def _hand_over_by_turns(run: int) -> None:
    """Have every other run hand its records over by compiled code: batches of so few rows go by the client."""
    from databus.sinks.kafka import produce

    if run % 2:
        produce.COMPILED_FROM, produce.ROWS_A_REPORT = 1, 0


def _load_record_kernel() -> None:
    import numpy as np

    from databus.kafka.producer_handle import ProducerHandle
    from databus.kafka.record_run import Bytes, RecordRun, Records

    none, nothing = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    column = Bytes(np.zeros(1, np.int32), np.zeros(0, np.uint8), nothing)
    records = Records([], none, none, column, column, [("event_id", column)], nothing, [])
    RecordRun(ProducerHandle(0, 0), records).hand_over(0, 0)


def _mutate(name: str) -> None:
    from tests.faults.planted_bugs import MUTANTS

    MUTANTS[name].apply()


def _answer(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class _Teller:
    """Sends what happens in a run, with the time, as datagrams."""

    def __init__(self, address: str, run: int):
        self._address, self._run = address, run
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def __call__(self, event: str, **facts: Any) -> None:
        message = {"event": event, "run": self._run, "at": time.time(), "pid": os.getpid(), **facts}
        self._socket.sendto(json.dumps(message).encode(), self._address)


class _Clock:
    """The system's clock, or one that is wrong."""

    def __init__(self, offset_s: float):
        self._offset = timedelta(seconds=offset_s)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._offset


def _run(command: dict[str, Any], address: str) -> None:
    """Be one run: claim, move batches, end. Never returns."""
    code = 1
    try:
        os.setsid()
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, target)
        random.seed()
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr,
            format=f"%(asctime)s run {command['run']} %(process)d %(name)s %(message)s",
        )  # fmt: skip
        tell = _Teller(address, command["run"])
        _hand_over_by_turns(command["run"])
        _move(command, tell)
        code = 0
    except BaseException as error:  # noqa: BLE001 - told, and logged
        _log.exception("run %s failed", command["run"])
        facts = {"retryable": bool(getattr(error, "retryable", True)), "code": getattr(error, "code", "")}
        tell("failed", kind=type(error).__name__, text=str(error)[:2000], **facts)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _move(command: dict[str, Any], tell: _Teller) -> None:
    from dataclasses import replace

    from kazoo.client import KazooClient

    from databus import __version__
    from databus.connections.environment import EnvironmentConnections
    from databus.core.batching import Batching
    from databus.core.settings import Settings
    from databus.ops.runs.run import run_flow
    from databus.ops.services import open_services
    from databus.registry import flow_from_json
    from databus.runtime.context import RunIdentity
    from databus.runtime.window_limits import WindowControl, WindowLimits
    from tests.faults.engine import Engine, Executors
    from tests.faults.points import DRIVER_POINTS, EXECUTOR_POINTS, Point, Watched, WatchedStore, install_in_executor

    wanted = command.get("point")
    in_driver = wanted if wanted and wanted["point"] in DRIVER_POINTS else None
    in_executor = wanted if wanted and wanted["point"] in EXECUTOR_POINTS else None

    def at_start(number: int) -> None:
        mine = in_executor if in_executor and in_executor.get("slot", 0) == number else None
        install_in_executor(Point(mine, tell), tell)

    engine: Any
    if command.get("spark"):
        from databus.runtime.spark.session import connect_session

        engine = connect_session(command["spark"], f"faults/{command['flow']['name']}")
    else:
        executors = Executors(command["executors"], at_start)
        tell("executors", pids=executors.pids)
        engine = Engine(executors)
    open_before = KazooClient.start_async

    def start_async(client: Any) -> Any:
        def heard(state: str) -> None:
            if state == "CONNECTED" and client.client_id:
                session, password = client.client_id
                tell("session", id=session, password=password.hex())

        client.add_listener(heard)
        return open_before(client)

    KazooClient.start_async = start_async
    flow = flow_from_json(command["flow"]).model_copy(update={"batching": Batching.from_stored(command["batching"])})
    settings = Settings(**command["settings"])
    point = Point(in_driver, tell)
    limits = WindowLimits(**command["limits"])
    with open_services(flow, EnvironmentConnections(command["connections"]), settings) as services:
        watched: Any = WatchedStore(services.store, point, {}, tell)
        recorder: Any = Watched(services.recorder, point, {"record": "record"}, tell)
        clock = _Clock(command.get("clock_offset_s", 0.0))
        parts = replace(services, store=watched, recorder=recorder, clock=clock)
        control = WindowControl(limits)
        identity = RunIdentity(f"faults-{command['run']}", "", __version__)
        result = run_flow(flow, parts, engine, identity, control)
        tell("ended", batches=result.batches, offset=str(result.checkpoint.offset), lag=result.lag_bytes)


if __name__ == "__main__":
    main()
