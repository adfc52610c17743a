"""Consumer groups of a mirror's source, kept on its target: where each would go on there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from databus.core.errors import ConfigError
from databus.core.flow import Flow
from databus.core.offset_map import Place
from databus.ops.mirror_offsets import mirror_sink, translation
from databus.runtime.context import Services

if TYPE_CHECKING:
    from databus.kafka.groups import ClusterGroups

_OWN = "databus."
"""Stem of the groups that hold markers."""

_SHOWN = 20
"""Groups that an error names."""


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

        Raises:
            ConfigError: one of the patterns given means no group of the side that is read.
        """
        origin, other = self._sides(back=back)
        moved: list[Moved] = []
        with translation(self._flow, self._services, back=back) as translate:
            names = [name for name in origin.names() if not name.startswith(_OWN)]
            require_known(groups, names, self._spec.conn_id if back else self._spec.source_conn_id)
            for group, committed in origin.committed(self._wanted(groups, names)).items():
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
        return [n for n in names if any(fnmatchcase(n, p) for p in patterns)]

    def _sides(self, *, back: bool) -> tuple[ClusterGroups, ClusterGroups]:
        from databus.kafka.client import ClientSettings
        from databus.kafka.groups import ClusterGroups

        source, target = (
            ClusterGroups(ClientSettings.of(self._services.connections.get(conn_id), self._spec.timeout_s))
            for conn_id in (self._spec.source_conn_id, self._spec.conn_id)
        )
        return (target, source) if back else (source, target)
