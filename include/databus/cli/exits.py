"""Exit codes: one mapping of the error tree to what a script sees."""

from __future__ import annotations

from databus.core.errors import (
    CheckpointConflictError,
    CheckpointUnavailableError,
    ConfigError,
    DatabusError,
    LeaseBusyError,
    QualityGateError,
    SinkUnavailableError,
    SourceUnavailableError,
    StaleEpochError,
)

OK, ERROR, USAGE, CONFLICT, UNREACHABLE, QUALITY, LAG = range(7)

_CODES: tuple[tuple[tuple[type[DatabusError], ...], int], ...] = (
    ((LeaseBusyError, StaleEpochError, CheckpointConflictError), CONFLICT),
    ((SourceUnavailableError, SinkUnavailableError, CheckpointUnavailableError), UNREACHABLE),
    ((QualityGateError,), QUALITY),
    ((ConfigError,), USAGE),
)


def exit_code(error: DatabusError) -> int:
    """Return the exit code of an error: 1 unless its kind has one of its own."""
    if error.code.endswith("_unavailable"):
        return UNREACHABLE
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ERROR)
