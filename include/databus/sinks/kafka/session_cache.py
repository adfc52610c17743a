"""The sessions that a Python worker keeps from one batch to the next, one for each slot of a flow's sink."""

from __future__ import annotations

import atexit
import os

from databus.sinks.kafka.markers import MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session

_kept: dict[str, Session] = {}
_MAX_KEPT = 64
atexit.register(_kept.clear)  # clients are destroyed while the interpreter lives: librdkafka's threads call into it


def kept(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session | None:
    """Return the session that `take` would find kept, without taking it; None when it would open one."""
    session = _kept.get(key.transactional_id(slot))
    same = session is not None and session.pid == os.getpid() and session.settings == settings
    return session if same else None


def take(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session:
    """Return the kept session of a slot, or a new one; it is the caller's until `keep` or `discard`."""
    session = _kept.pop(key.transactional_id(slot), None)
    if session is not None and session.pid == os.getpid():  # a forked parent's is of no use here
        if session.settings == settings:
            session.kept = True
            return session
        session.discard()
    return Session(key, slot, settings)


def keep(session: Session) -> None:
    """Keep a session without an open transaction for the next batch of its slot."""
    while len(_kept) >= _MAX_KEPT:
        _kept.pop(next(iter(_kept))).discard()
    session.hurries = False
    _kept[session.key.transactional_id(session.slot)] = session
