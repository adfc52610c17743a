"""Consumers that can always be closed, and calls into librdkafka that end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from databus.kafka.callbacks import fatal_error_raised


def bounded(call: Callable[[], Any], seconds: float) -> None:
    """Make a call in a thread of its own and wait for it.

    `send_offsets_to_transaction` ignores its own timeout (librdkafka issue 5456): after a cut it may wait for
    the group's coordinator for ever. A call that does not end goes on in its thread; its producer is of no more use.

    Args:
        call: what is to be done; its exception is raised here.
        seconds: how long to wait for it.

    Raises:
        KafkaException: _TIMED_OUT when the call did not end, else what it raised.
    """
    ended = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            with fatal_error_raised():
                call()
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    if not ended.wait(seconds):
        timed_out = KafkaError._TIMED_OUT  # noqa: SLF001 - the client's own name for it
        raise KafkaException(KafkaError(timed_out, f"the call did not end in {seconds:.0f} s"))
    if raised:
        raise raised[0]


log = logging.getLogger(__name__)

_CLOSE_WITHIN_S = 2.0


class GrouplessConsumer(Consumer):
    """A consumer that joins no group: it reads committed offsets, or partitions that it was assigned."""

    _left = False

    def close(self) -> None:
        """Close it, or leave it behind after two seconds; safe to call again.

        With the brokers gone librdkafka may look for the group's coordinator for ever (librdkafka issue 3740). There is
        no group to leave, so nobody misses what is not said.
        """
        if self._left:
            return  # the first call still goes on, and destroys it: two would destroy it twice
        try:
            bounded(super().close, _CLOSE_WITHIN_S)
        except KafkaException as error:
            self._left = True
            log.warning("a consumer is left behind: %s", error)
