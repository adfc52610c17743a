"""Routes of operators on one application, and their description behind the login."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from databus.web import (
    accounts,
    checkpoints,
    definitions,
    history_pages,
    looks,
    mirrors,
    problems,
    quarantine,
    snapshots,
)
from databus.web.installation import Access, Installation

PREFIX = "/api/v1"


def add_operations(app: FastAPI, access: Access, installation: Installation) -> None:
    """Add the routes, and the description of all routes behind the login.

    Args:
        app: the application.
        access: rights.
        installation: what the routes work on.
    """
    for part in (checkpoints, quarantine, accounts, snapshots, definitions, looks, history_pages, mirrors):
        app.include_router(part.router(access, installation), prefix=PREFIX, responses=problems.RESPONSES)
    described = APIRouter(prefix=PREFIX, tags=["description"], dependencies=[Depends(access.lists)])

    @described.get("/openapi.json")
    def openapi() -> dict[str, Any]:
        """This description."""
        return description(app)

    app.include_router(described)


def description(app: FastAPI) -> dict[str, Any]:
    """Return the description of all routes, with the schemas of their answers, made once."""
    from databus.web.answers.by_route import with_answers

    found: dict[str, Any] | None = getattr(app.state, "description", None)
    if found is None:
        found = app.state.description = with_answers(app.openapi(), PREFIX)
    return found
