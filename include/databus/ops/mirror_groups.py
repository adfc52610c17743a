"""Consumer groups of a mirror's source, kept on its target: where each would go on there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from databus.core.flow import Flow
from databus.core.offset_map import Place
from databus.ops.mirror_offsets import mirror_sink, translation
from databus.runtime.context import Services

if TYPE_CHECKING:
    from databus.kafka.groups import ClusterGroups

_OWN = "databus."
"""Stem of the groups that hold markers."""


@dataclass(frozen=True)
class Moved:
    """One partition of a group that was set, or would be.

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


class GroupSync:
    """Carries the committed offsets of groups from one side of a mirror to the other."""

    def __init__(self, flow: Flow, services: Services):
        self._flow, self._services = flow, services
        self._spec = mirror_sink(flow)

    def carry(self, groups: Sequence[str] = (), *, back: bool = False, execute: bool = True) -> list[Moved]:
        """Set groups on the target (with `back` on the source) to where they would go on; those with members are left.

        Without `back` a group is never moved backwards, so that one that reads on the target already keeps its place.

        Args:
            groups: patterns of names; those of the mirror's `groups` by default.
            back: from the target to the source.
            execute: False only says what would be done.
        """
        origin, other = self._sides(back=back)
        moved: list[Moved] = []
        with translation(self._flow, self._services, back=back) as translate:
            for group, committed in origin.committed(self._wanted(groups, origin.names())).items():
                found = [translate(place, position) for place, position in committed.items()]
                wanted = dict(item for item in found if item is not None)
                if not wanted or other.has_members(group):
                    continue
                present = other.committed([group]).get(group, {})
                fresh = {
                    place: position
                    for place, position in wanted.items()
                    if present.get(place) != position and (back or present.get(place, -1) < position)
                }
                if fresh and execute:
                    other.commit(group, fresh)
                moved += [Moved(group, place, present.get(place), after) for place, after in sorted(fresh.items())]
        return moved

    def _wanted(self, groups: Sequence[str], names: Sequence[str]) -> list[str]:
        patterns = groups or self._spec.groups
        return [n for n in names if not n.startswith(_OWN) and any(fnmatchcase(n, p) for p in patterns)]

    def _sides(self, *, back: bool) -> tuple[ClusterGroups, ClusterGroups]:
        from databus.kafka.client import ClientSettings
        from databus.kafka.groups import ClusterGroups

        source, target = (
            ClusterGroups(ClientSettings.of(self._services.connections.get(conn_id), self._spec.timeout_s))
            for conn_id in (self._spec.source_conn_id, self._spec.conn_id)
        )
        return (target, source) if back else (source, target)
