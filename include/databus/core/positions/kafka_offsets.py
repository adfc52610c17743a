"""Offset of Kafka topics: the next record of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from databus.core.positions.offset import Offset, Ordering
from databus.core.positions.topic_lives import Lives, made_anew, newer
from databus.core.stored_form import Form

KAFKA_OFFSETS = Form("Kafka offset", "kind positions ids epochs generations passed", "lives", part=True)

_MOST_NAMED = 16
"""Partitions that the text of an offset names; the JSON has them all."""


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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KafkaOffsets:
        """Read what `to_json` wrote."""
        values = KAFKA_OFFSETS.read(data)
        del values["kind"]
        positions = _by_number(values.pop("positions"))
        epochs, generations = _by_number(values.pop("epochs", {})), _by_number(values.pop("generations", {}))
        lives = {t: _lives_from_json(found) for t, found in values.pop("lives", {}).items()}
        return cls(positions, epochs=epochs, generations=generations, lives=lives, **values)

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
