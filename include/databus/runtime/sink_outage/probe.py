"""A probe: asks a sink that is away, in a thread of its own, until it answers again."""

from __future__ import annotations

import logging
import threading

from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkBackpressureError, SinkUnavailableError
from databus.core.findings import Finding, Level
from databus.core.protocols.sink import Sink

log = logging.getLogger(__name__)

PAUSE_S = 2.0
_CLOSE_WAIT_S = 2.0
AWAY = frozenset({SinkUnavailableError.code, SinkBackpressureError.code})
"""Codes of an outage of one sink, which stops that sink alone (ADR 16)."""


class Probe:
    """Asks one sink by its preflight, over a client of its own, every few seconds."""

    def __init__(self, flow: str, name: str, sink: Sink, first_pause_s: float = 0.0):
        """Start asking after `first_pause_s`; `sink` is the probe's own and is closed by it."""
        self.reachable = False
        self._looked = threading.Event()
        self._stop = threading.Event()
        self._flow, self._name, self._sink = flow, name, sink
        self._first_pause_s = first_pause_s
        self._thread = threading.Thread(target=self._ask, name=f"databus-probe-{name}", daemon=True)
        self._thread.start()

    def first_answer(self, wait_s: float) -> bool:
        """Wait up to `wait_s` for the first answer or the lack of one; return whether the sink is reachable."""
        self._looked.wait(wait_s)
        return self.reachable

    def close(self) -> None:
        """Stop asking; a question in hand is waited for a moment, then it ends by its own time limit. Safe twice."""
        self._stop.set()
        self._thread.join(_CLOSE_WAIT_S)

    def _ask(self) -> None:
        try:
            self._stop.wait(self._first_pause_s)
            while not self._stop.is_set():
                findings = self._findings()
                away = [f for f in findings if f.level is Level.ERROR and f.code in AWAY]
                if not away:
                    log.info("flow %s: sink %s answers again", self._flow, self._name)
                    self.reachable = True
                    return
                log.debug("flow %s: sink %s is still away: %s", self._flow, self._name, away[0].message)
                self._looked.set()
                self._stop.wait(PAUSE_S)
        finally:
            self._looked.set()
            self._sink.close()

    def _findings(self) -> list[Finding]:
        try:
            return list(self._sink.preflight())
        except DatabusError as error:
            return [Finding.of(self._name, error)]
