"""Health of the search engines, which share their cluster API."""

from __future__ import annotations

from databus.sandbox.servers.http import get_json
from databus.sandbox.servers.protocol import Context, NotHealthyError


def check_cluster(context: Context) -> None:
    """The cluster is green or yellow (`GET /_cluster/health`), and the node answers at its root as clients expect.

    Raises:
        NotHealthyError: it is not.
    """
    port = context.ports["http"]
    health = get_json(context.host, port, "/_cluster/health")
    status = health.get("status") if isinstance(health, dict) else None
    if status not in {"green", "yellow"}:
        raise NotHealthyError(f"the cluster's status is {status}")
    root = get_json(context.host, port, "/")
    if "version" not in root:
        raise NotHealthyError("the node does not name its version")
