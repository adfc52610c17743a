"""Watches a topic of the target while something is mirrored into it: when records come, and what memory it takes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import psutil

from databus.bench.decoding.peak_memory import peak_rss_mb
from databus.core.errors.config import SandboxError
from databus.core.errors.source import SourceError
from databus.kafka.client import ClientSettings
from databus.kafka.cluster import KafkaCluster

_POLL_S = 0.05
_SETTLED_S = 5.0
"""Whoever mirrors commits more often than that while there is something left."""


@dataclass(frozen=True)
class TopicEnds:
    """Ends of a topic at one time.

    Attributes:
        at: `time.perf_counter`.
        written: offsets of all partitions, what is uncommitted too.
        readable: offsets up to which a read_committed consumer reads.
    """

    at: float
    written: int
    readable: int


@dataclass(frozen=True)
class Movement:
    """Movement of records seen in one run.

    Attributes:
        records_per_second: from the first moment at which the warm-up was through until all was readable.
        seconds: of that.
        with_start_s: from the start of the watch, with all that a start takes, until all was readable.
        peak_rss_mb: highest resident set of one process of those looked at.
    """

    records_per_second: float
    seconds: float
    with_start_s: float
    peak_rss_mb: float


def movement_of(sightings: Sequence[TopicEnds], records: int, warm_up: int, peak_rss_mb: float = 0.0) -> Movement:
    """Return the rate of what came behind the warm-up.

    Offsets count transactions' ends too: shares of the offsets are taken for shares of the records. Where all that was
    left came between two looks, time is taken from the former: the rate is no less than that.

    Args:
        sightings: in order of time; the first is the start of the watch, before anything arrived.
        records: of the whole run, the warm-up included.
        warm_up: records that came before the time is taken.
        peak_rss_mb: highest resident set seen.

    Raises:
        SandboxError: nothing arrived.
    """
    total = sightings[-1].readable
    if not total:
        raise SandboxError("nothing was seen to arrive")
    first = next(n for n, s in enumerate(sightings) if s.written and s.written * records >= warm_up * total)
    begin = sightings[first] if sightings[first].written < total else sightings[first - 1]
    end = next(s for s in sightings if s.readable == total)
    seconds = max(end.at - begin.at, _POLL_S)
    moved = records * (1 - begin.written / total)
    return Movement(moved / seconds, seconds, end.at - sightings[0].at, peak_rss_mb)


class TopicWatch(threading.Thread):
    """Looks at the ends of one topic in turns until it is left; a context manager.

    Args:
        bootstrap: the target's brokers.
        topic: which may be made later.
        partitions: its number of partitions.
        processes: asked at each turn for the processes whose peak of memory counts.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, processes: Callable[[], Iterable[psutil.Process]]
    ) -> None:
        super().__init__(name="bench-mirror-watch", daemon=True)
        settings = ClientSettings("target", bootstrap)
        self._written, self._readable = (KafkaCluster(settings, i) for i in ("read_uncommitted", "read_committed"))
        self._places = [(topic, partition) for partition in range(partitions)]
        self._processes, self._done = processes, threading.Event()
        self._sightings: list[TopicEnds] = []
        self._peak_mb = 0.0
        self._error: Exception | None = None
        self.began = time.perf_counter()

    def __enter__(self) -> TopicWatch:
        self.began = time.perf_counter()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _at: object) -> None:
        self._done.set()
        self.join()
        self._written.close()
        self._readable.close()

    def run(self) -> None:
        """Look until it is left."""
        try:
            while not self._done.wait(_POLL_S):
                try:
                    self._look()
                except SourceError:  # the topic is not there yet, or has no leaders yet
                    if any(seen.written for seen in self._sightings[-1:]):
                        raise
        except Exception as error:  # noqa: BLE001 - raised by the caller's thread
            self._error = error

    def until_settled(self, records: int, within_s: float, alive: Callable[[], bool]) -> None:
        """Wait until so many records are readable and nothing has changed for a while.

        Raises:
            SandboxError: the time is up, or the mirror ended.
        """
        deadline = time.monotonic() + within_s
        while not self._settled(records):
            self._raise()
            seen = self._sightings[-1].readable if self._sightings else 0
            if not alive():
                raise SandboxError(f"the mirror ended with {seen} of {records} records readable")
            if time.monotonic() > deadline:
                raise SandboxError(f"{seen} of {records} records were readable after {within_s:.0f} s")
            time.sleep(0.2)

    def movement(self, records: int, warm_up: int) -> Movement:
        """Return what was seen of the run, see `movement_of`.

        Raises:
            SandboxError: nothing arrived.
        """
        self._raise()
        return movement_of([TopicEnds(self.began, 0, 0), *self._sightings], records, warm_up, self._peak_mb)

    def _look(self) -> None:
        written = sum(edge.offset for edge in self._written.ends(self._places).values())
        readable = sum(edge.offset for edge in self._readable.ends(self._places).values())
        # Asked later than the former, it may stand further.
        self._sightings.append(TopicEnds(time.perf_counter(), max(written, readable), readable))
        for process in self._processes():
            with contextlib.suppress(OSError):
                self._peak_mb = max(self._peak_mb, peak_rss_mb(process.pid))

    def _settled(self, records: int) -> bool:
        if not self._sightings:
            return False
        last = self._sightings[-1]
        since = next(s.at for s in self._sightings if (s.written, s.readable) == (last.written, last.readable))
        return last.readable >= records and last.written == last.readable and last.at - since > _SETTLED_S

    def _raise(self) -> None:
        if self._error is not None:
            raise SandboxError(f"the target cannot be watched: {self._error}") from self._error
