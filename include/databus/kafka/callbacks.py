"""Errors that librdkafka's callbacks raise in the middle of a call, brought out as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException


@contextmanager
def fatal_error_raised() -> Iterator[None]:
    """Raise a client's fatal error, such as a fence, as itself.

    confluent-kafka sets it as an exception from a callback, and goes on with the callbacks that wait; the next one, a
    line for the log, then fails with "SystemError: … returned a result with an exception set", which hides it.

    Raises:
        KafkaException: the error that was hidden.
    """
    try:
        yield
    except SystemError as error:
        hidden: BaseException | None = error
        while hidden is not None and not isinstance(hidden, KafkaException):
            hidden = hidden.__cause__ or hidden.__context__
        if hidden is None:
            raise
        raise hidden from None
