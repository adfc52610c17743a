"""Airflow's plugin: a tab on a run that shows what its batches read and wrote, and modules loaded before Airflow forks.

Airflow imports every file of this folder by its bare name: this is the only one, and its name is unique.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from databus.airflow import preload
from databus.web.app import FirstUse, create_app

_BUNDLE = Path(__file__).resolve().parent / "databus_ui"
_PREFIX = "/databus"


def _app() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag

    return create_app(requires_access_dag("GET", DagAccessEntity.RUN), _BUNDLE)


def _bundle_url() -> str:
    """Return the bundle's address with its hash, so that a browser takes a new one at once."""
    file = _BUNDLE / "main.js"
    version = hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else "none"
    return f"{_PREFIX}/static/main.js?v={version}"


class DatabusPlugin(AirflowPlugin):
    """Mounts the routes, adds the tab, and listens for the start of Airflow's jobs."""

    name = "databus"
    listeners: ClassVar[list[Any]] = [preload]
    fastapi_apps: ClassVar[list[Any]] = [{"app": FirstUse(_app), "url_prefix": _PREFIX, "name": "Databus"}]
    react_apps: ClassVar[list[Any]] = [
        {
            "name": "Databus",
            "url_route": "databus-run",
            "bundle_url": _bundle_url(),
            "destination": "dag_run",
        }
    ]
