"""Errors that librdkafka's callbacks raise in the middle of a call, brought out as what they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

_SWALLOWED = "returned NULL without setting an exception"
"""Words of Python for a call that failed although its error is gone."""


@contextmanager
def fatal_error_raised() -> Iterator[None]:
    """Raise a client's fatal error, such as a fence, as itself, and let go of what was at work when it came.

    confluent-kafka sets it as an exception from a callback, and goes on with the callbacks that wait; the next one, a
    line for the log, then fails with "SystemError: … returned a result with an exception set", which hides it. Where
    that line's way through Python catches anything, as `isEnabledFor` does when it is asked of a level for the first
    time, the error is gone: it is raised as `_FATAL` then, and the producer has to be asked what it was.

    It also never frees what a callback raised (2.16): with its traceback each fence kept the producer, its threads and
    the rows that were written for as long as the process lived. So another exception is raised in its place. Where an
    exception is being handled already, the call belongs into a thread (`bounded`): it would be kept as the context.

    Raises:
        KafkaException: the error that was hidden; `_FATAL` where it is gone.
    """
    handled = sys.exc_info()[1]  # the context of whatever is raised below; not ours
    try:
        yield
    except (KafkaException, SystemError) as error:
        raised = list(_chain(error, handled))
        found = next((one for one in raised if isinstance(one, KafkaException)), None)
        if found is None and any(_SWALLOWED in str(one) for one in raised):
            found = KafkaException(KafkaError(KafkaError._FATAL, "a fatal error was swallowed", True))  # noqa: SLF001
        if found is None:
            raise
        for one in raised:
            one.__traceback__ = one.__cause__ = one.__context__ = None
        raise type(found)(*found.args) from None


def _chain(error: BaseException | None, until: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those behind it, up to one that was there before."""
    while error is not None and error is not until:
        yield error
        error = error.__cause__ or error.__context__
