"""Values that servers log before a statement: user variables, seeds, numbers; they say nothing without that statement.

Wire format: MySQL 8.0 source documentation, "Intvar_event" (kind u8: 1 last insert id, 2 insert id; value u64),
"Rand_event" (two seeds u64), "User_var_event" (length u32 and name, null u8; else kind u8, collation u32, length u32,
value, and since 5.6 flags u8).
"""

from __future__ import annotations

from databus.binlog.log.events import STATEMENT_TYPES, VALUE_TYPES, EventType, refuse
from databus.binlog.log.walk import WalkPlace

_BEFORE_VALUE = 9


class StatementValues:
    """Holds the values that wait for their statement: any other event behind them says that they are none."""

    def __init__(self, place: WalkPlace) -> None:
        """Begin with none.

        Args:
            place: the event that is settled.
        """
        self._place = place
        self._first: tuple[int, str] | None = None

    @property
    def waiting(self) -> bool:
        """Return whether a statement must come."""
        return self._first is not None

    def take(self, kind: int, body: bytes) -> None:
        """Take a value.

        Raises:
            DecodeError: it does not read as one.
        """
        where = str(self._place)
        if not _is_whole(kind, body):
            raise refuse(kind, where)
        self._first = self._first or (kind, where)

    def require_statement(self, kind: int) -> None:
        """Let an event pass that may follow values: a statement's, or another value.

        Raises:
            DecodeError: it is another, so nothing shows what the values are for.
        """
        if kind != EventType.QUERY and kind not in STATEMENT_TYPES:
            self.refuse()

    def refuse(self) -> None:
        """Refuse the values that wait, if any: their statement does not follow, or cannot be followed.

        Raises:
            DecodeError: some wait.
        """
        if self._first is not None:
            raise refuse(*self._first)

    def end(self) -> None:
        """Let them go: their statement has come."""
        self._first = None


def _is_whole(kind: int, body: bytes) -> bool:
    if kind == EventType.INTVAR:
        return len(body) == 9 and body[0] in (1, 2)
    if kind == EventType.RAND:
        return len(body) == 16
    null_at = 4 + int.from_bytes(body[:4], "little")
    if kind not in VALUE_TYPES or null_at == 4 or null_at >= len(body) or body[null_at] > 1:
        return False
    if body[null_at]:
        return len(body) == null_at + 1
    value_at = null_at + 1 + _BEFORE_VALUE
    end = value_at + int.from_bytes(body[value_at - 4 : value_at], "little")
    return value_at <= len(body) and end <= len(body) <= end + 1
