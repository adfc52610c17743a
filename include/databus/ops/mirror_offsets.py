"""Which offset of a mirror's source is which offset of its target: exact, from the receipts of committed batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from databus.core.checkpoint import HistoryEntry
from databus.core.errors import ConfigError, OffsetInvalidError
from databus.core.flow import Flow
from databus.core.offsets import KafkaOffsets, Offset
from databus.ops.ledger import read_ledger
from databus.runtime.context import Services

if TYPE_CHECKING:
    from databus.sinks.kafka_mirror.spec import MirrorTopics

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Run:
    """Records whose offsets count up together on both sides, from `source` and `target` on."""

    source: int
    target: int
    count: int


@dataclass(frozen=True)
class Image:
    """A place on the other side.

    Attributes:
        place: topic and partition.
        offset: next offset to read.
        exact: whether a mirrored record stands there; else it is the end of what is known.
    """

    place: Place
    offset: int
    exact: bool


@dataclass
class OffsetMap:
    """The offset map of one mirror.

    Attributes:
        runs: source partition → runs, the newest last.
        targets: source partition → target partition.
        committed: source partition → where the mirror goes on.
    """

    runs: dict[Place, list[Run]] = field(default_factory=dict)
    targets: dict[Place, Place] = field(default_factory=dict)
    committed: dict[Place, int] = field(default_factory=dict)
    _generations: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[HistoryEntry]) -> OffsetMap:
        """Build the map from history entries, oldest first; what was mirrored of a topic's former life is left out."""
        made = cls()
        for entry in entries:
            made.commit(entry.offset)
            for receipt in entry.receipts:
                made.add(receipt.get("outputs", {}))
        return made

    def add(self, outputs: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in the outputs of one receipt."""
        for name, facts in outputs.items():
            if "source" not in facts:
                continue
            place = _place(str(facts["source"]))
            self.targets[place] = _place(name)
            known = self.runs.setdefault(place, [])
            for source, target, count in facts.get("runs", ()):
                last = known[-1] if known else None
                if last and (last.source + last.count, last.target + last.count) == (source, target):
                    known[-1] = Run(last.source, last.target, last.count + count)
                else:
                    known.append(Run(source, target, count))

    def to_target(self, place: Place, position: int) -> Image | None:
        """Return the image on the target of the first mirrored record at or behind a position, else the end of all."""
        runs = [(run.source, run.target, run.count) for run in self.runs.get(place, ())]
        return _image(self.targets[place], runs, position) if runs else None

    def to_source(self, place: Place, position: int) -> Image | None:
        """Return the same of a position on the target; the end is where the mirror itself goes on."""
        for source, target in self.targets.items():
            if target == place and (known := self.runs.get(source)):
                found = _image(source, [(run.target, run.source, run.count) for run in known], position)
                if found.exact:
                    return found
                return Image(source, max(found.offset, self.committed.get(source, 0)), exact=False)
        return None

    def commit(self, offset: Offset) -> None:
        """Note where the mirror stands; what was mirrored of a topic's former life is left out from then on."""
        if not isinstance(offset, KafkaOffsets):
            return
        self.committed = {(t, p): o for t, partitions in offset.positions.items() for p, o in partitions.items()}
        for topic, partitions in offset.generations.items():
            for partition, generation in partitions.items():
                place = topic, partition
                if self._generations.get(place, 0) < generation:
                    self._generations[place] = generation
                    self.runs.pop(place, None)


@dataclass
class Translation:
    """Where a reader of one side goes on on the other; misses nothing, and reads nothing again that is known as read.

    Attributes:
        there: the mirror from its side to the other; None where there is none.
        back: the mirror from the other side to its own; None where there is none.
    """

    there: OffsetMap | None
    back: OffsetMap | None

    def __call__(self, place: Place, position: int) -> tuple[Place, int] | None:
        """Return the place for a reader that wants `position` next; None while nothing of the partition was mirrored.

        Of its own side's records the reader has yet to see those from the first image on; of the other side's, those
        whose images lie behind its position, and those that have no image yet.
        """
        own = self.there.to_target(place, position) if self.there else None
        others = self.back.to_source(place, position) if self.back else None
        if own is None:
            return None if others is None else (others.place, others.offset)
        if self.back is None:
            return own.place, own.offset
        unseen = others.offset if others else self.back.committed.get(own.place, 0)
        return own.place, min(own.offset, unseen) if own.exact else unseen


def offset_map(flow: Flow, services: Services) -> OffsetMap:
    """Read the offset map of a flow from ZooKeeper and the ledger's pages."""
    return OffsetMap.of(read_ledger(flow, services).entries)


def translation(flow: Flow, services: Services, *, back: bool = False) -> Translation:
    """Read the maps of a mirror, and of the one in the other direction where it names one.

    Args:
        flow: the mirror.
        services: the installation.
        back: from the target to the source.

    Raises:
        ConfigError: the flow is no mirror.
    """
    partner = mirror_sink(flow).partner
    # In this order: what the first does not hold yet lies behind where the second goes on.
    other = offset_map(flow.model_copy(update={"name": partner}), services) if partner else None
    if back:
        return Translation(other, offset_map(flow, services))
    return Translation(offset_map(flow, services), other)


def mirror_sink(flow: Flow) -> MirrorTopics:
    """Return the sink of a mirror.

    Raises:
        ConfigError: the flow is no mirror.
    """
    for sink in flow.sinks:
        if sink.kind == "kafka_mirror":
            return cast("MirrorTopics", sink)
    raise ConfigError(f"flow {flow.name} is no mirror: it keeps no offset map")


def translate(flow: Flow, services: Services, place: Place, position: int, *, back: bool = False) -> tuple[Place, int]:
    """Return the place on the other side for a reader that wants `position` of `place` next.

    Raises:
        ConfigError: the flow is no mirror.
        OffsetInvalidError: nothing of the partition was mirrored yet.
    """
    found = translation(flow, services, back=back)(place, position)
    if found is None:
        raise OffsetInvalidError(
            f"flow {flow.name}: nothing of {place[0]}[{place[1]}] was mirrored yet",
            hint="Name a topic and partition of the source; with --back of the target.",
        )
    return found


def _image(place: Place, runs: list[tuple[int, int, int]], position: int) -> Image:
    """Return the image of the first record at or behind a position; of runs that overlap the newest counts."""
    for begin, image, count in reversed(runs):
        if begin <= position < begin + count:
            return Image(place, image + position - begin, exact=True)
    later = [(begin, -number) for number, (begin, _, _) in enumerate(runs) if begin > position]
    if later:
        return Image(place, runs[-min(later)[1]][1], exact=True)
    _, image, count = max(reversed(runs), key=lambda run: run[0] + run[2])
    return Image(place, image + count, exact=False)


def _place(name: str) -> Place:
    topic, _, partition = name.rpartition("[")
    return topic, int(partition.rstrip("]"))
