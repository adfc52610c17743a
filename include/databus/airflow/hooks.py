"""Airflow's view of a ZooKeeper connection: host, port, digest credentials, and `hosts` in extra for an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from databus.airflow.connections import AirflowConnections
from databus.core.findings import Level
from databus.core.settings import Settings
from databus.core.times import SystemClock

if TYPE_CHECKING:
    from databus.checkpoints.zookeeper import ZooKeeperCheckpoints


class ZooKeeperHook(BaseHook):
    """Gives the checkpoint store behind a connection, and the Test button of the connection form."""

    conn_name_attr = "conn_id"
    default_conn_name = "zookeeper_default"
    conn_type = "zookeeper"
    hook_name = "ZooKeeper"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Hide what ZooKeeper has no use for."""
        return {
            "hidden_fields": ["schema"],
            "relabeling": {"login": "Digest user", "password": "Digest password"},
            "placeholders": {
                "extra": '{"hosts": "zk1:2281,zk2:2281,zk3:2281", "use_ssl": true, "ca": "/etc/ssl/zookeeper-ca.pem"}'
            },
        }

    def get_conn(self) -> ZooKeeperCheckpoints:
        """Return the checkpoint store behind the connection; it connects at first use, the caller closes it."""
        from databus.checkpoints.nodes.large_values import LargeValues
        from databus.checkpoints.zookeeper import ZooKeeperCheckpoints

        settings = Settings.from_environment()
        large = LargeValues(settings.segment_store, settings.installation)
        return ZooKeeperCheckpoints(AirflowConnections().get(self.conn_id), SystemClock(), large)

    def test_connection(self) -> tuple[bool, str]:
        """Connect and list the flows."""
        with self.get_conn() as store:
            findings = store.preflight()
        return all(f.level is Level.OK for f in findings), "; ".join(f"{f.subject}: {f.message}" for f in findings)
