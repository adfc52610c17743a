"""Live job's Spark task: it writes one micro-batch after the other, as the run asks it to over a link."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.client_cache import keeping
from databus.core.errors.root import DatabusError
from databus.runtime.live.link import LinkLostError, LiveLink

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_CONNECT_WITHIN_S = 20.0
_NEEDED = (
    "databus.binlog.segments.store",
    "databus.rows.image_form",
    "databus.runtime.direct.lane",
    "databus.runtime.direct.task",
    "databus.sources.mysql.segments.rows",
    "databus.sinks.kafka.direct",
    "databus.sinks.kafka.writer",
    "databus.kafka.record_run",
)
"""Loaded before the first batch is there."""


@dataclass(frozen=True)
class RunAddress:
    """Listening address of the run; picklable.

    Attributes:
        host: address that executors reach.
        port: its port.
        key: of the link.
    """

    host: str
    port: int
    key: bytes = field(repr=False)


def live_runner(place: RunAddress) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of the job's one task; it ends when the run closes the link, or dies."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"answered": pa.array([serve(place)], pa.int64())})

    return run


def serve(place: RunAddress) -> int:
    """Answer calls until the link is closed; return how many. A run that is gone already is no error."""
    for name in _NEEDED:
        importlib.import_module(name)
    try:
        link = LiveLink(_connected(place), place.key, driver=False)
    except OSError as error:
        log.info("live job: nobody listens at %s:%d any more: %s", place.host, place.port, error)
        return 0
    answered = 0
    try:
        link.send(os.getpid())
        with keeping():
            while True:
                work, arguments = link.receive()
                link.send(_answer(work, arguments))
                answered += 1
    except LinkLostError as end:
        log.info("live job: ends after %d calls: %s", answered, end.message)
        return answered
    finally:
        link.close()


def _answer(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return work(*arguments)
    except DatabusError as error:
        return error
    except Exception:  # noqa: BLE001 - said to the run, which fails the batch with it
        return LiveTaskError(f"the live job's task failed:\n{traceback.format_exc()}")


class LiveTaskError(DatabusError):
    """The task failed in a way that none of our errors names."""

    code = "live_task_failed"


def _connected(place: RunAddress) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_WITHIN_S
    while True:
        try:
            return socket.create_connection((place.host, place.port), timeout=5.0)
        except ConnectionRefusedError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
