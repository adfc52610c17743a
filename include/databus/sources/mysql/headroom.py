"""Retention headroom: how long a server will still keep what a flow needs next.

Servers delete whole files: those last written longer ago than binlog_expire_logs_seconds (MySQL Reference Manual,
"Binary Logging Options and Variables"; MariaDB: the same, or expire_logs_days), never the newest.
"""

from __future__ import annotations

from collections.abc import Callable

from databus.core.findings import Finding, Level
from databus.core.positions.lag import Headroom
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.server import MysqlServer, ServerLogFile

_VARIABLES = ("binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge")


def headroom(
    server: MysqlServer, offset: BinlogOffset, begun_s: Callable[[ServerLogFile], int], warning_s: int
) -> Headroom | None:
    """Measure the headroom of a place of this server's log; None when its file is not there.

    Args:
        server: the server.
        offset: where the flow stands.
        begun_s: returns when a file was begun, in seconds of the epoch: then the one before it was last written.
        warning_s: below so many seconds, or half of the retention where that is less, the headroom is low.
    """
    files = sorted(server.log_files(), key=lambda file: file.number)
    number = next((n for n, file in enumerate(files) if file.name == offset.file), None)
    if number is None:
        return None
    kept_s = retention_s(server.variables(*_VARIABLES))
    before = sum(file.size_bytes for file in files[:number]) + offset.pos
    seconds: float | None = None
    if kept_s is not None:
        closed_s = begun_s(files[number + 1]) if number + 1 < len(files) else None
        age_s = 0.0 if closed_s is None else server.now().timestamp() - closed_s
        seconds = max(0.0, kept_s - age_s)
    low = seconds is not None and kept_s is not None and seconds < min(warning_s, kept_s / 2)
    return Headroom(seconds, before, offset.file, kept_s, low=low)


def headroom_finding(subject: str, room: Headroom) -> Finding:
    """Return what a preflight says of a headroom."""
    if not room.low:
        return Finding(f"{subject}: headroom", Level.OK, str(room))
    hint = "Run the flow, or raise binlog_expire_logs_seconds, before the server deletes it."
    return Finding(f"{subject}: headroom", Level.WARN, str(room), hint, "source_headroom")


def retention_s(settings: dict[str, str]) -> int | None:
    """Return after how many seconds the server deletes a log file, None for never."""
    if settings.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
        return None
    seconds = int(settings.get("binlog_expire_logs_seconds", "0") or 0)
    return seconds or int(float(settings.get("expire_logs_days", "0") or 0) * 86400) or None
