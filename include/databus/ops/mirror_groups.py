"""Consumer groups of a mirror's source, kept on its target: where each would go on there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from databus.core.errors import DatabusError
from databus.core.flow import Flow
from databus.core.report import BatchReport
from databus.ops.mirror_offsets import Place, mirror_sink, translation
from databus.runtime.context import Services
from databus.runtime.window import WindowControl

if TYPE_CHECKING:
    from databus.kafka.groups import ClusterGroups

log = logging.getLogger(__name__)

_EVERY_S = 5.0
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
        translate = translation(self._flow, self._services, back=back)
        origin, other = self._sides(back=back)
        moved: list[Moved] = []
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


def with_groups(flow: Flow, services: Services, control: WindowControl) -> tuple[WindowControl, Callable[[], None]]:
    """Return a control that carries groups after batches, and what to call at the window's end.

    What cannot be carried is logged and fails no batch: the next one tries again.
    """
    if not any(sink.kind == "kafka_mirror" for sink in flow.sinks) or not mirror_sink(flow).groups:
        return control, lambda: None
    sync, last = GroupSync(flow, services), [0.0]

    def carry() -> None:
        try:
            moved = sync.carry()
        except DatabusError as error:
            log.warning("mirror %s: consumer groups were not carried over: %s", flow.name, error)
        else:
            log.info("mirror %s: %d places of consumer groups carried over", flow.name, len(moved))
        last[0] = time.monotonic()

    def on_batch(report: BatchReport) -> None:
        control.on_batch(report)
        if time.monotonic() - last[0] >= _EVERY_S:
            carry()

    return replace(control, on_batch=on_batch), carry
