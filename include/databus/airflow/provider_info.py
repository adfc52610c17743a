"""Provider metadata for Airflow's provider manager: the connection type that this package adds."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description; must import nothing heavy."""
    return {
        "package-name": "databus",
        "name": "Databus",
        "description": "Change data capture flows: MySQL binlog to Kafka and search, scheduled by Airflow.",
        "connection-types": [
            {
                "connection-type": "zookeeper",
                "hook-class-name": "databus.airflow.hooks.ZooKeeperHook",
                "hook-name": "ZooKeeper",
            }
        ],
    }
