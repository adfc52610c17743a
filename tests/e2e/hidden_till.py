"""Airflow's simple auth manager, and a user from whom some DAGs are hidden, as a deployment's own manager may do."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

PREFIX = "till_"
OUTSIDER = "outsider"


class HiddenTill(SimpleAuthManager):
    """Refuses the outsider everything about the DAGs of the till."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **options: Any) -> bool:
        """Refuse the outsider, else ask the simple manager."""
        if user.username == OUTSIDER and details is not None and (details.id or "").startswith(PREFIX):
            return False
        return super().is_authorized_dag(user=user, details=details, **options)
