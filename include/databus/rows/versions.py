"""Versions of rows: the place of a row in its source's log as one number that only grows.

A sink that holds the newest state of a key stores the version beside it and takes a row only where its version is
greater: then batches that are written again, and rows that are moved again, change nothing. `version_of` is for one
row, `version_numbers` for a record batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from databus.core.errors.sink import SinkSettingError
from databus.core.positions.offset_ranges import later
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, is_foreign
from databus.core.positions.topic_lives import Lives, life_at

if TYPE_CHECKING:
    import pyarrow as pa

TIMELINE_BITS = 10
FILE_BITS = 19
POSITION_BITS = 34
"""10 + 19 + 34 = 63: the widest version the servers take is 2**63 - 1 (version_type=external, a positive Java long)."""

VERSION_BITS = TIMELINE_BITS + FILE_BITS + POSITION_BITS

OFFSET_BITS = FILE_BITS + POSITION_BITS
"""Of a Kafka record, the offset stands where file and position do, and the life of its topic in the timeline's bits."""

Transaction = tuple[str, int]
"""File and position of a row."""


def source_version(timeline: int, file_number: int, position: int) -> int:
    """Return the version of a row of a binary log.

    Args:
        timeline: number of failovers so far.
        file_number: number of the log file.
        position: byte position of the transaction's end.

    Raises:
        SinkSettingError: a part does not fit into its bits; versions would no longer order the rows.
    """
    return _packed(
        ("timeline", timeline, TIMELINE_BITS),
        ("file number", file_number, FILE_BITS),
        ("position", position, POSITION_BITS),
    )


def record_version(life: int, offset: int) -> int:
    """Return the version of a Kafka record.

    Args:
        life: life of its topic (`core.topic_lives`).
        offset: its offset.

    Raises:
        SinkSettingError: see `source_version`.
    """
    return _packed(("topic's life", life, TIMELINE_BITS), ("offset", offset, OFFSET_BITS))


class RowVersions(Protocol):
    """Versions of the rows of one range."""

    def of(self, file: str, position: int) -> int:
        """Return the version of a row, by its `log` and `place`."""
        ...

    def ahead(self, row: Transaction, stated: int) -> str:
        """Say how a document's version lies behind all that the range can have written, "" where it does not.

        Args:
            row: a row of the range that the document's version turned away.
            stated: that version.
        """
        ...

    def unordered(self, one: Transaction, other: Transaction) -> bool:
        """Return whether nothing says which of two rows of one document is the newer one."""
        ...


def versions_of(end: Offset, until: Offset | None = None) -> RowVersions:
    """Return the versions of the rows of a range.

    Args:
        end: end of the range.
        until: how far plans went that were closed before they were committed: their rows may be there.
    """
    if isinstance(end, BinlogOffset):
        return BinlogVersions(end, until)
    if isinstance(end, KafkaOffsets):
        return RecordVersions(end, until)
    return ForeignVersions(end) if is_foreign(end) else CountedVersions()


def versioning(end: Offset) -> Callable[[str, int], int]:
    """Return the function (file, position) → version for the rows of a range that ends at `end`."""
    return versions_of(end).of


class RowVersion(NamedTuple):
    """Version of a row; a newer change of a key has a greater one.

    Attributes:
        number: place of its transaction, 0 to 2**63 - 1: what a sink stores that holds one number per key.
        ordinal: number of the row change inside its transaction.
        part: which part of a change that became two rows.
    """

    number: int
    ordinal: int
    part: int


def version_of(row: Mapping[str, Any], end: Offset) -> RowVersion:
    """Return the version of a row of a plan's range.

    It orders the changes of one key in one flow: a newer change has a greater version, over batches, files of the log,
    failovers (`BinlogOffset.timeline`), logs that a person put in another one's place, and lives of a topic.

    Ties: the rows of one transaction have one number. A sink that stores the number alone takes the last row of a key
    in each batch, which arrives in order, and may write a row of an equal number again.

    Not comparable are rows of two flows; rows of a key that came in two partitions of a topic in one life of it, or in
    two logs of another package's source (`comparable`); statements, which have no key.

    Args:
        row: `log`, `place`, `ordinal` and `part` of a row (`core.events.ROW_COLUMNS`).
        end: end of the range that the row is read in: `plan.range.end`.

    Raises:
        SinkSettingError: a part of the place does not fit into its bits: 10 for timelines and lives, 19 for file
            numbers, 34 for positions in a file, 53 for offsets.
    """
    return RowVersion(versions_of(end).of(row["log"], row["place"]), row["ordinal"], row["part"])


def comparable(one: Mapping[str, Any], other: Mapping[str, Any], end: Offset) -> bool:
    """Return whether versions say which of two rows of a key is the newer one; both are of ranges up to `end`."""
    return not versions_of(end).unordered((one["log"], one["place"]), (other["log"], other["place"]))


def version_numbers(rows: pa.RecordBatch, end: Offset) -> pa.Int64Array:
    """Return `version_of(row, end).number` of each row.

    Args:
        rows: a batch with the columns `log` and `place`.
        end: see `version_of`.

    Raises:
        SinkSettingError: see `version_of`.
    """
    import pyarrow as pa

    of = versions_of(end).of
    pairs = zip(rows["log"].to_pylist(), rows["place"].to_pylist(), strict=True)
    return pa.array([of(log, place) for log, place in pairs], pa.int64())


class BinlogVersions:
    """Versions of a binary log: timeline, file number and position.

    Args:
        end: end of the range; its timeline is part of each version.
        until: see `versions_of`.
    """

    def __init__(self, end: BinlogOffset, until: Offset | None = None) -> None:
        self._timeline = end.timeline
        places = [place for place in (end, until) if isinstance(place, BinlogOffset)]
        self._newest = max(source_version(place.timeline, place.file_number, place.pos) for place in places)
        self._subject = "its batch" if len(places) == 1 else "its batch, and of what was begun before it,"

        @cache
        def file_number(file: str) -> int:
            return BinlogOffset(file, 4, server=end.server, flavor=end.flavor).file_number

        self._file_number = file_number

    def of(self, file: str, position: int) -> int:
        """See `RowVersions.of`."""
        return source_version(self._timeline, self._file_number(file), position)

    def ahead(self, row: Transaction, stated: int) -> str:  # noqa: ARG002 - one log, one end
        """See `RowVersions.ahead`."""
        return f"the end of {self._subject} {self._newest}" if stated > self._newest else ""

    def unordered(self, one: Transaction, other: Transaction) -> bool:  # noqa: ARG002 - places order all rows
        """Return False."""
        return False


class CountedVersions:
    """Versions of a source that counts its rows: the place alone."""

    def of(self, file: str, position: int) -> int:  # noqa: ARG002 - there is one
        """See `RowVersions.of`."""
        return position

    def ahead(self, row: Transaction, stated: int) -> str:  # noqa: ARG002 - nothing is known of the end
        """Return ""."""
        return ""

    def unordered(self, one: Transaction, other: Transaction) -> bool:  # noqa: ARG002 - numbers order all rows
        """Return False."""
        return False


@runtime_checkable
class NumbersRows(Protocol):
    """An offset of another package that says itself which version a row has; else its place is the version."""

    def version_at(self, log: str, place: int) -> int:
        """Return the version, 0 to 2**63 - 1, of a row of a range that ends here; it rises over all logs."""
        ...


class ForeignVersions:
    """Versions of another package's source: what its offset says (`NumbersRows`), else the place alone.

    Places alone order the rows of one log.
    """

    def __init__(self, end: Offset) -> None:
        self._numbers = end if isinstance(end, NumbersRows) else None

    def of(self, file: str, position: int) -> int:
        """See `RowVersions.of`."""
        if self._numbers is None:
            return position
        return _packed(("version", self._numbers.version_at(file, position), VERSION_BITS))

    def ahead(self, row: Transaction, stated: int) -> str:  # noqa: ARG002 - nothing is known of the end
        """Return ""."""
        return ""

    def unordered(self, one: Transaction, other: Transaction) -> bool:
        """Return whether the rows are of two logs, and the offset does not say how these follow one another."""
        return self._numbers is None and one[0] != other[0]


class RecordVersions:
    """Versions of Kafka records: the life of the topic and the offset.

    Args:
        end: end of the range; it knows the lives.
        until: see `versions_of`.
    """

    def __init__(self, end: KafkaOffsets, until: Offset | None = None) -> None:
        latest = end if until is None else later(end, until)
        self._end, self._latest = end, latest if isinstance(latest, KafkaOffsets) else end
        self._logs: dict[str, _Log] = {}

    def of(self, file: str, position: int) -> int:
        """See `RowVersions.of`."""
        log = self._log(file)
        return record_version(log.life_at(position), position)

    def ahead(self, row: Transaction, stated: int) -> str:
        """See `RowVersions.ahead`: in a row's own life its partition's end decides, in later ones the topic's."""
        log = self._log(row[0])
        life, offset = stated >> OFFSET_BITS, stated & ((1 << OFFSET_BITS) - 1)
        if life == log.life_at(row[1]):
            return f"the batch reads {row[0]} up to offset {log.end - 1}" if offset >= log.end else ""
        known = self._latest.lives_of(log.topic)
        if life in known and offset < max(self._latest.positions[log.topic].values()):
            return ""
        return f"the batch knows of lives up to {max(known, default=0)}"

    def unordered(self, one: Transaction, other: Transaction) -> bool:
        """See `RowVersions.unordered`: so it is in two partitions in one life."""
        return one[0] != other[0] and self._log(one[0]).life_at(one[1]) == self._log(other[0]).life_at(other[1])

    def _log(self, file: str) -> _Log:
        if file not in self._logs:
            topic, _, number = file.removesuffix("]").rpartition("[")
            partition = int(number)
            end = self._latest.positions.get(topic, {}).get(partition, 0)
            self._logs[file] = _Log(topic, partition, end, self._end.lives_of(topic))
        return self._logs[file]


@dataclass(frozen=True)
class _Log:
    """A partition: its topic, its number, up to where rows of it may be there, the lives of the topic."""

    topic: str
    partition: int
    end: int
    lives: Lives

    def life_at(self, offset: int) -> int:
        """Return the life of a record of the partition."""
        return life_at(self.lives, self.partition, offset) if self.lives else 0


def _packed(*parts: tuple[str, int, int]) -> int:
    version = 0
    for name, value, bits in parts:
        if not 0 <= value < 1 << bits:
            raise SinkSettingError(
                f"the log's {name} {value} does not fit into {bits} bits of a document's version",
                hint="Index the rows anew into an index of another name, from a log whose files are numbered lower.",
                code="sink_version_overflow",
            )
        version = version << bits | value
    return version
