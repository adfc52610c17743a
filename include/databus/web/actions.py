"""Actions of the API: JSON only, If-Match on a checkpoint's version, once per Idempotency-Key, in Airflow's log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.times import SystemClock
from databus.ops.checkpoint.amend import Attribution
from databus.records.actions import ActionAnswer, ActionRequest, Actions
from databus.records.store import RecordStore
from databus.runtime.context import Services
from databus.web.installation import Access, Installation
from databus.web.problems import refused

log = logging.getLogger(__name__)

ANY = "*"

_AGAIN_S = 1.0
"""Pause before the outcome of an action is stored again, in seconds: else a repeated request would act again."""

_DONE = (
    "What was asked for was done, and its answer could not be stored: look at `databus checkpoint history`, for held "
    "rows at `databus quarantine list`, before you ask for it once more."
)

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='Version of the checkpoint that was looked at, as ETag gave it, e.g. "41-19a3f"; * for any.',
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Names this request, e.g. a random UUID: sent twice it is done once. 1 to 200 characters.",
    ),
]


class ActionBody(BaseModel):
    """Body of an action."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=2000, description="Why, kept in the flow's history.")


@dataclass(frozen=True)
class ActionHeaders:
    """Headers of an action.

    Attributes:
        key: name of the request.
        seen: version of the checkpoint that was looked at; "" where any will do.
    """

    key: str
    seen: str


def require_json(request: Request) -> None:
    """Refuse a form that a page of another site could send with a person's cookies.

    Raises:
        RequestRefusedError: the body is no JSON, or the browser says that another site asks.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise refused(415, f"content type {kind or 'none'!r} is not taken", "Send application/json.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise refused(403, "a page of another site asks", "Ask from Airflow's own pages, or with a token.")


def headers(if_match: str | None, key: str | None, *, versioned: bool) -> ActionHeaders:
    """Return the headers of an action.

    Args:
        if_match: as it was sent, with its quotes.
        key: as it was sent.
        versioned: whether If-Match is needed.

    Raises:
        RequestRefusedError: one is missing or too long, or If-Match is empty, which is not *.
    """
    if not key or len(key) > 200 or not key.isprintable():
        raise refused(400, "no Idempotency-Key of 1 to 200 characters was sent", "Send a random UUID.")
    asked = ANY if if_match is None and not versioned else if_match or ""
    seen = asked.strip().removeprefix("W/").strip('"').strip()
    if not seen:
        raise refused(
            428, "no If-Match was sent, or an empty one", "Send the ETag of the checkpoint that you looked at, or *."
        )
    return ActionHeaders(key, "" if seen == ANY else seen)


@dataclass(frozen=True)
class ActionCall:
    """Action as it was asked for.

    Attributes:
        dag_id: DAG of the flow.
        name: what is to be done, e.g. "rewind".
        who: user.
        headers: key and version.
        asked: body of the request.
    """

    dag_id: str
    name: str
    who: str
    headers: ActionHeaders
    asked: BaseModel

    def said(self, what: str, *, consents: bool = False) -> Attribution:
        """Return who and why, for a use case."""
        reason = str(getattr(self.asked, "reason", ""))
        return Attribution(self.who, reason, consents, what, self.headers.seen)


Work = Callable[[Flow, Services], Mapping[str, Any]]
"""Body of an action; returns plain JSON."""


def act(installation: Installation, access: Access, call: ActionCall, work: Work) -> JSONResponse:
    """Do an action once, and answer what it did; a request that comes again gets the same answer.

    An error forgets the key: nothing was done, or doing it again is safe.

    Raises:
        DatabusError: what the use case raised; 409 where the same request is being done; 503 also where it was done and
            the records did not take its answer, which the hint says.
    """
    with installation.opened(call.dag_id) as (flow, services), RecordStore(services.settings.records_url) as store:
        actions, clock = Actions(store), SystemClock()
        asked = {"body": jsonable_encoder(call.asked), "seen": call.headers.seen}
        request = ActionRequest(flow.name, call.headers.key, call.who, call.name, asked)
        attempt, former = actions.begin(request, clock.now())
        if former is not None:
            return JSONResponse(former.body, former.status, {"Idempotent-Replayed": "true"})
        try:
            access.note(call.who, call.dag_id, f"databus_{call.name}", {"flow": flow.name, **asked["body"]})
            done = jsonable_encoder({"flow": flow.name, "action": call.name, "who": call.who, **work(flow, services)})
        except BaseException:
            with suppress(DatabusError):
                actions.drop(request, attempt)
            raise
        answer = ActionAnswer(200, done)
        try:
            actions.end(request, attempt, answer)
        except DatabusError:
            log.warning("flow %s: the answer of %s under key %r is stored once more", flow.name, call.name, request.key)
            time.sleep(_AGAIN_S)
            try:
                actions.end(request, attempt, answer)
            except DatabusError as error:
                error.hint, error.retryable = f"{_DONE} {error.hint}".strip(), False
                raise
    log.info("flow %s: %s by %s through the API", flow.name, call.name, call.who)
    return JSONResponse(done)
