"""Offsets: how far a source has been read. `start` of a range is exclusive, `end` inclusive; this is written only here.

Every offset turns into JSON and back (what stores it carries the version), and compares with others of its kind.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.topic_lives import Lives, made_anew, newer
from databus.core.stored_form import Form

BINLOG_OFFSET = Form(
    "binlog offset", "kind file pos gtids flavor server timeline prepared", "created_s", "generation", part=True
)
KAFKA_OFFSETS = Form("Kafka offset", "kind positions ids epochs generations passed", "lives", part=True)
SEQUENCE_OFFSET = Form("sequence offset", "kind sequence", part=True)
_FORMS = {"binlog": BINLOG_OFFSET, "kafka": KAFKA_OFFSETS, "sequence": SEQUENCE_OFFSET}

_MOST_NAMED = 16
"""Partitions that the text of an offset names; the JSON has them all."""

_LOG_HEADER_BYTES = {"mysql": 256, "mariadb": 512}
"""Before this position of a log's first file no transaction ends: there are only the events that describe the log."""

_FILE = re.compile(r"^(?P<base>.+)\.(?P<number>\d{6,})$")


class Ordering(enum.Enum):
    """How one offset lies to another."""

    BEFORE = "before"
    EQUAL = "equal"
    AFTER = "after"
    DIVERGED = "diverged"


@runtime_checkable
class Offset(Protocol):
    """A place in a source's log."""

    @property
    def kind(self) -> str:
        """Registry name of this kind of offset."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with the key `kind`."""
        ...

    def compare(self, other: Offset) -> Ordering:
        """Say where this offset lies as seen from the other; DIVERGED when they cannot be ordered."""
        ...


@dataclass(frozen=True)
class PreparedTransaction:
    """The first phase of an XA transaction that is neither committed nor rolled back at an offset.

    Attributes:
        xid: as the log writes it, `X'gtrid',X'bqual',format`.
        file: log file of the first phase.
        start_pos: position of its first byte.
        end_pos: position after its XA_PREPARE event.
    """

    xid: str
    file: str
    start_pos: int
    end_pos: int

    def to_json(self) -> list[str | int]:
        """Return plain JSON, short because a checkpoint may hold hundreds."""
        return [self.xid, self.file, self.start_pos, self.end_pos]


@dataclass(frozen=True)
class BinlogOffset:
    """The end of a transaction in a MySQL or MariaDB binary log.

    Attributes:
        file: name of the log file, e.g. "mysql-bin.000042".
        pos: byte position after the last event, counted in 64 bits (the wire's 32-bit field wraps at 4 GiB).
        gtids: executed MySQL GTID set or MariaDB GTID position in text form; "" where the server has none, and at the
            beginning of a log (`knows_gtids`).
        flavor: "mysql" or "mariadb".
        server: server_uuid of MySQL, or "server_id" of MariaDB in text form; "" when unknown.
        timeline: raised by each failover, because file numbers of the new server may be lower.
        prepared: XA transactions that were prepared before this place and not resolved, as far as they were read, in
            log order. Places are compared without it.
        created_s: when the server began the log file, seconds since the epoch; 0 when unknown. It tells a log that was
            replaced under the same names: no part of equality, and left out of JSON when 0.
        generation: how often the log was replaced and a person took the flow onto the new one. All of a later
            generation lies behind all of an earlier one, whatever files, positions and GTIDs say: they begin anew. Left
            out of JSON when 0.
    """

    file: str
    pos: int
    gtids: str = ""
    flavor: str = "mysql"
    server: str = ""
    timeline: int = 0
    prepared: tuple[PreparedTransaction, ...] = ()
    created_s: int = field(default=0, compare=False)
    generation: int = 0
    kind: str = field(default="binlog", init=False)

    def __post_init__(self) -> None:
        if not _FILE.fullmatch(self.file) or self.pos < 4:
            raise OffsetInvalidError(
                f"{self.file}:{self.pos} is not a binlog position",
                hint="Write FILE:POS as SHOW BINARY LOGS names it, e.g. mysql-bin.000042:4; the first position is 4.",
            )

    @property
    def file_number(self) -> int:
        """Number of the log file."""
        match = _FILE.fullmatch(self.file)
        assert match is not None  # noqa: S101 - checked at construction
        return int(match["number"])

    @property
    def knows_gtids(self) -> bool:
        """Whether `gtids` tells what was executed: an empty one does so only where the log itself begins."""
        return bool(self.gtids) or (self.file_number == 1 and self.pos < _LOG_HEADER_BYTES.get(self.flavor, 0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; what was added to offsets later is left out when empty, as in those written before."""
        pending: dict[str, Any] = {"prepared": [p.to_json() for p in self.prepared]} if self.prepared else {}
        pending |= {"created_s": self.created_s} if self.created_s else {}
        pending |= {"generation": self.generation} if self.generation else {}
        return BINLOG_OFFSET.write(
            {
                "kind": self.kind,
                "file": self.file,
                "pos": self.pos,
                "gtids": self.gtids,
                "flavor": self.flavor,
                "server": self.server,
                "timeline": self.timeline,
                **pending,
            }
        )

    def compare(self, other: Offset) -> Ordering:
        """Order by generation, then by timeline, file and position on one server, by GTIDs across servers."""
        if not isinstance(other, BinlogOffset) or other.flavor != self.flavor:
            return Ordering.DIVERGED
        if self.generation != other.generation:
            return Ordering.BEFORE if self.generation < other.generation else Ordering.AFTER
        if self.timeline == other.timeline and self.server == other.server:
            mine, theirs = (self.file_number, self.pos), (other.file_number, other.pos)
            if mine == theirs:
                return Ordering.EQUAL
            return Ordering.BEFORE if mine < theirs else Ordering.AFTER
        return self._compare_gtids(other)

    def counted_as(self, standing: BinlogOffset) -> BinlogOffset:
        """Return this place of the log as it is now, in the timeline and generation in which a checkpoint counts."""
        return replace(self, timeline=standing.timeline, generation=standing.generation)

    def on_new_log(self, standing: BinlogOffset) -> BinlogOffset:
        """Return this place of a log that replaced the one of a checkpoint: behind it, and above all its versions."""
        return replace(self, timeline=standing.timeline + 1, generation=standing.generation + 1, prepared=())

    def same_gtids(self, other: BinlogOffset) -> bool:
        """Tell whether exactly the same transactions were executed at both places; False where GTIDs do not tell."""
        return self.flavor == other.flavor and self._compare_gtids(other) is Ordering.EQUAL

    def _compare_gtids(self, other: BinlogOffset) -> Ordering:
        if not self.knows_gtids or not other.knows_gtids:
            return Ordering.DIVERGED
        mine: MysqlGtidSet | MariadbGtidPosition
        theirs: MysqlGtidSet | MariadbGtidPosition
        if self.flavor == "mariadb":
            mine, theirs = MariadbGtidPosition.parse(self.gtids), MariadbGtidPosition.parse(other.gtids)
            has, had = mine.contains(theirs), theirs.contains(mine)
        else:
            mine, theirs = MysqlGtidSet.parse(self.gtids), MysqlGtidSet.parse(other.gtids)
            has, had = mine.contains(theirs), theirs.contains(mine)
        if has and had:
            return Ordering.EQUAL
        if has:
            return Ordering.AFTER
        return Ordering.BEFORE if had else Ordering.DIVERGED

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


@dataclass(frozen=True)
class KafkaOffsets:
    """Next offset to read per topic and partition.

    Attributes:
        positions: topic → partition → next offset.
        ids: topic → id of the topic that these positions are of; a topic made anew has another.
        epochs: topic → partition → leader epoch of the log when it was last looked at, for the check for truncation.
        generations: topic → partition → how often its log was replaced or cut behind what had been read; 0 is left out.
        passed: whether the range that ends here is a gap, passed over and not read.
        lives: topic → its lives (`topic_lives`), where there is more than one. Places are compared without them.
    """

    positions: Mapping[str, Mapping[int, int]]
    ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    generations: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    passed: bool = False
    lives: Mapping[str, Lives] = field(default_factory=dict)
    kind: str = field(default="kafka", init=False)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; partitions become strings, as JSON wants, and what is empty is left out."""
        known: dict[str, Any] = {"kind": self.kind, "positions": _by_text(self.positions)}
        known |= {"ids": dict(sorted(self.ids.items()))} if self.ids else {}
        known |= {"epochs": _by_text(self.epochs)} if self.epochs else {}
        known |= {"generations": _by_text(self.generations)} if self.generations else {}
        known |= {"lives": {t: _by_text(lives) for t, lives in sorted(self.lives.items())}} if self.lives else {}
        return KAFKA_OFFSETS.write(known | ({"passed": True} if self.passed else {}))

    def places(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return (topic, partition) → (generation, next offset); the greater lies later."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for topic, partitions in self.positions.items():
            generations = self.generations.get(topic, {})
            found |= {(topic, partition): (generations.get(partition, 0), at) for partition, at in partitions.items()}
        return found

    def lives_of(self, topic: str) -> Lives:
        """Return the lives of a topic; an offset written before they were known has one for each replaced log."""
        if known := self.lives.get(topic):
            return known
        replaced = max(self.generations.get(topic, {}).values(), default=0)
        return {replaced: dict.fromkeys(self.positions.get(topic, {}), 0)} if replaced else {}

    def of_generations(self, standing: KafkaOffsets) -> KafkaOffsets:
        """Return this place of the logs as they are now, with the generations and lives in which a checkpoint counts.

        Of a topic that was made anew since, it is the next generation: the checkpoint takes that up by itself later.
        """
        renewed = {t for t, known in standing.ids.items() if self.ids.get(t, known) != known}
        found = {
            topic: {
                p: g for p in partitions if (g := standing.generations.get(topic, {}).get(p, 0) + (topic in renewed))
            }
            for topic, partitions in self.positions.items()
        }
        lives = newer(self.lives, standing.lives) | {
            topic: made_anew(standing.lives_of(topic), dict.fromkeys(self.positions.get(topic, {}), 0))
            for topic in renewed
        }
        return replace(self, generations={topic: known for topic, known in found.items() if known}, lives=lives)

    def compare(self, other: Offset) -> Ordering:
        """Order when every shared partition agrees on the direction; a partition that only one side has counts as 0."""
        if not isinstance(other, KafkaOffsets):
            return Ordering.DIVERGED
        signs = set[int]().union(*(self._signs(other, topic) for topic in {*self.positions, *other.positions}))
        if signs <= {0}:
            return Ordering.EQUAL
        if signs <= {0, 1}:
            return Ordering.AFTER
        return Ordering.BEFORE if signs <= {0, -1} else Ordering.DIVERGED

    def _signs(self, other: KafkaOffsets, topic: str) -> set[int]:
        """Return the directions in which places of a topic differ; tens of thousands are compared in each batch."""
        mine, theirs = self.positions.get(topic, {}), other.positions.get(topic, {})
        my_lives, their_lives = self.generations.get(topic, {}), other.generations.get(topic, {})
        if my_lives == their_lives and (not my_lives or mine.keys() == theirs.keys()):
            return _signs(mine, theirs, 0)
        my_places, their_places = (
            {partition: (lives.get(partition, 0), at) for partition, at in positions.items()}
            for positions, lives in ((mine, my_lives), (theirs, their_lives))
        )
        return _signs(my_places, their_places, (0, 0))

    def __str__(self) -> str:
        named = [f"{t}:{p}:{o}" for t, ps in sorted(self.positions.items()) for p, o in sorted(ps.items())]
        left = len(named) - _MOST_NAMED
        more = [f"{left} more partition{'s' if left > 1 else ''}"] if left > 0 else []
        return ",".join([*named[:_MOST_NAMED], *more])


def _signs(mine: Mapping[Any, Any], theirs: Mapping[Any, Any], zero: Any) -> set[int]:
    """Return the directions, 1 for later, in which places differ; one that only one side has counts as zero there."""
    if mine == theirs:
        return {0}
    return {(a > b) - (a < b) for a, b in ((mine.get(k, zero), theirs.get(k, zero)) for k in {*mine, *theirs})}


def _by_text(values: Mapping[Any, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {str(t): {str(p): value for p, value in sorted(ps.items())} for t, ps in sorted(values.items())}


def _by_number(values: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {t: {int(p): value for p, value in ps.items()} for t, ps in values.items()}


def _lives_from_json(values: Mapping[str, Mapping[str, int]]) -> Lives:
    return {int(number): {int(p): offset for p, offset in since.items()} for number, since in values.items()}


@dataclass(frozen=True)
class SequenceOffset:
    """A plain counter: the number of the last record read (0 before the first).

    Attributes:
        sequence: last record read.
    """

    sequence: int
    kind: str = field(default="sequence", init=False)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return SEQUENCE_OFFSET.write({"kind": self.kind, "sequence": self.sequence})

    def compare(self, other: Offset) -> Ordering:
        """Order by number."""
        if not isinstance(other, SequenceOffset):
            return Ordering.DIVERGED
        if self.sequence == other.sequence:
            return Ordering.EQUAL
        return Ordering.BEFORE if self.sequence < other.sequence else Ordering.AFTER

    def __str__(self) -> str:
        return str(self.sequence)


@dataclass(frozen=True)
class OffsetRange:
    """The half-open range (start, end]: start was read already, end is the last to read.

    Attributes:
        start: last committed offset, exclusive.
        end: last offset of the range, inclusive; never before start.
    """

    start: Offset
    end: Offset

    def __post_init__(self) -> None:
        if self.end.compare(self.start) not in (Ordering.EQUAL, Ordering.AFTER):
            raise OffsetInvalidError(f"a range cannot go from {self.start} back to {self.end}")

    @property
    def empty(self) -> bool:
        """Whether nothing lies in the range."""
        return self.end.compare(self.start) is Ordering.EQUAL

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"start": self.start.to_json(), "end": self.end.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OffsetRange:
        """Read what `to_json` wrote."""
        return cls(offset_from_json(data["start"]), offset_from_json(data["end"]))

    def __str__(self) -> str:
        return f"({self.start}, {self.end}]"


def offset_from_json(data: Mapping[str, Any]) -> Offset:
    """Read an offset that `to_json` wrote.

    Raises:
        CheckpointFormatError: the JSON is not an offset of a known kind.
    """
    kind = data.get("kind")
    values = _FORMS[kind].read(data) if kind in _FORMS else {}
    values.pop("kind", None)
    try:
        if kind == "binlog":
            prepared = tuple(PreparedTransaction(*p) for p in values.pop("prepared", ()))
            return BinlogOffset(**values, prepared=prepared)
        if kind == "kafka":
            positions = _by_number(values.pop("positions"))
            epochs, generations = _by_number(values.pop("epochs", {})), _by_number(values.pop("generations", {}))
            lives = {t: _lives_from_json(found) for t, found in values.pop("lives", {}).items()}
            return KafkaOffsets(positions, epochs=epochs, generations=generations, lives=lives, **values)
        if kind == "sequence":
            return SequenceOffset(**values)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise CheckpointFormatError(f"stored offset {data!r} cannot be read: {error}") from error
    raise CheckpointFormatError(
        f"stored offset has the unknown kind {kind!r}", hint="A newer version may have written it."
    )
