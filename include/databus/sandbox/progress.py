"""Progress events of the sandbox; the command line draws them, tests collect them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

logger = logging.getLogger(__name__)


class ProgressStep(StrEnum):
    """The steps of a server's way up or down, in order."""

    INSTALL = "install"
    PREPARE = "prepare"
    START = "start"
    WAIT = "wait"
    READY = "ready"
    FAILED = "failed"
    STOP = "stop"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ProgressEvent:
    """Progress event of one server.

    Attributes:
        server: name of the server.
        step: where it stands.
        detail: a few words for a person: the file being downloaded, the address that answers.
        done: units done so far (downloaded files), where that is known.
        total: units in all, where that is known.
    """

    server: str
    step: ProgressStep
    detail: str = ""
    done: int | None = None
    total: int | None = None


Progress = Callable[[ProgressEvent], None]
"""Called from the threads that start servers, one call at a time per server; must not block for long."""


def log_progress(event: ProgressEvent) -> None:
    """Write the event to the log: the default where nobody draws a bar."""
    logger.debug("%s %s %s", event.server, event.step.value, event.detail)
