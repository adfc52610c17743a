"""Consumer groups of a mirror's source, kept on its target: where each would go on there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.positions.offset_map import Place
from databus.ops.mirror.translate import mirror_sink, translation
from databus.runtime.context import Services

if TYPE_CHECKING:
    from databus.kafka.groups import ClusterGroups
    from databus.sinks.kafka_mirror.spec import MirrorTopics

_OWN = "databus."
"""Stem of the groups that hold markers."""

LOOK_S = 30.0
"""Seconds from one look at every topic, and at the target's offsets, to the next: topics are followed as often."""

_SHOWN = 20
"""Groups that an error names."""


@dataclass(frozen=True)
class GroupOffsetChange:
    """Group offset of one partition that was set, or would be.

    Attributes:
        group: consumer group.
        place: partition on the side that is written.
        before: what the group has committed there, None for nothing.
        after: what it is set to.
    """

    group: str
    place: Place
    before: int | None
    after: int


def require_known(groups: Sequence[str], names: Sequence[str], conn_id: str) -> None:
    """Refuse patterns that mean none of the groups of a cluster.

    Raises:
        ConfigError: names them, and the groups that there are.
    """
    unknown = [pattern for pattern in groups if not any(fnmatchcase(name, pattern) for name in names)]
    if unknown:
        shown = ", ".join(sorted(names)[:_SHOWN]) or "none"
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise ConfigError(
            f"{conn_id} has no consumer group {', '.join(map(repr, unknown))}", hint=f"Known: {shown}{more}."
        )


@dataclass(frozen=True)
class GroupPlace:
    """Committed offset of a group, and where it would go on on the other side.

    Attributes:
        place: partition on the side where the group was read.
        offset: what it has committed there.
        other: the partition on the other side; None while nothing of it was mirrored.
        other_offset: where a reader that goes over goes on there; None while nothing was mirrored.
        committed: what the group has committed on the other side by now; None for nothing.
    """

    place: Place
    offset: int
    other: Place | None
    other_offset: int | None
    committed: int | None


def names_of(conn_id: str, spec: MirrorTopics, services: Services) -> list[str]:
    """Return the names of a cluster's consumer groups, without those that hold markers.

    Args:
        conn_id: the cluster: one of the two sides of a mirror.
        spec: the mirror's sink.
        services: the installation.

    Raises:
        SourceError: the cluster does not answer or refuses.
    """
    with closing(_cluster(conn_id, spec, services)) as cluster:
        return [name for name in cluster.names() if not name.startswith(_OWN)]


def group_places(flow: Flow, services: Services, group: str, *, back: bool = False) -> list[GroupPlace]:
    """Return where one group has committed, and where it would go on on the other side; nothing is set.

    Partitions of which nothing was mirrored are listed without a place on the other side.

    Args:
        flow: the mirror.
        services: the installation.
        group: name of the group.
        back: from the target to the source.

    Raises:
        ConfigError: the flow is no mirror, or the side that is read has no such group.
        SourceError: a cluster does not answer or refuses.
    """
    spec = mirror_sink(flow)
    conn_ids = (spec.source_conn_id, spec.conn_id)
    here, there = reversed(conn_ids) if back else conn_ids
    with (
        translation(flow, services, back=back) as translate,
        closing(_cluster(here, spec, services)) as origin,
        closing(_cluster(there, spec, services)) as other,
    ):
        require_known((escape(group),), [name for name in origin.names() if not name.startswith(_OWN)], here)
        committed = origin.committed([group]).get(group, {})
        images = {place: translate(place, offset) for place, offset in committed.items()}
        wanted = [image[0] for image in images.values() if image is not None]
        present = other.committed_at(group, wanted) if wanted else {}
    found: list[GroupPlace] = []
    for place, offset in sorted(committed.items()):
        to, goes_on = images[place] or (None, None)
        found.append(GroupPlace(place, offset, to, goes_on, present.get(to) if to else None))
    return found


def _cluster(conn_id: str, spec: MirrorTopics, services: Services) -> ClusterGroups:
    from databus.kafka.client import ClientSettings
    from databus.kafka.groups import ClusterGroups

    return ClusterGroups(ClientSettings.of(services.connections.get(conn_id), spec.timeout_s))


class GroupSync:
    """Carries the committed offsets of groups from one side of a mirror to the other."""

    def __init__(self, flow: Flow, services: Services, kept: int = 0, monotonic: Callable[[], float] = time.monotonic):
        """Open nothing yet.

        Args:
            flow: the mirror.
            services: the installation.
            kept: clients, one for a group, that stay open on each side from one time to the next, until `close`.
            monotonic: gives the time in seconds.
        """
        self._flow, self._services, self._kept, self._now = flow, services, kept, monotonic
        self._spec = mirror_sink(flow)
        self._clusters: dict[str, ClusterGroups] = {}
        self._settled: dict[str, dict[Place, int]] = {}
        self._due = monotonic() + LOOK_S

    def look_again(self) -> None:
        """Take nothing from the time before: look at every topic of the origin, and at the other side's offsets."""
        self._settled.clear()
        self._due = self._now() + LOOK_S
        for cluster in self._clusters.values():
            cluster.look_again()

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        for cluster in self._clusters.values():
            cluster.close()

    def carry(self, groups: Sequence[str] = (), *, back: bool = False, execute: bool = True) -> list[GroupOffsetChange]:
        """Set groups on the target (with `back` on the source) to where they would go on; those with members are left.

        Without `back` a group is never moved backwards, so that one that reads on the target already keeps its place.
        Done again within `LOOK_S`, it looks at the topics in which a group was found, and on the other side at groups
        alone that would go on elsewhere than the last time.

        Args:
            groups: patterns of names; those of the mirror's `groups` by default.
            back: from the target to the source.
            execute: False only says what would be done.

        Raises:
            ConfigError: one of the patterns given means no group of the side that is read.
        """
        origin, other = self._sides(back=back)
        if self._now() >= self._due:
            self.look_again()
        moved: list[GroupOffsetChange] = []
        with translation(self._flow, self._services, back=back) as translate:
            names = [name for name in origin.names() if not name.startswith(_OWN)]
            require_known(groups, names, self._spec.conn_id if back else self._spec.source_conn_id)
            for group, committed in origin.committed(self._wanted(groups, names)).items():
                found = [translate(place, position) for place, position in committed.items()]
                wanted = dict(item for item in found if item is not None)
                if not wanted or self._settled.get(group) == wanted or other.has_members(group):
                    continue
                present = other.committed_at(group, wanted)
                fresh = {
                    place: position
                    for place, position in wanted.items()
                    if present.get(place) != position and (back or present.get(place, -1) < position)
                }
                if fresh and execute:
                    other.commit(group, fresh)
                if execute and not back:
                    self._settled[group] = wanted
                moved += [
                    GroupOffsetChange(group, place, present.get(place), after) for place, after in sorted(fresh.items())
                ]
        return moved

    def _wanted(self, groups: Sequence[str], names: Sequence[str]) -> list[str]:
        patterns = groups or self._spec.groups
        return [n for n in names if any(fnmatchcase(n, p) for p in patterns)]

    def _sides(self, *, back: bool) -> tuple[ClusterGroups, ClusterGroups]:
        from databus.kafka.client import ClientSettings
        from databus.kafka.groups import ClusterGroups

        for conn_id in (self._spec.source_conn_id, self._spec.conn_id):
            if conn_id not in self._clusters:
                settings = ClientSettings.of(self._services.connections.get(conn_id), self._spec.timeout_s)
                self._clusters[conn_id] = ClusterGroups(settings, self._kept)
        source, target = self._clusters[self._spec.source_conn_id], self._clusters[self._spec.conn_id]
        return (target, source) if back else (source, target)
