"""Kafka positions: shares of a batch, gaps, and what to do about them. Pure: asks no server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from databus.core.positions.offsets import KafkaOffsets
from databus.core.positions.topic_lives import Lives, grown, made_anew, newer, raised

Place = tuple[str, int]

RETENTION, TRUNCATED, RECREATED, JOINED = "retention", "truncation", "topic made anew", "found late"
DELETED = "topic deleted"


@dataclass(frozen=True)
class PartitionGap:
    """Records of one partition that cannot be read any more.

    Attributes:
        place: topic and partition.
        cause: one of the causes above.
        position: next offset wanted.
        earliest: first offset that is left.
        end: where the log ends.
    """

    place: Place
    cause: str
    position: int
    earliest: int
    end: int

    def __str__(self) -> str:
        where = f"{self.place[0]}[{self.place[1]}]"
        if self.cause == RECREATED:
            return f"{where}: the topic was made anew; what followed offset {self.position} of the former one is gone"
        if self.cause == DELETED:
            return f"{where}: the topic is gone, and with it what followed offset {self.position}"
        if self.cause == TRUNCATED:
            return f"{where}: the log was cut back to {self.end}, behind offset {self.position} that was read already"
        return f"{where}: records {self.position} to {self.earliest - 1} were deleted ({self.cause})"

    def target(self, policy: str) -> int:
        """Return where a policy ("earliest" or "latest") goes on; after a truncation all that is left was read."""
        return self.end if policy == "latest" or self.cause == TRUNCATED else self.earliest


@dataclass(frozen=True)
class LogState:
    """The logs as the cluster shows them at one moment.

    Attributes:
        ids: topic → id.
        earliest: first offset by partition.
        ends: where reading ends by partition.
        epochs: leader epoch of the end by partition, -1 unknown.
        lives: topic → its lives, as far as they are known of where the logs end; None where nobody asks for them.
    """

    ids: Mapping[str, str]
    earliest: Mapping[Place, int]
    ends: Mapping[Place, int]
    epochs: Mapping[Place, int]
    lives: Mapping[str, Lives] | None = field(default_factory=dict)

    def only(self, topic: str) -> LogState:
        """Return where the logs of one topic begin and end."""
        ends = {place: end for place, end in self.ends.items() if place[0] == topic}
        return LogState({topic: self.ids[topic]}, {place: self.earliest[place] for place in ends}, ends, {})

    def without(self, topics: Collection[str]) -> LogState:
        """Return where the logs of the other topics begin and end."""
        ends = {place: end for place, end in self.ends.items() if place[0] not in topics}
        ids = {topic: known for topic, known in self.ids.items() if topic not in topics}
        return LogState(ids, {place: self.earliest[place] for place in ends}, ends, {})

    def told(self, topic: str) -> set[Place]:
        """Return the partitions of a topic whose ends are known."""
        return {place for place in self.ends if place[0] == topic}


def gaps(after: KafkaOffsets, state: LogState) -> list[PartitionGap]:
    """Return what is missing between an offset and the logs, in order of topic and partition."""
    found = []
    for place, end in sorted(state.ends.items()):
        topic, partition = place
        earliest = state.earliest[place]
        position = after.positions.get(topic, {}).get(partition)
        known = after.ids.get(topic)
        if position is None:
            if earliest > 0:
                found.append(PartitionGap(place, JOINED, 0, earliest, end))
        elif known and state.ids[topic] != known:
            found.append(PartitionGap(place, RECREATED, position, earliest, end))
        elif position > end:
            found.append(PartitionGap(place, TRUNCATED, position, earliest, end))
        elif position < earliest:
            found.append(PartitionGap(place, RETENTION, position, earliest, end))
    return found


def behind_gaps(after: KafkaOffsets, state: LogState, missing: Sequence[PartitionGap], policy: str) -> KafkaOffsets:
    """Return the offset behind gaps: the end of a range that is passed over."""
    generations = {topic: dict(known) for topic, known in after.generations.items()}
    ids = {**after.ids, **{gap.place[0]: state.ids[gap.place[0]] for gap in missing}}
    positions = {topic: dict(known) for topic, known in after.positions.items()}
    for gap in missing:
        topic, partition = gap.place
        positions.setdefault(topic, {})[partition] = gap.target(policy)
        if gap.cause in (RECREATED, TRUNCATED):
            of_topic = generations.setdefault(topic, {})
            of_topic[partition] = of_topic.get(partition, 0) + 1
    for topic in {gap.place[0] for gap in missing if gap.cause == RECREATED}:
        known = {p for t, p in state.ends if t == topic} | {gap.place[1] for gap in missing if gap.place[0] == topic}
        for partition in positions[topic].keys() - known:  # it has fewer now
            positions[topic][partition] = 0
            generations[topic][partition] = generations[topic].get(partition, 0) + 1
    epochs = _epochs(after, state, {gap.place for gap in missing})
    lives = _lives_behind(after, state, missing)
    return KafkaOffsets(positions, ids, epochs, generations, passed=True, lives=lives)


def behind_lost(start: KafkaOffsets, ends: Mapping[Place, int], lost: Sequence[PartitionGap]) -> KafkaOffsets:
    """Return where reading of a planned range begins behind what the logs have lost of it.

    Args:
        start: the range's start.
        ends: where it ends by partition; of a log that is not the one that was planned nothing before that is read.
        lost: the gaps.
    """
    positions = {topic: dict(known) for topic, known in start.positions.items()}
    epochs = {topic: dict(known) for topic, known in start.epochs.items()}
    for gap in lost:
        topic, partition = gap.place
        end = ends[gap.place]
        positions.setdefault(topic, {})[partition] = min(gap.earliest, end) if gap.cause == RETENTION else end
        epochs.get(topic, {}).pop(partition, None)  # it is known of the start alone
    return replace(start, positions=positions, epochs={t: known for t, known in epochs.items() if known}, passed=False)


def advanced(after: KafkaOffsets, state: LogState, taken: Mapping[Place, int]) -> KafkaOffsets:
    """Return the offset after so many offsets more of each partition.

    A partition that a known topic has gained is named once it holds a record: with its first ones a life begins.
    """
    positions = {topic: dict(known) for topic, known in after.positions.items()}
    for (topic, partition), end in state.ends.items():
        if not end and topic in after.positions and partition not in after.positions[topic]:
            continue
        of_topic = positions.setdefault(topic, {})
        of_topic[partition] = of_topic.get(partition, 0) + taken.get((topic, partition), 0)
    epochs = _epochs(after, state, {(t, p) for t, p in state.ends if p in positions.get(t, ())})
    return KafkaOffsets(
        positions, {**after.ids, **state.ids}, epochs, after.generations, lives=_lives_of_growth(after, state)
    )


def shares(backlog: Mapping[Place, int], most: int, turn: int = 0) -> dict[Place, int]:
    """Cut a batch of at most `most` offsets from the partitions' backlogs: equal shares, what one leaves to the others.

    So a partition with a small backlog is never kept waiting by a large one. Where there are more partitions than
    offsets to give, `turn` says with which to begin.
    """
    waiting = sorted((behind, place) for place, behind in backlog.items() if behind > 0)
    if sum(behind for behind, _ in waiting) <= most:
        return {place: behind for behind, place in waiting}
    if len(waiting) > most:
        places = sorted(place for _, place in waiting)
        start = turn % len(places)
        return dict.fromkeys((places[start:] + places[:start])[:most], 1)
    taken: dict[Place, int] = {}
    left = most
    for number, (behind, place) in enumerate(waiting):
        taken[place] = min(behind, left // (len(waiting) - number))
        left -= taken[place]
    return taken


def _lives_of_growth(after: KafkaOffsets, state: LogState) -> dict[str, Lives]:
    """Return the lives of topics, raised where partitions hold records that were not there before.

    Producers find new partitions one after the other: what lies in the others by now counts as written before.
    """
    if state.lives is None:
        return {}
    lives = newer(after.lives, state.lives)
    for topic in sorted(state.ids.keys() & after.positions.keys()):
        known = lives.get(topic) or after.lives_of(topic)
        # A topic that was made anew with fewer partitions stands at 0 in those that it may gain again.
        read = {p for p, position in after.positions[topic].items() if position or not known}
        named = read | {p for since in known.values() for p in since}
        ends = {p: end for (t, p), end in state.ends.items() if t == topic}
        if found := {p: 0 for p, end in ends.items() if end and p not in named}:
            lives[topic] = grown(known, found, {p: end for p, end in ends.items() if p in named})
    return lives


def _lives_behind(after: KafkaOffsets, state: LogState, missing: Sequence[PartitionGap]) -> dict[str, Lives]:
    """Return the lives of topics behind gaps: of one that was made anew, cut back or found with partitions more."""
    lives = _lives_of_growth(after, state)
    if state.lives is None:
        return lives
    for topic in sorted({gap.place[0] for gap in missing}):
        causes = {gap.cause for gap in missing if gap.place[0] == topic}
        if RECREATED in causes:
            lives[topic] = made_anew(after.lives_of(topic), {p: 0 for t, p in state.ends if t == topic})
        elif TRUNCATED in causes:
            cut = {gap.place[1]: gap.end for gap in missing if gap.place[0] == topic and gap.cause == TRUNCATED}
            lives[topic] = raised(lives.get(topic) or after.lives_of(topic), cut)
    return lives


def _epochs(after: KafkaOffsets, state: LogState, places: set[Place]) -> dict[str, dict[int, int]]:
    epochs = {topic: dict(known) for topic, known in after.epochs.items()}
    for topic, partition in sorted(places):
        if (epoch := state.epochs.get((topic, partition), -1)) >= 0:
            epochs.setdefault(topic, {})[partition] = epoch
    return epochs
