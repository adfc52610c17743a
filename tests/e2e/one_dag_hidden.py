"""Airflow's simple auth manager with one DAG that nobody may see, as a deployment's own manager may have it."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

HIDDEN = "tab_hidden"


class OneDagHidden(SimpleAuthManager):
    """Refuses everything about the DAG `tab_hidden`."""

    def is_authorized_dag(self, *, details: Any = None, **options: Any) -> bool:
        """Refuse the hidden DAG, else ask the simple manager."""
        if details is not None and details.id == HIDDEN:
            return False
        return super().is_authorized_dag(details=details, **options)
