"""The text of dates that no calendar holds: what the server shows, in the ISO form in which temporal values travel."""

from __future__ import annotations

from databus.binlog.kernels import kinds as k
from databus.binlog.values.column_types import Column

_US = 1_000_000


def exception_text(column: Column, date: int, us: int) -> str:
    """Return the text of an impossible date.

    Args:
        column: the column, for its type and fractional digits.
        date: year · 10,000 + month · 100 + day.
        us: microseconds since midnight.
    """
    day = f"{date // 10_000:04d}-{date // 100 % 100:02d}-{date % 100:02d}"
    if column.kind == k.DATE:
        return day
    seconds, fraction = divmod(us, _US)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = column.meta if column.kind in (k.DATETIME, k.TIMESTAMP) else 0
    text = f"{day}T{clock}" + (f".{fraction:06d}"[: digits + 1] if digits else "")
    return text + "Z" if column.kind in (k.TIMESTAMP, k.OLD_TIMESTAMP) else text
