"""Choice of what a consumer reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from databus.consumer.places import Start
    from databus.consumer.state_topic import StateTopic


@dataclass(frozen=True)
class Reading:
    """Choice of what is read, and how.

    Attributes:
        topics: names, or patterns that begin with `^`.
        group: consumer group; "" for none.
        member: whether the group's members share the partitions; else this consumer takes its share of all.
        start: where partitions without a checkpoint begin.
        share: (number, of how many) of the partitions, without a group's members.
        client: librdkafka settings of the consumer.
        state: state topic; None without.
        behind: what becomes of a partition whose checkpoint retention has passed.
    """

    topics: tuple[str, ...]
    group: str = ""
    member: bool = False
    start: Start = "committed"
    share: tuple[int, int] = (0, 1)
    client: Mapping[str, Any] = field(default_factory=dict)
    state: StateTopic | None = None
    behind: Literal["stop", "state"] = "stop"
