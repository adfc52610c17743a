"""Exit codes: one mapping of the error tree to what a script sees."""

from __future__ import annotations

from databus.core.errors.batch import QualityGateError
from databus.core.errors.checkpoint import (
    CheckpointConflictError,
    CheckpointUnavailableError,
    LeaseBusyError,
    StaleEpochError,
)
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkUnavailableError
from databus.core.errors.source import SourceUnavailableError
from databus.core.trace import TraceQueryError

OK, ERROR, USAGE, CONFLICT, UNREACHABLE, QUALITY, LAG, HELD = range(8)

MEANINGS = (
    "Exit codes: 0 all is well; 1 an error, or what was looked at is not well; 2 a wrong option, file or definition; "
    "3 somebody else holds it, or it has moved meanwhile; 4 a server is not to be reached, or a sink is behind; "
    "5 a check that must hold is violated; 6 a flow is further behind than --fail-over; "
    "7 rows were moved, and some were held back, refused by a sink or lost to a gap."
)

_CODES: tuple[tuple[tuple[type[DatabusError], ...], int], ...] = (
    ((LeaseBusyError, StaleEpochError, CheckpointConflictError), CONFLICT),
    ((SourceUnavailableError, SinkUnavailableError, CheckpointUnavailableError), UNREACHABLE),
    ((QualityGateError,), QUALITY),
    ((ConfigError, TraceQueryError), USAGE),
)


def exit_code_of_rows(*, missing: int, behind: int = 0) -> int:
    """Return the exit code of a command that moved rows and met no error.

    Args:
        missing: rows held back by checks or refused by sinks, and gaps passed over: HELD, whatever else.
        behind: sinks that stand behind the others, and get the rest by themselves once they answer: UNREACHABLE.
    """
    return HELD if missing else UNREACHABLE if behind else OK


def exit_code(error: DatabusError) -> int:
    """Return the exit code of an error: 1 unless its kind has one of its own."""
    if error.code.endswith("_unavailable"):
        return UNREACHABLE
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ERROR)
