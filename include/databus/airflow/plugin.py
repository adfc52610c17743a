"""Airflow's plugin: the page of flows, the tab on a run, timetables, and modules loaded before Airflow forks.

It registers by the package's entry point (`airflow.plugins`), under one name: Airflow refuses a second plugin of the
same name on its first page, and a task's process reads no entry point that comes after one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

import databus.web
from databus.airflow.moved import require_airflow

require_airflow("databus's plugin")  # before a name is asked for that an older one lacks

from databus.airflow import preload  # noqa: E402
from databus.airflow.timetable import StaggeredTimetable  # noqa: E402
from databus.web.app import FirstUse, create_app  # noqa: E402

_BUNDLE = Path(databus.web.__file__).parent / "bundle"
_PREFIX = "/databus"


def _app() -> Any:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from fastapi import Depends

    who, may_list = Depends(get_user), Depends(requires_access_dag("GET"))

    def readable(user: Any = who, _listed: Any = may_list) -> set[str]:
        found: set[str] = get_auth_manager().get_authorized_dag_ids(user=user)
        return found

    return create_app(requires_access_dag("GET", DagAccessEntity.RUN), readable, _BUNDLE)


def _bundle_url() -> str:
    """Return the bundle's address with its hash, so that a browser takes a new one at once.

    Timetables and routes are there also where the pages were not built.
    """
    built = _BUNDLE / "main.js"
    version = hashlib.sha256(built.read_bytes()).hexdigest()[:12] if built.is_file() else "none"
    return f"{_PREFIX}/static/main.js?v={version}"


class DatabusPlugin(AirflowPlugin):
    """Mounts routes, adds the page and the tab, registers timetables, and listens for the start of Airflow's jobs."""

    name = "databus"
    timetables: ClassVar[list[Any]] = [StaggeredTimetable]
    listeners: ClassVar[list[Any]] = [preload]
    fastapi_apps: ClassVar[list[Any]] = [{"app": FirstUse(_app), "url_prefix": _PREFIX, "name": "Databus"}]
    react_apps: ClassVar[list[Any]] = [
        {
            "name": "Databus",
            "url_route": "databus-run",
            "bundle_url": _bundle_url(),
            "destination": "dag_run",
        },
        {
            "name": "Databus",
            "url_route": "databus",
            "bundle_url": _bundle_url(),
            "destination": "nav",
            "nav_top_level": True,
            "icon": f"{_PREFIX}/static/databus.svg",
            "icon_dark_mode": f"{_PREFIX}/static/databus-dark.svg",
        },
    ]
