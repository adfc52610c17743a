"""Routes of operators on one application: checkpoint, quarantine, accounts, snapshot, and their description."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from databus.web import accounts, checkpoints, problems, quarantine, snapshots
from databus.web.installation import Access, Installation

PREFIX = "/api/v1"


def add_operations(app: FastAPI, access: Access, installation: Installation) -> None:
    """Add the routes, problems as answers to errors, and the description of all routes behind the login.

    Args:
        app: the application.
        access: rights.
        installation: what the routes work on.
    """
    problems.install(app)
    for part in (checkpoints, quarantine, accounts, snapshots):
        app.include_router(part.router(access, installation), prefix=PREFIX, responses=problems.RESPONSES)
    described = APIRouter(prefix=PREFIX, tags=["description"], dependencies=[Depends(access.lists)])

    @described.get("/openapi.json")
    def openapi() -> dict[str, Any]:
        """This description."""
        return app.openapi()

    app.include_router(described)
