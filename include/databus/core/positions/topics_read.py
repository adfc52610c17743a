"""Topics that come and go under a flow's patterns: which were read whole, which were reported as gone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from databus.core.positions.offsets import KafkaOffsets
from databus.core.stored_form import Form, canonical_json

TOPICS_READ = Form("topics read", "batch at unread told", "place")


@dataclass(frozen=True)
class TopicsRead:
    """Topics that a pattern alone names, as a run of the flow saw them last.

    Attributes:
        batch: batch at which the flow stood.
        at: when.
        unread: topics with records that were not moved, also those that are gone.
        told: topic that is gone, with all its records moved, and reported → its life (`life_of`).
        place: where the flow stood (`place_of`); "" where an earlier databus wrote it.
    """

    batch: int
    at: datetime
    unread: frozenset[str] = frozenset()
    told: Mapping[str, str] = field(default_factory=dict)
    place: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return TOPICS_READ.write(
            {
                "batch": self.batch,
                "at": self.at.isoformat(),
                "unread": sorted(self.unread),
                "told": dict(sorted(self.told.items())),
                **({"place": self.place} if self.place else {}),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TopicsRead:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version.
        """
        data = TOPICS_READ.read(data)
        at = datetime.fromisoformat(data["at"])
        return cls(data["batch"], at, frozenset(data["unread"]), dict(data["told"]), data.get("place", ""))


class TopicsReadStore(Protocol):
    """Remembers it per flow; nothing but reports of topics rests on it."""

    def load(self, flow: str) -> TopicsRead | None:
        """Return what was kept last, None before that. Raises CheckpointError."""
        ...

    def keep(self, flow: str, read: TopicsRead) -> None:
        """Replace it; the last of two that do so at once stands. Raises CheckpointError."""
        ...


def place_of(standing: KafkaOffsets) -> str:
    """Return a short name of a place: equal for equal places alone."""
    places = [[topic, partition, *at] for (topic, partition), at in sorted(standing.places().items())]
    return hashlib.sha256(canonical_json(places)).hexdigest()[:16]


def life_of(standing: KafkaOffsets, topic: str) -> str:
    """Return what distinguishes a topic, as far as it was read, from one of the same name that is read later."""
    return f"{standing.ids.get(topic, '')}@{sum(standing.positions.get(topic, {}).values())}"
