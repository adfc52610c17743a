"""Process of a task: its log shows the flow's own lines, and it gives way to flows that move rows.

Airflow shows every library's INFO, some of which bury them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHATTY = ("great_expectations", "opensearch", "elastic_transport", "kazoo", "py4j", "pyspark")

BY = 5
"""Steps of niceness: a third of the weight of a window, so that work of some seconds still ends within a minute."""


def only_warnings_of_libraries() -> None:
    """Let the libraries that tasks use speak from WARNING on, unless a person has chosen a level for them."""
    for name in _CHATTY:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


@contextmanager
def giving_way() -> Iterator[None]:
    """Lower the priority of this thread, and of those that it starts, while the block runs.

    It stays lowered where the account may not raise it again; use it where a process ends with the work.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, before + BY)
    try:
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)
