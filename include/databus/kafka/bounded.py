"""A call into librdkafka that must end, although librdkafka itself does not see to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

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
