"""Actions of the API by the key of their request: one that comes twice is done once, and gets the same answer."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from databus.core.errors.checkpoint import ActionOpenError
from databus.core.errors.config import ConfigError
from databus.core.stored_form import canonical_json
from databus.records import tables as t
from databus.records.store import RecordStore

ABANDONED = timedelta(hours=1)
"""After so long without an answer an action is taken to be cut off, and the same request does it again."""


@dataclass(frozen=True)
class ActionRequest:
    """Action request of a flow.

    Attributes:
        flow: flow name.
        key: the sender's key: the same key is the same request, 1 to 200 characters.
        who: user.
        action: what is to be done, e.g. "rewind".
        asked: all that decides what is done; plain JSON.
    """

    flow: str
    key: str
    who: str
    action: str
    asked: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Digest of all that decides what is done, and of who asks."""
        said = {"who": self.who, "action": self.action, "asked": dict(self.asked)}
        return hashlib.sha256(canonical_json(said)).hexdigest()


@dataclass(frozen=True)
class ActionAnswer:
    """Answer to an action: its HTTP status and body."""

    status: int
    body: dict[str, Any]


class Actions:
    """Actions in the records store; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._taken_over: dict[str, tuple[str, datetime]] = {}

    def begin(self, request: ActionRequest, now: datetime) -> tuple[str, ActionAnswer | None]:
        """Take an action up, or return the answer that its key got before.

        Args:
            request: the request.
            now: the time, aware UTC.

        Returns:
            Name of this attempt, for `end`, and None; or "" and the former answer.

        Raises:
            ConfigError: the key stands for another request.
            ActionOpenError: the same request is being done just now.
        """
        attempt, c = secrets.token_hex(16), t.actions.c
        values = {
            "flow": request.flow, "key": request.key, "who": request.who, "action": request.action,
            "asked": request.digest, "attempt": attempt, "begun_at": now,
        }  # fmt: skip
        mine = (c.flow == request.flow) & (c.key == request.key)
        with self._store.transaction() as connection:
            connection.execute(self._store.upsert(t.actions, [values], ("flow", "key"), ()))
            found = connection.execute(sa.select(t.actions).where(mine)).mappings().one()
            if found["attempt"] == attempt:
                return attempt, None
            if found["asked"] != request.digest:
                raise ConfigError(
                    f"flow {request.flow}: key {request.key!r} stands for another request of {found['who']}",
                    hint="Give each action a key of its own, such as a random UUID.",
                    code="action_key_reused",
                )
            if found["status"] is not None:
                return "", ActionAnswer(found["status"], found["answer"] or {})
            if now - found["begun_at"] < ABANDONED:
                raise self._open(request, found["begun_at"])
            took = connection.execute(
                t.actions.update()
                .where(mine & (c.attempt == found["attempt"]) & c.status.is_(None))
                .values(attempt=attempt, begun_at=now)
            )
            if took.rowcount != 1:
                raise self._open(request, now)
            self._taken_over[attempt] = found["attempt"], found["begun_at"]
        return attempt, None

    def end(self, request: ActionRequest, attempt: str, answer: ActionAnswer) -> None:
        """Store the answer of an attempt; one that another attempt has taken over stores nothing."""
        c = t.actions.c
        mine = (c.flow == request.flow) & (c.key == request.key) & (c.attempt == attempt)
        with self._store.transaction() as connection:
            connection.execute(t.actions.update().where(mine).values(status=answer.status, answer=answer.body))

    def drop(self, request: ActionRequest, attempt: str) -> None:
        """Forget an attempt that changed nothing and may be repeated under the same key.

        What it took over is given back: the former attempt may still run, and its answer is stored then.
        """
        c = t.actions.c
        mine = (c.flow == request.flow) & (c.key == request.key) & (c.attempt == attempt) & c.status.is_(None)
        former = self._taken_over.get(attempt)
        forget = t.actions.update().values(attempt=former[0], begun_at=former[1]) if former else t.actions.delete()
        with self._store.transaction() as connection:
            connection.execute(forget.where(mine))

    @staticmethod
    def _open(request: ActionRequest, since: datetime) -> ActionOpenError:
        return ActionOpenError(
            f"flow {request.flow}: {request.action} under key {request.key!r} is being done since "
            f"{since.isoformat(timespec='seconds')}",
            hint="Repeat the request with the same key: it gets the answer once there is one.",
        )
