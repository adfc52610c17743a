"""Scripted faults of an open mock source, and how often each was met, over all runs of a flow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from databus.core.errors.source import OffsetPurgedError, SourceUnavailableError
from databus.core.flow_context import FlowContext
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.sources.mock.fault import MockFault
from databus.sources.mock.log import MockLog

FOLDER = "mock-faults"
_CHOICES = (
    "It is a fault of the source's script. Nothing was moved: `databus checkpoint skip {flow} --past-gap` passes over "
    "what is missing and writes the gap down; without faults= the log is whole."
)


@dataclass(frozen=True)
class SplitFault:
    """Fault that a split meets as it reads a transaction.

    Attributes:
        number: the transaction.
        lasts_s: how long the read hangs there, in seconds; None where it fails.
        said: what is said of it.
    """

    number: int
    lasts_s: float | None
    said: str


@dataclass
class FaultMemory:
    """Memory of the faults that a flow has met; in the segment store, or of this object alone.

    Attributes:
        uri: file, a path or fsspec URI; "" for none.
        kept: what was met, where there is no file.
    """

    uri: str = ""
    kept: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, context: FlowContext | None) -> FaultMemory:
        """Return the memory of a flow."""
        if context is None:
            return cls()
        settings = context.settings
        return cls(f"{settings.segment_store.rstrip('/')}/{FOLDER}/{settings.installation}/{context.flow}.json")

    def read(self) -> dict[str, Any]:
        """Return what was met, by fault.

        Raises:
            SourceUnavailableError: the file cannot be read.
        """
        if not self.uri:
            return self.kept
        import fsspec.core

        try:
            files, path = fsspec.core.url_to_fs(self.uri)
            found: dict[str, Any] = json.loads(files.cat_file(path))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        return found

    def write(self, met: dict[str, Any]) -> None:
        """Keep what was met.

        Raises:
            SourceUnavailableError: the file cannot be written.
        """
        self.kept = met
        if not self.uri:
            return
        import fsspec.core

        try:
            files, path = fsspec.core.url_to_fs(self.uri)
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            files.pipe_file(path, json.dumps(met).encode())
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"mock: {self.uri}, which keeps the faults that were met, cannot be used: {error}",
            hint="Look at DATABUS_SEGMENT_STORE; or delete the file: the faults are met anew then.",
        )


class Faults:
    """Faults of an open source.

    Args:
        log: its log.
        context: its flow; None for a source of no flow, whose faults this object alone remembers.
        now: clock.
        head: number of the last transaction that is there; None for a log that is there whole.
    """

    def __init__(
        self,
        log: MockLog,
        context: FlowContext | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        head: Callable[[], int] | None = None,
    ):
        self._log, self._now = log, now
        self._head = head or (lambda: log.last)
        self._flow = context.flow if context is not None else "FLOW"
        self._looks = context is not None and context.staged != ""
        self._memory = FaultMemory.of(context)
        per = log.spec.rows_per_transaction
        self._places = [(fault, log.place_of(fault.at_row // per)) for fault in log.spec.faults]
        self._holes = [
            (fault, place, log.place_of(fault.at_row // per + -(-fault.rows // per)))
            for fault, place in self._of("purged")
        ]

    @property
    def earliest(self) -> int:
        """Number of the last transaction before what the log still has from its beginning on."""
        head = self._head()
        return max((end for _, begin, end in self._holes if begin == 0 and end <= head), default=0)

    def next_readable(self, place: int) -> int:
        """Return the first transaction behind another one whose presence shows what follows: rows, or a whole gap."""
        return max((behind for _, begin, behind in self._holes if begin <= place < behind), default=place + 1)

    def cut(self, start: int, end: int) -> int:
        """Return where a range ends at the latest, so that the next one begins at a fault."""
        places = (place for what in ("away", "purged") for _, place in self._of(what))
        return min((place for place in places if start < place < end), default=end)

    def check(self, place: int, end: int | None = None) -> None:
        """Look whether reading can go on behind a transaction, up to another one; an absence does not begin by it.

        What is missing is a gap once all of it is past: before, nobody could go on behind it.

        Raises:
            OffsetPurgedError: the log from there on is gone.
            SourceUnavailableError: the source is away.
        """
        self._check(place, end, begins=False)

    def meet(self, place: int, end: int | None = None) -> None:
        """Check as `check` does, for a run that reads on: an absence begins when it is met.

        Raises:
            OffsetPurgedError: the log from there on is gone.
            SourceUnavailableError: the source is away.
        """
        self._check(place, end, begins=not self._looks)

    def of_attempt(self, first: int, last: int) -> tuple[SplitFault, ...]:
        """Return the faults that this attempt to read a range meets; the next one meets one of each less."""
        found = []
        for fault, place in [*self._of("read_fails"), *self._of("read_hangs")]:
            number = self._log.number_behind(place)
            if not first <= number <= last:
                continue
            met = self._memory.read()
            count = met.get(_name(fault), 0)
            if count >= fault.times:
                continue
            if not self._looks:
                self._memory.write(met | {_name(fault): count + 1})
            said = f"row {fault.at_row} (attempt {count + 1} of {fault.times})"
            found.append(SplitFault(number, fault.lasts_s if fault.what == "read_hangs" else None, said))
        return tuple(found)

    def _of(self, what: str) -> list[tuple[MockFault, int]]:
        return [(fault, place) for fault, place in self._places if fault.what == what]

    def _purged(self, fault: MockFault, place: int, behind: int) -> OffsetPurgedError:
        error = OffsetPurgedError(
            f"mock: the log from {place} to {behind} is gone, {fault.rows} rows from row {fault.at_row} on",
            hint=_CHOICES.format(flow=self._flow.partition(".")[0]),
        )
        error.missing = OffsetRange(SequenceOffset(place), SequenceOffset(behind))
        return error

    def _check(self, place: int, end: int | None, *, begins: bool) -> None:
        head = self._head()
        for fault, begin, behind in self._holes:
            inside = begin <= place < behind or (end is not None and place < begin < end)
            if inside and behind <= head:
                raise self._purged(fault, place, behind)
        for fault, at in self._of("away"):
            if at == place:
                self._check_absence(fault, begins=begins)

    def _check_absence(self, fault: MockFault, *, begins: bool) -> None:
        met = self._memory.read()
        since = met.get(_name(fault))
        now = self._now()
        if since is None:
            if not begins:
                return
            since = now.isoformat()
            self._memory.write(met | {_name(fault): since})
        back = datetime.fromisoformat(since) + timedelta(seconds=fault.lasts_s)
        if now < back:
            raise SourceUnavailableError(
                f"mock: the source is away from row {fault.at_row} on, by its script, until {back:%H:%M:%S} UTC",
                hint="Wait, or leave faults= out: the flow goes on where it stands.",
            )


def _name(fault: MockFault) -> str:
    return json.dumps(fault.stored(), sort_keys=True)
