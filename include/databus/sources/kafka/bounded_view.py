"""Bounded view of logs between two offsets: a backfill's piece, or what a lagging sink has still to read."""

from __future__ import annotations

from databus.core.errors.source import OffsetPurgedError
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.kafka.cluster import Place
from databus.sources.kafka.positions import LogState
from databus.sources.kafka.ranges import kafka_offsets
from databus.sources.kafka.rows import log_name


class OffsetBounds:
    """A range of offsets, each partition's own, by which the state of the logs is cut.

    Args:
        wanted: from where to where.
        where: the cluster in words, for errors.
    """

    def __init__(self, wanted: OffsetRange, where: str):
        self.start: KafkaOffsets = kafka_offsets(wanted.start)
        self._where, self._lives = where, kafka_offsets(wanted.end).lives
        before, self._until = self.start.places(), dict[Place, int]()
        for place, until in kafka_offsets(wanted.end).places().items():
            since = before.get(place, (0, 0))
            if since == until:
                continue
            if since[0] != until[0]:
                raise self._replaced(place, since[1])
            self._until[place] = until[1]

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of which anything lies in the range, by name."""
        return tuple(sorted({topic for topic, _ in self._until}))

    def cut(self, state: LogState) -> LogState:
        """Return the state of the logs as if they ended where the range does; of other partitions it says nothing.

        Raises:
            OffsetPurgedError: a log of the range was deleted, made anew or cut back.
        """
        for place, until in sorted(self._until.items()):
            known = self.start.ids.get(place[0])
            # Where reading ends never falls but by a truncation.
            if place not in state.ends or (known and state.ids[place[0]] != known) or state.ends[place] < until:
                raise self._replaced(place, until)
        return LogState(
            {topic: state.ids[topic] for topic in self.topics},
            {place: min(state.earliest[place], until) for place, until in self._until.items()},
            dict(self._until),
            {place: state.epochs[place] for place in self._until},
            None if state.lives is None else self._lives,
        )

    def _replaced(self, place: Place, offset: int) -> OffsetPurgedError:
        return OffsetPurgedError(
            f"{self._where}: {log_name(*place)}: the log that held offset {offset} is gone: the topic was "
            "deleted, made anew, or cut back",
            hint="Name a range of the log that is there now: begin at a later time, or at earliest.",
        )
