"""Exit codes, and the mapping of the error tree to them."""

from __future__ import annotations

from databus.cli.server.problems import ServerProblemError
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

OK, ERROR, USAGE, CONFLICT, UNREACHABLE, QUALITY, LAG, HELD, DIFFERS = range(9)

MEANINGS = (
    "Exit codes:",
    "0  all is well",
    "1  error, or what was looked at is not well",
    "2  wrong option, file or definition",
    "3  conflict: another run holds the lease, or the checkpoint has moved",
    "4  a server cannot be reached, or a sink is behind",
    "5  a check that must hold is violated",
    "6  lag of a flow exceeds --fail-over",
    "7  rows were moved; some are in quarantine, refused by a sink or lost to a gap",
    "8  a sink holds other rows than the source's tables",
)
"""Lines of help, one for each code."""

_CODES: tuple[tuple[tuple[type[DatabusError], ...], int], ...] = (
    ((LeaseBusyError, StaleEpochError, CheckpointConflictError), CONFLICT),
    ((SourceUnavailableError, SinkUnavailableError, CheckpointUnavailableError), UNREACHABLE),
    ((QualityGateError,), QUALITY),
    ((ConfigError, TraceQueryError), USAGE),
)


def exit_code_of_rows(*, missing: int, behind: int = 0) -> int:
    """Return the exit code of a command that moved rows and met no error.

    Args:
        missing: rows in quarantine by checks or refused by sinks, and gaps passed over: HELD, whatever else.
        behind: sinks that stand behind the others, and get the rest by themselves once they answer: UNREACHABLE.
    """
    return HELD if missing else UNREACHABLE if behind else OK


def exit_code(error: DatabusError) -> int:
    """Return the exit code of an error: 1 unless its kind has one of its own."""
    if isinstance(error, ServerProblemError):
        return error.exit_code
    if error.code.endswith("_unavailable"):
        return UNREACHABLE
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ERROR)
