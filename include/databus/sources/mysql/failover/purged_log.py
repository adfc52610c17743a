"""Purged log: what a server deleted from its log that a flow still needed, said exactly."""

from __future__ import annotations

from dataclasses import replace

from databus.core.errors.source import OffsetPurgedError
from databus.core.positions.gtid import MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset, OffsetRange

_CHOICES = (
    "Nothing was moved. Choose: `databus checkpoint skip {flow} --past-gap --repair --reason … --execute` passes over "
    "the range and mends it: the flow's tables are read anew (without --repair it is named as a gap, no more); or read "
    "it from another server that still has it, by pointing the connection there. Raise binlog_expire_logs_seconds. Was "
    "the log begun anew meanwhile (RESET MASTER, a restored copy)? What is left of it does not show it once it has "
    "come past the flow's place: then take --new-log instead of --past-gap (docs/runbooks/log-replaced.md)."
)


_CHOICES_AT_START = (
    "Nothing was moved, and the flow has no place that a skip could pass over from: let `start` of its source name one "
    'that the server still has, such as start="earliest"; or read from another server that still has the log, by '
    "pointing the connection there. Raise binlog_expire_logs_seconds."
)


def purged_at_start(error: OffsetPurgedError) -> OffsetPurgedError:
    """Return the error with what can be done where the place that is gone is a flow's `start`, not its checkpoint."""
    told = OffsetPurgedError(error.message, hint=_CHOICES_AT_START, code=error.code, retryable=error.retryable)
    told.missing = error.missing
    return told


def purged(place: str, offset: BinlogOffset, first: BinlogOffset, flow: str) -> OffsetPurgedError:
    """Return the error for an offset whose log is gone, with the missing range.

    Args:
        place: the server, for the message.
        offset: where reading had to go on.
        first: the first place that can still be read, of the same server.
        flow: who reads, for the hint.
    """
    # XA transactions that were pending before the gap may be resolved behind it: they stay pending.
    end = replace(first.counted_as(offset), prepared=offset.prepared)
    error = OffsetPurgedError(
        f"{place}: the log from {offset} to {first} was deleted from the server{_transactions(offset, first)}",
        hint=_CHOICES.format(flow=flow.partition(".")[0]),
    )
    error.missing = OffsetRange(offset, end)
    return error


def _transactions(offset: BinlogOffset, first: BinlogOffset) -> str:
    """Name the transactions in between where both places know their GTIDs."""
    if not offset.gtids or not first.gtids:
        return ""
    if offset.same_gtids(first):
        return "; by GTID no transaction is missing"
    if offset.flavor == "mysql":
        return f"; missing are {MysqlGtidSet.parse(first.gtids).minus(MysqlGtidSet.parse(offset.gtids))}"
    return f"; missing is what lies between the GTID positions {offset.gtids} and {first.gtids}"
