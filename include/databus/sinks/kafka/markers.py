"""Markers: what a slot wrote last, a committed offset on the marker topic, moved inside the rows' own transaction.

The offset is the batch number, its metadata the JSON below, at most 1 KB (brokers refuse more than
offset.metadata.max.bytes, 4,096 by default). The marker topic never holds a record.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.sink import MarkerDivergedError
from databus.core.state.plan import Plan
from databus.core.stored_form import Form
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error

MARKER_TOPIC = "_databus_markers"
MAX_METADATA_BYTES = 1024

Place = tuple[str, int, int, int]
"""File, position, ordinal and part of a row. Rows of a slot come in this order, those of files with short names first:
one place says of all files how far they were written."""

MARKER = Form("marker", "batch hash state chunk last done written outputs end at epoch refreshed_s", "before", "place")
"""`refreshed_s` came after version 1 and decides nothing: `021bfd3` passes over what it does not know in a marker."""

# The group's coordinator is being made or moved, or a transaction that holds the marker is about to end.
_PASSING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)

_OPEN = frozenset({KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT})  # noqa: SLF001 - librdkafka's own code
"""Errors that a broker answers as long as a transaction of the group is open."""

State = Literal["written", "abandoned"]


@dataclass(frozen=True)
class Marker:
    """The last thing one slot committed.

    Attributes:
        batch: batch number of the plan.
        hash: hash of the plan.
        state: "written", or "abandoned" for a plan that was closed without finishing it.
        chunk: number of the last chunk committed, from 0; -1 when none was.
        last: whether the batch ended with this chunk.
        done: input rows consumed so far, rejected ones included.
        written: records written so far.
        outputs: "topic[partition]" → (first offset, last offset, records) so far; None when they did not fit.
        end: where the rows end at the source, an offset in JSON; None when it did not fit.
        at: the same place in words.
        epoch: of a register, the claim that wrote it; None in the markers of slots.
        before: hash of the batch before ("" for none) where the plan was closed because the flow changed: the marker
            before can be put back. None elsewhere, also where an amendment closed the plan, which is for good.
        refreshed_s: when it was written again for an idle flow, seconds since the epoch; None for a batch's own.
        place: where the last row written so far stands at the source, of an unfinished batch whose log may lose records
            before it is tried again; None elsewhere, and in markers of version 2.
    """

    batch: int
    hash: str
    state: State = "written"
    chunk: int = 0
    last: bool = True
    done: int = 0
    written: int = 0
    outputs: Mapping[str, tuple[int, int, int]] | None = field(default_factory=dict)
    end: Mapping[str, Any] | None = None
    at: str = ""
    epoch: int | None = None
    before: str | None = None
    refreshed_s: int | None = field(default=None, compare=False)
    place: Place | None = None

    def metadata(self) -> str:
        """Return the JSON that is committed; outputs, then `end`, are left out where it would exceed 1 KB."""
        smaller = replace(self, outputs=None)
        forms = (
            self,
            replace(self, refreshed_s=None),
            smaller,
            replace(smaller, end=None),
            replace(smaller, end=None, at=""),
        )
        texts = (form.whole_metadata() for form in forms)
        return next(text for text in texts if len(text.encode()) <= MAX_METADATA_BYTES)

    def whole_metadata(self) -> str:
        """Return the JSON of all that is known, whatever its size."""
        data: dict[str, Any] = {
            "batch": self.batch,
            "hash": self.hash,
            "state": self.state,
            "chunk": self.chunk,
            "last": self.last,
            "done": self.done,
            "written": self.written,
            "outputs": None if self.outputs is None else {name: list(facts) for name, facts in self.outputs.items()},
        }
        data |= {"end": self.end} if self.end is not None else {}
        data |= {"at": self.at} if self.at else {}
        data |= {"epoch": self.epoch} if self.epoch is not None else {}
        data |= {"before": self.before} if self.before is not None else {}
        data |= {"refreshed_s": self.refreshed_s} if self.refreshed_s is not None else {}
        data |= {"place": list(self.place)} if self.place is not None else {}
        return json.dumps(MARKER.write(data), separators=(",", ":"))

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Marker:
        """Read what `metadata` wrote.

        Raises:
            MarkerDivergedError: not a marker of this format.
        """
        try:
            data = MARKER.read(json.loads(metadata or ""))
            if data["batch"] != offset:
                raise ValueError(f"batch {data['batch']}, offset {offset}")
            outputs, place = data["outputs"], data.get("place")
            return cls(
                data["batch"],
                data["hash"],
                data["state"],
                data["chunk"],
                data["last"],
                data["done"],
                data["written"],
                None if outputs is None else {name: (f[0], f[1], f[2]) for name, f in outputs.items()},
                data.get("end"),
                data.get("at", ""),
                data.get("epoch"),
                data.get("before"),
                data.get("refreshed_s"),
                None if place is None else (place[0], place[1], place[2], place[3]),
            )
        except CheckpointFormatError as error:
            raise MarkerDivergedError(
                f"marker {metadata!r} at offset {offset} cannot be read: {error.message}", hint=error.hint
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise MarkerDivergedError(f"marker {metadata!r} at offset {offset} cannot be read: {error}") from error

    def __str__(self) -> str:
        part = "" if self.last else f", chunk {self.chunk} of an unfinished batch"
        return f"batch {self.batch} (plan {self.hash}, {self.state}{part})"


@dataclass(frozen=True)
class MarkerKey:
    """Marker key: where the markers of one sink of one flow lie; partition = slot.

    Attributes:
        installation: name of the installation.
        flow: flow name.
        sink: sink name.
    """

    installation: str
    flow: str
    sink: str

    @property
    def group(self) -> str:
        """Consumer group that holds the markers; also the stem of the transactional ids."""
        return f"databus.{self.installation}.{self.flow}.{self.sink}"

    def transactional_id(self, slot: int) -> str:
        """Return the transactional.id of a slot's writer; never contains the epoch, so that claims fence each other."""
        return f"{self.group}.{slot}"

    def consumer(self, settings: ClientSettings, seen: LastError, *, settled: bool = True) -> Consumer:
        """Open the consumer that reads markers; it never subscribes.

        read_committed makes librdkafka ask for stable offsets (KIP-447): the marker of an open transaction is waited
        for, not missed. Without `settled` the marker before it is returned at once.
        """
        return settings.consumer(
            {
                "group.id": self.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if settled else "read_uncommitted",
                # While the transaction before is being closed, the answer is "unstable": ask again soon.
                "retry.backoff.ms": 2,
                "retry.backoff.max.ms": 20,
            },
            seen,
        )

    def read(self, consumer: Consumer, settings: ClientSettings, slots: range, seen: LastError) -> list[Marker | None]:
        """Return the committed marker of each slot, None where there is none.

        Raises:
            SinkUnavailableError: no answer in time.
            MarkerDivergedError: something else was committed there.
        """
        deadline = time.monotonic() + settings.timeout_s
        while True:
            try:
                found = consumer.committed(
                    [TopicPartition(MARKER_TOPIC, slot) for slot in slots], max(deadline - time.monotonic(), 0.1)
                )
                failed = next((item.error for item in found if item.error is not None), None)
            except KafkaException as error:
                failed = kafka_error(error)
            if failed is None:
                return [
                    None if item.offset <= OFFSET_INVALID else Marker.parse(item.offset, item.metadata)
                    for item in found
                ]
            if failed.code() not in _PASSING or time.monotonic() >= deadline:
                unread = sink_error(settings, f"read the markers of group {self.group}", failed, seen)
                if failed.code() in _OPEN:
                    unread.hint += (
                        " Where they do, a writer that was killed has left its transaction open: the broker ends it "
                        "within two minutes; try again then."
                    )
                raise unread
            time.sleep(0.05)


@dataclass(frozen=True)
class Resume:
    """Resume decision for a slot.

    Attributes:
        finished: the whole batch is in the topics already.
        chunk: number of the next chunk.
        marker: marker of the chunks already committed, None when nothing of this batch is.
    """

    finished: bool
    chunk: int
    marker: Marker | None


def compare(marker: Marker | None, plan: Plan, sink: str, slot: int) -> Resume:
    """Compare a slot's marker with the plan: the "compare" of the writer's compare-and-set.

    Raises:
        MarkerDivergedError: the marker is neither this plan's nor the one the plan was built on.
    """
    prev = plan.sinks[sink].prev[slot]
    if marker is not None and (marker.batch, marker.hash) == (plan.batch, plan.hash):
        if marker.state == "written":
            return Resume(marker.last, marker.chunk + 1, marker)
    elif prev < plan.batch and _is_prev(marker, prev):
        return Resume(False, 0, None)
    found = str(marker) if marker else "no marker"
    expected = f"batch {prev}" if prev else "no marker"
    raise MarkerDivergedError(
        f"flow {plan.flow}, sink {sink}, slot {slot}: found {found}; "
        f"the plan of batch {plan.batch} ({plan.hash}) expects {expected} or itself"
    )


def untouched(plan: Plan) -> Marker:
    """Return the marker that closes a plan of which a slot holds nothing."""
    start = plan.range.start
    return Marker(plan.batch, plan.hash, "abandoned", chunk=-1, last=False, end=start.to_json(), at=str(start))


def reopened(closed: Marker, prev: int) -> Marker:
    """Return the marker by which a closed plan goes on in a slot as if it had never been closed.

    A slot that had none before gets one of batch 0, which stands for none: a committed offset cannot be taken back.
    """
    return Marker(prev, closed.before or "", end=closed.end, at=closed.at)


def _is_prev(marker: Marker | None, prev: int) -> bool:
    if marker is None:
        return prev == 0
    return marker.batch == prev and (marker.last or marker.state == "abandoned")
