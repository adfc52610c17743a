"""Live job: one Spark job per window, whose task stays and writes each micro-batch when the run asks it to."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from databus.core.errors.root import DatabusError
from databus.runtime.drain import Drain
from databus.runtime.live.link import LinkLostError, LiveLink, new_key
from databus.runtime.live.worker import RunAddress, live_runner

log = logging.getLogger(__name__)

_HELLO_S = 10.0
_LOOK_S = 0.2
_END_WITHIN_S = 10.0


class LiveJob:
    """Live job and the link to its task. Used by one thread, but for what `start` leaves to one of its own.

    Nothing rests on the job being alive: each call is a writer's protocol, which another attempt takes up.
    """

    def __init__(self, spark: Any, flow: str):
        self._spark, self._flow = spark, flow
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._link: LiveLink | None = None
        self._key = new_key()
        self._failed: BaseException | None = None
        self._closed = False

    def start(self) -> None:
        """Submit the job and return at once; `ready` waits for its task."""
        host = address_facing(self._spark)
        self._listener = socket.create_server((host, 0), backlog=4)
        place = RunAddress(host, self._listener.getsockname()[1], self._key)
        self._thread = threading.Thread(target=self._run, args=(place,), name=f"databus-live-{self._flow}", daemon=True)
        self._thread.start()

    def ready(self, within_s: float, drain: Drain | None = None) -> bool:
        """Wait until the task has called back; False when it does not in time, the job failed, or a stop is asked."""
        deadline = time.monotonic() + within_s
        while self._link is None:
            if self._closed or self._failed is not None or self._listener is None or time.monotonic() > deadline:
                return False
            if drain is not None and drain.requested:
                return False
            self._accept()
        return True

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Let the task do a piece of work, and return its result.

        Args:
            work: a function that the task can import.
            arguments: picklable.

        Raises:
            LinkLostError: the task is gone; whether the work was done is for its own protocol to find out.
            DatabusError: what the work raised.
        """
        if self._link is None:
            raise LinkLostError("the live job has no link")
        self._link.send((work, arguments))
        answer = self._link.receive()
        if isinstance(answer, DatabusError):
            raise answer
        return answer

    def close(self) -> None:
        """End the job; its task ends when the link closes, or never calls back. Safe to call twice."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
        if self._link is not None:
            self._link.close()
        if self._thread is not None:
            # A job that still waits for a free task slot ends as soon as it gets one: nobody listens any more.
            self._thread.join(_END_WITHIN_S if self._link is not None else 0)

    def _run(self, place: RunAddress) -> None:
        try:
            self._spark.range(0, 1, 1, 1).mapInArrow(live_runner(place), "answered long").collect()
        except Exception as error:  # noqa: BLE001 - seen by `ready`; a link that is lost says it to `call`
            self._failed = error
            if not self._closed:
                log.warning("flow %s: the live job failed: %s", self._flow, str(error).strip().splitlines()[:1])

    def _accept(self) -> None:
        assert self._listener is not None  # noqa: S101 - `ready` has looked
        self._listener.settimeout(_LOOK_S)
        try:
            connection, peer = self._listener.accept()
        except OSError:
            return
        link = LiveLink(connection, self._key, driver=True)
        try:
            number = link.receive(_HELLO_S)
        except LinkLostError as error:
            log.warning("flow %s: %s:%d called who is not the live job: %s", self._flow, *peer[:2], error.message)
            link.close()
            return
        log.info("flow %s: the live job's task runs as process %s at %s", self._flow, number, peer[0])
        self._link = link


def address_facing(spark: Any) -> str:
    """Return the address of this machine at which a session's executors reach this process.

    With Spark Connect the address of the route to the server, with a classic session the driver's own.
    """
    client = getattr(spark, "client", None)
    if client is None:
        with contextlib.suppress(Exception):
            return str(spark.conf.get("spark.driver.host"))
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((client.host, 9))
        return str(probe.getsockname()[0])
