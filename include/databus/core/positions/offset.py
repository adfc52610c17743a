"""Protocol of offsets: a place in a source's log, of any kind."""

from __future__ import annotations

import enum
from typing import Any, Protocol, runtime_checkable


class Ordering(enum.Enum):
    """How one offset lies to another."""

    BEFORE = "before"
    EQUAL = "equal"
    AFTER = "after"
    DIVERGED = "diverged"


@runtime_checkable
class Offset(Protocol):
    """A place in a source's log.

    Another package's class is found by its kind (`offset_kinds`) and has the classmethod
    `from_json(data: Mapping[str, Any])`, which reads what `to_json` wrote. Its `str()` is the place as people read it:
    the same text in every process. It has no `__bool__` and no `__len__`: an offset is never false.
    """

    @property
    def kind(self) -> str:
        """Registry name of this kind of offset."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with the key `kind`; a checkpoint holds it as it is."""
        ...

    def compare(self, other: Offset) -> Ordering:
        """Say where this offset lies as seen from the other; DIVERGED when they cannot be ordered."""
        ...
