"""Checkpoints of many flows at once, by one session for each ZooKeeper; one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.ops.checkpoint.show import show
from databus.ops.checkpoint.version import version_of
from databus.ops.services import open_services
from databus.runtime.context import Services


@dataclass(frozen=True)
class CheckpointLook:
    """Look at the checkpoint of one flow.

    Attributes:
        facts: what `databus checkpoint show` says of it; None where it could not be read.
        version: its version, "" where it could not be read.
        error: why not.
    """

    facts: dict[str, Any] | None
    version: str = ""
    error: DatabusError | None = None


def checkpoints_of(flows: Sequence[Flow], connections: ConnectionSource) -> list[CheckpointLook]:
    """Return a look at each flow, in their order; a ZooKeeper that is away is waited for once."""
    found: dict[int, CheckpointLook] = {}
    by_server: dict[str, list[int]] = {}
    for place, flow in enumerate(flows):
        by_server.setdefault(flow.zookeeper_conn_id, []).append(place)
    for places in by_server.values():
        try:
            with open_services(flows[places[0]], connections, records=False) as services:
                found |= {place: _look(flows[place], services) for place in places}
        except DatabusError as error:
            found |= {place: CheckpointLook(None, error=error) for place in places if place not in found}
    return [found[place] for place in range(len(flows))]


def _look(flow: Flow, services: Services) -> CheckpointLook:
    try:
        version = version_of(flow.name, services.store)
        return CheckpointLook(show(flow, services).to_json(), version)
    except DatabusError as error:
        return CheckpointLook(None, error=error)
