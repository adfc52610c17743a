"""Airflow's plugin: pages of flows and traces, tabs on DAGs and runs, timetables, and modules loaded before it forks.

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
from databus.airflow.connections import ServerConnections  # noqa: E402
from databus.airflow.timetable import StaggeredTimetable  # noqa: E402
from databus.web.app import FirstUse, create_app  # noqa: E402
from databus.web.flow_page import add_flow_page  # noqa: E402
from databus.web.trace_page import add_trace_page  # noqa: E402

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

    from functools import partial

    from databus.airflow.api import access, installation
    from databus.web.operations import add_operations

    seeing = requires_access_dag("GET", DagAccessEntity.RUN)
    operations = partial(add_operations, access=access(readable), installation=installation())
    app = create_app(seeing, readable, _BUNDLE, operations)
    add_flow_page(app, seeing)
    add_trace_page(app, readable, requires_access_dag("PUT"), ServerConnections())
    return app


def _bundle_url() -> str:
    """Return the bundle's address with its hash, so that a browser takes a new one at once.

    Timetables and routes are there also where the pages were not built.
    """
    built = _BUNDLE / "main.js"
    version = hashlib.sha256(built.read_bytes()).hexdigest()[:12] if built.is_file() else "none"
    return f"{_PREFIX}/static/main.js?v={version}"


def _page(name: str, route: str, destination: str, **others: Any) -> dict[str, Any]:
    # Airflow takes what the bundle leaves under its name: one that was loaded before leaves nothing again.
    url = _bundle_url() if name == "Databus" else f"{_bundle_url()}&for={route}"
    return {"name": name, "url_route": route, "bundle_url": url, "destination": destination, **others}


class DatabusPlugin(AirflowPlugin):
    """Mounts routes, adds the pages and the tabs, registers timetables, and listens for the start of Airflow's jobs."""

    name = "databus"
    timetables: ClassVar[list[Any]] = [StaggeredTimetable]
    listeners: ClassVar[list[Any]] = [preload]
    fastapi_apps: ClassVar[list[Any]] = [{"app": FirstUse(_app), "url_prefix": _PREFIX, "name": "Databus"}]
    react_apps: ClassVar[list[Any]] = [
        _page("Databus", "databus-run", "dag_run"),
        _page("Databus", "databus-flow", "dag"),
        _page("Checkpoint", "databus-checkpoint", "dag"),
        _page("Quarantine", "databus-quarantine", "dag"),
        _page("Databus trace", "databus-trace", "nav", category="browse"),
        _page("Databus mirrors", "databus-mirrors", "nav", category="browse"),
        _page("Databus audit", "databus-audit", "nav", category="browse"),
        _page("Databus flows", "databus-strip", "dashboard"),
        _page(
            "Databus", "databus", "nav", nav_top_level=True, icon=f"{_PREFIX}/static/databus.svg",
            icon_dark_mode=f"{_PREFIX}/static/databus-dark.svg",
        ),
    ]  # fmt: skip
