"""Answers about mirrors."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from databus.web.answers.accounts import PartitionLagAnswer
from databus.web.answers.parts import Answer, ItemError


class MirrorDefined(Answer):
    """Mirror as its DAG file defines it."""

    flow: str
    source: str = Field(alias="from", description="Connection of the cluster that is mirrored.")
    target: str = Field(alias="to", description="Connection of the cluster that is written.")
    topics: list[str] = Field(description="Patterns.")
    exclude_topics: list[str] = Field(description="Patterns.")
    groups: list[str] = Field(description="Patterns of consumer groups whose offsets are carried over.")
    partner: str | None = Field(description="Flow of the mirror in the other direction.")
    heartbeat_seconds: float | None = Field(description="Time between two heartbeats; null where none are written.")


class MirrorItem(Answer):
    """DAG of a mirror; `error` says why a DAG cannot be read."""

    dag_id: str
    mirror: MirrorDefined | None
    error: ItemError | None


class MirrorPage(Answer):
    """Page of a list of mirrors."""

    items: list[MirrorItem]
    next: str | None


class LagOfAll(Answer):
    """Lag of a mirror over all partitions."""

    partitions: int
    behind: int = Field(description="Partitions of which records wait or are held back.")
    records: int
    held_back: int
    seconds: float | None = Field(description="Age of the oldest record that waits; null where that is not known.")
    worst: list[PartitionLagAnswer]


class HeartbeatNow(Answer):
    """Newest heartbeat that has arrived; null where none has."""

    written_at: datetime | None
    age_seconds: float | None


class GroupsFollowed(Answer):
    """Consumer groups of the source that the mirror's option `groups` means."""

    followed: int
    on_target: int
    missing: list[str] = Field(description="The first of those that the target does not have.")


class RaisedAlert(Answer):
    """Alert that is raised."""

    alert: str
    since: datetime | None


class MirrorPartError(ItemError):
    """Part of a mirror's state that could not be asked, and why."""

    of: Literal["lag", "heartbeat", "groups"]


class MirrorState(Answer):
    """State of a mirror; parts that could not be asked are null and stand in `problems`."""

    flow: str
    as_of: datetime
    batch: int | None
    updated_at: datetime | None
    paused: str | None
    alerts: list[RaisedAlert]
    lag: LagOfAll | None
    heartbeat: HeartbeatNow | None
    groups: GroupsFollowed | None
    problems: list[MirrorPartError]


class OffsetSpanAnswer(Answer):
    """Offsets of a partition and of the other side, first to last; `exact`: both count up together."""

    topic: str = Field(description="On the other side.")
    partition: int
    first: int = Field(alias="from")
    last: int = Field(alias="to")
    other_from: int
    other_to: int
    exact: bool


class OffsetSpans(Answer):
    """Page of an offset map."""

    items: list[OffsetSpanAnswer]
    next: str | None


class GroupPlaceAnswer(Answer):
    """Committed offset of a group, and where it would go on on the other side."""

    topic: str
    partition: int
    offset: int
    other_topic: str | None
    other_partition: int | None
    other_offset: int | None
    committed: int | None = Field(description="What the group has committed on the other side.")


class GroupTranslated(Answer):
    """Offsets of a consumer group on both sides."""

    flow: str
    group: str
    places: list[GroupPlaceAnswer]
