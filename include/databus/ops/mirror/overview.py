"""Mirrors at a glance: between which clusters each copies, how far it is behind, and which groups it follows."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.positions.lag import PartitionLag
from databus.ops.health.lag import measure_partitions
from databus.ops.health.raised_alerts import raised_alerts
from databus.ops.mirror.consumer_groups import names_of
from databus.ops.mirror.heartbeats import newest_heartbeat
from databus.ops.mirror.translate import mirror_sink
from databus.runtime.context import Services

if TYPE_CHECKING:
    from collections.abc import Callable

    from databus.sinks.kafka_mirror.spec import MirrorTopics

    Found = TypeVar("Found")

_WORST = 10
"""Partitions that are named, those furthest behind."""

_MISSING = 20
"""Groups that are named."""


def is_mirror(flow: Flow) -> bool:
    """Return whether a flow is a mirror."""
    return any(sink.kind == "kafka_mirror" for sink in flow.sinks)


def mirror_listed(flow: Flow) -> dict[str, Any]:
    """Return plain JSON of a mirror as its DAG file defines it; `from` and `to` are connections of clusters.

    Raises:
        ConfigError: the flow is no mirror.
    """
    spec = mirror_sink(flow)
    return {
        "flow": flow.name,
        "from": spec.source_conn_id,
        "to": spec.conn_id,
        "topics": list(spec.topics),
        "exclude_topics": list(spec.exclude_topics),
        "groups": list(spec.groups),
        "partner": spec.partner or None,
        "heartbeat_seconds": spec.heartbeat_s,
    }


def mirror_state(flow: Flow, services: Services) -> dict[str, Any]:
    """Return plain JSON of how a mirror stands now; asks both clusters.

    A cluster that does not answer takes nothing else away: `problems` names it, and what it would have told is null.

    Raises:
        ConfigError: the flow is no mirror.
        CheckpointError: ZooKeeper does not answer.
    """
    spec, problems = mirror_sink(flow), list[dict[str, Any]]()

    def asked(of: str, ask: Callable[[], Found]) -> Found | None:
        try:
            return ask()
        except DatabusError as error:
            problems.append({"of": of, "code": error.code, "message": error.message, "hint": error.hint})
            return None

    checkpoint, paused = services.store.load(flow.name), services.store.paused(flow.name)
    alerts = raised_alerts(flow, services.connections, services.settings, every=False) if flow.alerts else []
    found = asked("lag", lambda: measure_partitions(flow, services))
    heartbeat = asked("heartbeat", lambda: _heartbeat(flow, services)) if spec.heartbeat_s is not None else None
    # A cluster that is away is waited for once.
    groups = asked("groups", lambda: _groups(spec, services)) if spec.groups and not problems else None
    return {
        "flow": flow.name,
        "as_of": services.clock.now().isoformat(),
        "batch": checkpoint.batch if checkpoint else None,
        "updated_at": checkpoint.updated_at.isoformat() if checkpoint else None,
        "paused": str(paused) if paused else None,
        "alerts": [{"alert": one["alert"], "since": one["since"]} for one in alerts if one["on"]],
        "lag": None if found is None else lag_of_all(found, spec),
        "heartbeat": heartbeat,
        "groups": groups,
        "problems": problems,
    }


def lag_of_all(found: Iterable[PartitionLag], spec: MirrorTopics) -> dict[str, Any]:
    """Return plain JSON of the lag over all partitions: sums, the oldest record that waits, the partitions behind most.

    `seconds` is 0 where nothing waits, and null where something does whose age nobody knows.
    """
    each = sorted(
        found, key=lambda one: (-(one.seconds or 0.0), -one.records, -one.held_back, one.topic, one.partition)
    )
    behind = [one for one in each if one.records or one.held_back]
    ages = [one.seconds for one in behind if one.records]
    known = [age for age in ages if age is not None]
    return {
        "partitions": len(each),
        "behind": len(behind),
        "records": sum(one.records for one in each),
        "held_back": sum(one.held_back for one in each),
        "seconds": max(known) if known else (None if ages else 0.0),
        "worst": [{**vars(one), "target": spec.target(one.topic)} for one in behind[:_WORST]],
    }


def groups_of(there: Iterable[str], here: Iterable[str], patterns: Iterable[str]) -> dict[str, Any]:
    """Return plain JSON of the groups that a mirror follows: how many, and which the target does not have.

    A group that has committed nothing of the mirrored topics is never carried.

    Args:
        there: groups of the source.
        here: groups of the target.
        patterns: the mirror's option `groups`.
    """
    wanted = tuple(patterns)
    followed = sorted(name for name in there if any(fnmatchcase(name, pattern) for pattern in wanted))
    missing = sorted(set(followed) - set(here))
    return {"followed": len(followed), "on_target": len(followed) - len(missing), "missing": missing[:_MISSING]}


def _groups(spec: MirrorTopics, services: Services) -> dict[str, Any]:
    there, here = (names_of(conn_id, spec, services) for conn_id in (spec.source_conn_id, spec.conn_id))
    return groups_of(there, here, spec.groups)


def _heartbeat(flow: Flow, services: Services) -> dict[str, Any]:
    seen = newest_heartbeat(flow, services)
    return {"written_at": seen.written_at.isoformat() if seen.written_at else None, "age_seconds": seen.age_s}
