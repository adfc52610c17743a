"""Rows of a state topic, and its end, as changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from databus.consumer.change import WHOLE, Change, Message, Place
from databus.consumer.messages import TransactionMark, headers, read
from databus.consumer.progress import Progress, StateProgress
from databus.core.errors.consumer import MessageFormatError, StateTopicError
from databus.core.events import Op

if TYPE_CHECKING:
    from databus.consumer.registered import RegisteredValues


class StateEnd:
    """Stands where a partition's state is whole, in the place of a record.

    Args:
        place: partition of the topic of changes.
        behind: offset up to which its changes are in what was delivered.
    """

    def __init__(self, place: Place, behind: int):
        self._place, self._behind = place, behind

    def topic(self) -> str:
        """Return the topic of changes."""
        return self._place[0]

    def partition(self) -> int:
        """Return the partition."""
        return self._place[1]

    def offset(self) -> int:
        """Return the offset before which everything is delivered, less one."""
        return self._behind - 1

    def key(self) -> bytes | None:
        """Return None: it has no key."""
        return None

    def value(self) -> bytes | None:
        """Return None: it has no value."""
        return None

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Return None: it has no headers."""
        return None


def change_of(
    message: Message, progress: Progress, registered: RegisteredValues | None
) -> Change | TransactionMark | None:
    """Return what a record says in its place; None of what is passed over.

    Args:
        message: the record.
        progress: of its partition, or of the state topic's.
        registered: reads values in the wire format of a schema registry; None where there is none.

    Raises:
        MessageFormatError: it is in no known form.
        StateTopicError: a row of the state has no event id or no key.
    """
    found: Change | TransactionMark | None
    if isinstance(message, StateEnd):
        found = Change(message, WHOLE, "", None, None)
    elif isinstance(progress, StateProgress):
        found = _row(message, registered)
    elif progress.window is not None and progress.window.passes(message.key(), message.offset()):
        return None
    else:
        found = read(message, registered)
    if isinstance(found, Change):
        found.state = progress.state
    return found


def _row(message: Message, registered: RegisteredValues | None) -> Change | TransactionMark | None:
    if message.value() is None:  # a delete of which compaction has left the tombstone alone
        told = headers(message)
        change = Change(message, Op.DELETE, told.get("table", ""), None, None)
        change.event_id, change.gtid, change.position = (
            event_of(message),
            told.get("gtid", ""),
            told.get("position", ""),
        )
        change.ts_ms = int(told["ts_ms"]) if "ts_ms" in told else None
        if registered is not None and (key := message.key()) is not None and key[:1] == b"\0":
            try:
                change.set_key(registered.document(key))
            except ValueError as error:
                raise MessageFormatError(f"{change} has a key that cannot be read: {error}") from None
        return change
    found = read(message, registered)
    if isinstance(found, Change):
        if not found.deleted:
            found.op, found.before = Op.READ.value, None
        found.transaction, found.order = "", 0
    return found


def event_of(message: Message) -> str:
    """Return the event id of a record's header.

    Raises:
        StateTopicError: it has none.
    """
    for name, value in message.headers() or ():
        if name == "event_id" and value is not None:
            return value if isinstance(value, str) else value.decode()
    raise StateTopicError(
        f"{message.topic()}:{message.partition()}:{message.offset()} has no header event_id",
        hint='Let both sinks write it, as they do by default: headers=("event_id", "ts_ms").',
    )
