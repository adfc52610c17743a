"""Trace of a change: what is searched for, where it was found, and what ends the search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from databus.core.errors.root import DatabusError

_POSITION_BITS = 40


class TraceError(DatabusError):
    """Trace query that cannot be followed."""

    code = "trace_error"


class TraceQueryError(TraceError):
    """The text is none of the things that can be traced."""

    code = "trace_query_unknown"
    default_hint = (
        "Write FILE:POS, a GTID, an event id, TOPIC:PARTITION:OFFSET, INDEX/ID, or a key as JSON, e.g. "
        '{"id":1}; `--as` says which, where a text could be several.'
    )


class TraceNotRecordedError(TraceError):
    """No recorded batch moved it: it lies before the first batch, behind the last one, or is not the flow's.

    Attributes:
        flow: the flow that was asked, "" for none of them alone.
        recorded: what it has recorded of the log or topic that was asked for, in words; "" where nothing of it.
    """

    code = "trace_not_recorded"
    flow: str = ""
    recorded: str = ""


class TraceExpiredError(TraceError):
    """The sink no longer keeps it: older than the topic's retention, compacted away, or a deleted document."""

    code = "trace_record_expired"


class TraceLogPurgedError(TraceError):
    """The log that holds it was deleted, and no kept segment and no sink shows it."""

    code = "trace_log_purged"


class TraceLimitError(TraceError):
    """Looking on would read too much; says how far was looked."""

    code = "trace_limit"


def log_number(file_number: int, position: int) -> int:
    """Return a place of a binary log as one number that grows along the log.

    Args:
        file_number: number of the log file, below 2**23.
        position: byte position, below 2**40.
    """
    return file_number << _POSITION_BITS | position


def log_place(number: int) -> tuple[int, int]:
    """Return (file number, position) of what `log_number` made."""
    return number >> _POSITION_BITS, number & ((1 << _POSITION_BITS) - 1)


@dataclass(frozen=True)
class Change:
    """A row change as far as it is known; "" and None stand for what is not.

    Attributes:
        event_id: unique id of the change.
        gtid: of its transaction.
        file: log file of the transaction's end.
        position: byte position of the transaction's end.
        ordinal: number of the change in its transaction, from 0.
        op: c, u, d, r, t or m.
        table: `database.table`.
        key: canonical key JSON.
        ts_ms: commit time at the source, ms since the epoch.
    """

    event_id: str = ""
    gtid: str = ""
    file: str = ""
    position: int | None = None
    ordinal: int | None = None
    op: str = ""
    table: str = ""
    key: str | None = None
    ts_ms: int | None = None

    def plus(self, other: Change) -> Change:
        """Return this change with what only the other knows added."""
        theirs = {name: value for name, value in vars(other).items() if getattr(self, name) in ("", None)}
        return replace(self, **theirs)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return dict(vars(self))


_LOG_PREFIX = re.compile(r"log(\d+)/")
_CHUNK = re.compile(r"snapshot-(\d+)-(\d+)-\d+:\d+:\d+(?:\.\d+)?")
_COPY = re.compile(r"(:\d+)\.\d+$")


def log_prefix(generation: int) -> str:
    """Return what event ids begin with in a log that replaced others: its GTIDs and places were used there already."""
    return f"log{generation}/" if generation else ""


def _without_prefix(event_id: str) -> str:
    found = _LOG_PREFIX.match(event_id)
    return event_id[found.end() :] if found else event_id


def log_of(event_id: str) -> int:
    """Return the generation of the log that an event id is of, 0 for one that replaced none."""
    found = _LOG_PREFIX.match(event_id)
    return int(found[1]) if found else 0


def in_log(event_id: str, generation: int) -> str:
    """Return the event id that the same place or transaction has in another log; "" of none."""
    return log_prefix(generation) + _without_prefix(event_id) if event_id else ""


def chunk_of(event_id: str) -> tuple[int, int] | None:
    """Return numbers of the snapshot and of its chunk that read a row; None for a change of the log."""
    found = _CHUNK.fullmatch(_without_prefix(event_id))
    return (int(found[1]), int(found[2])) if found else None


def row_of_copy(event_id: str) -> str:
    """Return the event id of the row that a copy was made of (`…:0.1` → `…:0`); that of a row stays as it is."""
    return _COPY.sub(r"\1", event_id)


def of_event_id(event_id: str) -> Change:
    """Return the parts of an event id: `gtid:ordinal:part`, or `server:file:pos:ordinal:part` without GTIDs.

    Of a row that a snapshot read it is `snapshot-<number>-<chunk>-<ms since the epoch>:<ordinal>:0`. In a log that
    replaced others, `log<generation>/` stands before it; of one of several copies of a row, `.<number>` behind it.
    """
    head, _, tail = row_of_copy(_without_prefix(event_id)).rpartition(":")
    head, _, ordinal = head.rpartition(":")
    if not (head and ordinal.isdigit() and tail.isdigit()):
        return Change(event_id)
    if chunk_of(event_id) is not None:
        return Change(event_id, ordinal=int(ordinal))
    log, _, position = head.rpartition(":")
    file = log.rpartition(":")[2]
    stem, dot, number = file.rpartition(".")
    if stem and dot and number.isdigit() and len(number) >= 6 and position.isdigit():
        return Change(event_id, "", file, int(position), int(ordinal))
    return Change(event_id, head, ordinal=int(ordinal))


@dataclass(frozen=True)
class RecordPlace:
    """Record place: where a record stands.

    Attributes:
        site: name of the Kafka cluster: a connection that leads to it.
        topic: its topic.
        partition: its partition.
        offset: its offset.
    """

    site: str
    topic: str
    partition: int
    offset: int

    @classmethod
    def read(cls, site: str, text: str) -> RecordPlace:
        """Read "topic:partition:offset"."""
        topic, partition, offset = text.rsplit(":", 2)
        return cls(site, topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"site": self.site, "place": str(self)}


@dataclass(frozen=True)
class Sighting:
    """A record or document of a sink that carries a change.

    Attributes:
        sink: sink name.
        kind: "record" or "document".
        place: "topic:partition:offset" or "index/id".
        change: the change it carries.
        at_ms: the sink's own time of it, ms since the epoch; None when it has none.
        tombstone: a record without a value that follows a delete.
        state: in words, how it stands there now, "" for a record that is simply there.
        site: connection of the Kafka cluster that holds a record; "" for documents.
        content: hash of a record's key, value and headers, which its copies on other clusters share; "" for documents.
    """

    sink: str
    kind: str
    place: str
    change: Change
    at_ms: int | None = None
    tombstone: bool = False
    state: str = ""
    site: str = ""
    content: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**vars(self), "change": self.change.to_json()}


@dataclass(frozen=True)
class ChangeSelector:
    """Trace target: changes of some ids, else of all that match what is given.

    Attributes:
        event_ids: ids of the changes; then the rest only helps to find them. That of a row stands for all its copies.
        gtid: of the transaction, "" for any.
        file: log file of the transaction's end, or the end of its name (".000003"); "" for any.
        position: byte position of the transaction's end.
        key: canonical key JSON, None for any.
        table: `database.table`, "" for any.
        most: stop after so many.
    """

    event_ids: frozenset[str] = frozenset()
    gtid: str = ""
    file: str = ""
    position: int | None = None
    key: str | None = None
    table: str = ""
    most: int = 1000

    def names(self, event_id: str) -> bool:
        """Return whether an event id is one of those, or that of a copy of such a row."""
        return event_id in self.event_ids or row_of_copy(event_id) in self.event_ids

    def matches(self, change: Change) -> bool:
        """Return whether a change is one of those."""
        if self.event_ids:
            return self.names(change.event_id)
        return (
            (not self.gtid or change.gtid == self.gtid)
            and (not self.file or (change.file.endswith(self.file) and change.position == self.position))
            and (self.key is None or change.key == self.key)
            and (not self.table or not change.table or change.table == self.table)
        )


class TraceableSink(Protocol):
    """A sink that can show single records of what it holds; none of its methods changes anything."""

    def sighting(self, place: str) -> Sighting:
        """Return what stands at a place.

        Raises:
            TraceExpiredError: nothing does any more.
            TraceNotRecordedError: nothing does yet, or it is no change of ours.
            SinkUnavailableError: the sink does not answer.
        """
        ...

    def sightings(self, outputs: Mapping[str, Mapping[str, Any]], selector: ChangeSelector) -> Sequence[Sighting]:
        """Return what a batch wrote of the selected changes, by targeted reads of its outputs.

        Args:
            outputs: outputs of the batch's receipts.
            selector: which changes.

        Raises:
            TraceExpiredError: part of the outputs is not kept any more, and nothing was found in the rest.
        """
        ...

    def newest(self, outputs: Sequence[str], key: str, table: str) -> Sequence[Sighting]:
        """Return the newest change of a key in each output that has one.

        Raises:
            TraceLimitError: none was found in as much as may be read.
        """
        ...

    def expect(self, outputs: Iterable[str], rows: Iterable[tuple[str, str]]) -> None:
        """Read at once what `sightings` will be asked for one by one, where that is quicker.

        Args:
            outputs: names of outputs.
            rows: (key, table) of the rows that will be looked for there.
        """
        ...

    def close(self) -> None:
        """Give connections back; safe to call twice."""
        ...


@dataclass(frozen=True)
class RowImages:
    """Row images: a row before and after its change, as a sink holds it: hidden and masked there as everywhere.

    Attributes:
        before: column → value; None where the sink has none: of an insert, or of a form without.
        after: the same; None of a delete.
        note: what is not shown, and why; "" for nothing.
    """

    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    note: str = ""


@runtime_checkable
class ImageSink(Protocol):
    """A traceable sink that can show the row of a record or document."""

    def images(self, place: str) -> RowImages:
        """Return the row that stands at a place. Raises as `TraceableSink.sighting`."""
        ...
