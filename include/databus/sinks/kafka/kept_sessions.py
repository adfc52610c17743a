"""The sessions that a Python worker keeps from one batch to the next, one for each slot of a flow's sink."""

from __future__ import annotations

import os

from databus.sinks.kafka.markers import MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session

_kept: dict[str, Session] = {}
_MAX_KEPT = 64
# Sessions of a forked parent: their threads do not exist here, so destroying them would wait for ever.
_inherited: list[Session] = []


def kept(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session | None:
    """Return the session that `take` would find kept, without taking it; None when it would open one."""
    session = _kept.get(key.transactional_id(slot))
    same = session is not None and session.pid == os.getpid() and session.settings == settings
    return session if same else None


def take(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session:
    """Return the kept session of a slot, or a new one; it is the caller's until `keep` or `discard`."""
    session = _kept.pop(key.transactional_id(slot), None)
    if session is None:
        return Session(key, slot, settings)
    if session.pid != os.getpid():
        _inherited.append(session)
    elif session.settings == settings:
        session.kept = True
        return session
    else:
        session.discard()
    return Session(key, slot, settings)


def keep(session: Session) -> None:
    """Keep a session without an open transaction for the next batch of its slot."""
    while len(_kept) >= _MAX_KEPT:
        _kept.pop(next(iter(_kept))).discard()
    session.hurries = False
    _kept[session.key.transactional_id(session.slot)] = session
