"""Read lock over all tables, for the moment in which a view is opened where nothing else tells its place in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.errors.source import (
    SnapshotRefusedError,
    SourceAccessError,
    SourceError,
    SourceUnavailableError,
)
from databus.sources.mysql.snapshot.views.view_session import IDLE_S, ViewSession

log = logging.getLogger(__name__)

LOCK = "FLUSH TABLES WITH READ LOCK"

LONGEST_LOCK_WAIT_S = 5
"""The lock waits for running statements so long at most: all writers stand behind it meanwhile."""

LONG_STATEMENT_S = 2
"""Beside a statement that has run for so long the lock is not tried: when it is given up, the statement's tables stay
closed to all others until the statement ends. Told only to an account with PROCESS."""

_TIMED_OUT = "(MySQL error 1205)"
_LONGEST = (
    "SELECT MAX(TIME) FROM information_schema.PROCESSLIST "
    "WHERE COMMAND IN ('Query', 'Execute') AND USER <> 'system user' AND ID <> CONNECTION_ID()"
)


@contextmanager
def read_lock(session: ViewSession, why: str) -> Iterator[None]:
    """Hold every commit; the log says for how long, and why.

    Within, no transaction is between the log and its visibility: a commit that has begun is waited for. A view that is
    opened within stays open.

    Raises:
        SnapshotNotYetVisibleError: statements run for too long.
        SnapshotRefusedError: the account may not take the lock.
    """
    server = session.server
    _wait_for_statements(session)
    # A client that hangs under the lock loses it soon.
    session.set_timeouts(min(session.lock_wait_s, LONGEST_LOCK_WAIT_S), LONGEST_LOCK_WAIT_S)
    began = time.monotonic()
    try:
        server.query(LOCK)
    except SourceAccessError as error:
        raise _refused(session, error, why) from None
    except SourceUnavailableError as error:
        if _TIMED_OUT not in error.message:
            raise
        raise session.not_yet(f"{LOCK} was given up, for statements ran on") from None
    locked = time.monotonic()
    yield
    server.query("UNLOCK TABLES")
    unlocked = time.monotonic()
    session.set_timeouts(session.lock_wait_s, IDLE_S)
    log.info(
        "%s: a consistent view was opened under %s, for %s: it waited %.0f ms for running statements and held all "
        "commits for %.0f ms",
        session, LOCK, why, (locked - began) * 1e3, (unlocked - locked) * 1e3,
    )  # fmt: skip


def _wait_for_statements(session: ViewSession) -> None:
    while (longest_s := int(session.server.query(_LONGEST)[0][0] or 0)) >= LONG_STATEMENT_S:
        session.pause(0.2, f"{LOCK} was not tried, for a statement has run for {longest_s} s")


def _refused(session: ViewSession, error: SourceAccessError, why: str) -> SourceError:
    if session.flavor == "mariadb":
        refused = session.not_yet(f"{why}: whether they are committed already a view does not tell")
        refused.hint = (
            "A later checkpoint knows those that were prepared after this one. One that nobody will finish: XA COMMIT "
            "or XA ROLLBACK it; or GRANT RELOAD ON *.* TO the account, which then takes a short read lock."
        )
        return refused
    return SnapshotRefusedError(
        f"{session}: {why}, so a snapshot needs a short {LOCK} to know its place in the log, and the account may not: "
        f"{error.message}",
        hint="Turn GTIDs on (gtid_mode=ON), which needs no lock; or GRANT RELOAD ON *.* TO the account.",
    )
