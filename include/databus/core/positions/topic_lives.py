"""Lives of a Kafka topic: numbers that rise where its offsets stop saying which record is the newer one.

A topic that is made anew, is cut back or gains partitions (keys move to other ones) has newer records at lower offsets.
Each time its life rises, and what was written before keeps the life that it was written in: a life begins, partition by
partition, at an offset. Offsets order the records of one partition and life; lives order what lies in several; nothing
orders records of two partitions in one life. Pure: asks no server.
"""

from __future__ import annotations

from collections.abc import Mapping

Boundaries = Mapping[int, int]
"""Partition → first offset of a life; a partition that is not named has no record in it."""

Lives = Mapping[int, Boundaries]
"""Number of a life → where it begins. What lies before all of them is of life 0."""

MOST_BOUNDARIES = 4096
"""Boundaries of a topic beyond which a growth raises no further life: they stand in each offset."""


def life_at(lives: Lives, partition: int, offset: int) -> int:
    """Return the life of a record."""
    return max((n for n, since in lives.items() if since.get(partition, offset + 1) <= offset), default=0)


def raised(lives: Lives, since: Boundaries) -> dict[int, Boundaries]:
    """Return the lives with one more, which begins at `since`."""
    return {**lives, max(lives, default=0) + 1: dict(since)}


def made_anew(lives: Lives, since: Boundaries) -> dict[int, Boundaries]:
    """Return the lives of a topic that was made anew: of the former log nothing can be read any more."""
    return {max(lives, default=0) + 1: dict(since)}


def grown(lives: Lives, since: Boundaries, ends: Boundaries) -> dict[int, Boundaries]:
    """Return the lives of a topic whose new partitions hold their first records.

    Args:
        lives: so far.
        since: where the new partitions begin.
        ends: where the others end.
    """
    if lives and sum(map(len, lives.values())) + len(since) + len(ends) > MOST_BOUNDARIES:
        newest = max(lives)
        return {**lives, newest: {**lives[newest], **since}}
    return raised(lives, {**ends, **since})


def newer(one: Mapping[str, Lives], other: Mapping[str, Lives]) -> dict[str, Lives]:
    """Return the lives of topics as who knows more of them does; what is known of a life never changes."""
    return {topic: max(one.get(topic, {}), other.get(topic, {}), key=_known) for topic in sorted({*one, *other})}


def _known(lives: Lives) -> tuple[int, int]:
    return max(lives, default=0), sum(map(len, lives.values()))
