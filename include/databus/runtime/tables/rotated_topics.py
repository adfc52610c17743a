"""Topics that rotate: one that only a pattern names and that is gone, with all its records moved, is reported once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.positions.topics_read import TopicsRead, TopicsReadStore, life_of, place_of
from databus.core.protocols.optional_source import RotatingSource
from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import Checkpoint

log = logging.getLogger(__name__)

_NEVER = TopicsRead(-1, datetime(1970, 1, 1, tzinfo=UTC))


class RotatedTopics:
    """Distinguishes topics that went as their pattern lets them from those that a flow misses.

    A topic's end is not known any more once it is deleted. This process may have seen it; else the last run has written
    down which topics had records left, and nothing was moved since: the flow stands where it stood.

    Args:
        flow: the flow.
        source: its source, open.
        kept: remembers what is known of the topics.
        clock: gives the time.
    """

    def __init__(self, flow: Flow, source: RotatingSource, kept: TopicsReadStore, clock: Clock):
        self._flow, self._source, self._kept, self._clock = flow, source, kept, clock
        self._begun: Checkpoint | None = None
        self._stored: TopicsRead | None = None
        self._now: dict[str, datetime] = {}
        self._missed: dict[str, int | None] = {}

    def stands(self, checkpoint: Checkpoint | None) -> None:
        """Take over where the flow stands before it moves anything."""
        self._begun, self._stored = checkpoint, None

    def left_of(self, missing: Sequence[str], standing: Offset | None) -> tuple[str, ...]:
        """Return what is missed of names, patterns and topics without any, and what this run reports.

        Args:
            missing: what the source has just said of them.
            standing: where the flow stands.
        """
        if not isinstance(standing, KafkaOffsets):
            return tuple(missing)
        try:
            return self._left_of(missing, standing)
        except DatabusError as error:
            log.debug("flow %s: what was read of topics is not known: %s", self._flow.name, error)
            return tuple(missing)

    def tell(self, name: str) -> bool:
        """Log what became of a topic that is gone; False for any other name."""
        if name in self._now:
            log.info(
                "flow %s: topic %s is gone, as it may be: only a pattern names it, and all that was in it at %s was "
                "moved; it is reported this once",
                self._flow.name, name, self._now[name].isoformat(timespec="seconds"),
            )  # fmt: skip
        elif name in self._missed:
            left = self._missed[name]
            log.warning(
                "flow %s: topic %s is gone (deleted, or not shown to this account), and %s → Bring them in another "
                "way, then put it among `exclude_topics`.",
                self._flow.name, name,
                "whether all of its records were moved is not known" if left is None
                else f"with it {left} records that were not moved",
            )  # fmt: skip
        return name in self._now or name in self._missed

    def note(self, checkpoint: Checkpoint) -> None:
        """Write down which topics have records left, as the run ends."""
        standing = checkpoint.offset
        if not isinstance(standing, KafkaOffsets) or not any(map(self._flow.source.rotates, standing.positions)):
            return
        try:
            stored, seen = self._read(), self._source.unread(standing)
            behind = {topic for topic, left in seen.items() if left and self._flow.source.rotates(topic)}
            carried = {topic for topic in stored.unread if topic not in seen and topic in standing.positions}
            told = {topic: life for topic, life in stored.told.items() if life == life_of(standing, topic)}
            unread = frozenset((behind | carried | {*self._missed}) - {*self._now})
            found = TopicsRead(checkpoint.batch, self._clock.now(), unread, told, place_of(standing))
            if replace(found, at=stored.at) != stored:
                self._keep(found)
        except DatabusError as error:
            log.debug("flow %s: what was read of topics is not written down: %s", self._flow.name, error)

    def _left_of(self, missing: Sequence[str], standing: KafkaOffsets) -> tuple[str, ...]:
        rotated = [name for name in missing if name in standing.positions and self._flow.source.rotates(name)]
        self._missed = {}
        self._now = {name: when for name, when in self._now.items() if name in missing}  # the others are there again
        if not rotated:
            return tuple(missing)
        stored, seen = self._read(), self._source.unread(standing)
        unmoved = self._is_where_it_was(stored)
        over: set[str] = set()
        for name in rotated:
            left = seen.get(name)
            if name in self._now:
                continue
            known = stored.told.get(name) == life_of(standing, name) and name not in stored.unread
            if known and not left:
                over.add(name)
            elif left == 0:
                self._now[name] = self._clock.now()
            elif left is None and unmoved and name not in stored.unread:
                self._now[name] = stored.at
            else:
                self._missed[name] = left
        told = {**stored.told, **{name: life_of(standing, name) for name in rotated if name in self._now}}
        found = replace(stored, unread=(stored.unread | {*self._missed}) - {*self._now}, told=told)
        if found != stored:
            self._keep(found)
        return tuple(name for name in missing if name not in over)

    def _is_where_it_was(self, stored: TopicsRead) -> bool:
        """Return whether this run began where the flow stood when that was written down; a rewind keeps the batch."""
        begun = self._begun
        if begun is None or begun.batch != stored.batch or not isinstance(begun.offset, KafkaOffsets):
            return False
        if not stored.place:  # an earlier databus wrote it; what a person has moved names no plan
            return bool(begun.plan_hash)
        return stored.place == place_of(begun.offset)

    def _read(self) -> TopicsRead:
        if self._stored is None:
            self._stored = self._kept.load(self._flow.name) or _NEVER
        return self._stored

    def _keep(self, found: TopicsRead) -> None:
        self._stored = found
        self._kept.keep(self._flow.name, found)
