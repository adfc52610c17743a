"""Lines that librdkafka logs, as lines of ours: at their level, and with the client that they are of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)

_CONNECTION = "FAIL"
"""librdkafka's facility of a connection that failed or broke, which it opens again by itself (rdkafka_broker.c)."""


@dataclass(frozen=True)
class ClientLog:
    """Logger of a client (its `logger`); without one, librdkafka writes to stderr itself.

    A connection that fails is logged at INFO: a good run has such, where a name stands for two addresses or a broker is
    restarted. Where none can be made, the call that needs it raises an error that says so.

    Attributes:
        client: which client it is, in words: connection, kind, and the id under which the brokers know it.
        redacted: takes secrets out of a text.
    """

    client: str
    redacted: Callable[[str], str]

    def log(self, level: int, _: str, facility: str, name: str, text: str) -> None:
        """Take one line, as confluent-kafka hands it over.

        Args:
            level: level of Python's logging.
            facility: what it is about, e.g. "FAIL" or "CONFWARN".
            name: librdkafka's own name of the client, e.g. "rdkafka#producer-1".
            text: the rest.
        """
        level = min(level, logging.INFO) if facility == _CONNECTION else level
        if log.isEnabledFor(level):
            log.log(level, "Kafka %s: %s", self.client, self.redacted(f"{facility}: {text} ({name})"))
