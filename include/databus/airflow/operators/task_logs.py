"""What a task's log is for: the flow's own lines. Airflow shows every library's INFO, some of which bury them."""

from __future__ import annotations

import logging

_CHATTY = ("great_expectations", "opensearch", "elastic_transport", "kazoo", "py4j", "pyspark")


def only_warnings_of_libraries() -> None:
    """Let the libraries that tasks use speak from WARNING on, unless a person has chosen a level for them."""
    for name in _CHATTY:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
