"""Retention of segments after their range was committed: a limit by age, by size, or both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from databus.core.errors.config import ConfigError

_PART = re.compile(r"^(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]+)$", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


class _SegmentAge(Protocol):
    @property
    def kept_at(self) -> float: ...

    @property
    def size_bytes(self) -> int: ...


A = TypeVar("A", bound=_SegmentAge)


@dataclass(frozen=True)
class KeepLimit:
    """Retention limit; nothing is kept when neither bound is given.

    Attributes:
        max_age_s: seconds since a segment was written; None for no bound.
        max_bytes: of all segments of one server; None for no bound.
    """

    max_age_s: float | None = None
    max_bytes: int | None = None

    @classmethod
    def parse(cls, text: str, setting: str = "DATABUS_SEGMENT_KEEP") -> KeepLimit:
        """Read "7d,50GB": an age (s, m, h, d, w), a size (KB, MB, GB, TB; KiB … TiB), or both; "" keeps nothing.

        Args:
            text: the limit.
            setting: where it was given, for the message.

        Raises:
            ConfigError: a part is neither, or one is given twice.
        """
        found: dict[str, float] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            match = _PART.match(part)
            unit = match["unit"].lower() if match else ""
            name = "max_age_s" if unit in _SECONDS else "max_bytes" if unit in _BYTES else ""
            if match is None or not name or name in found:
                raise ConfigError(
                    f"{setting}={text!r}: {part!r} is neither an age nor a size, or one too many",
                    hint='Write an age, a size or both: "7d", "50GB", "7d,50GB".',
                )
            found[name] = float(match["number"]) * {**_SECONDS, **_BYTES}[unit]
        size = found.get("max_bytes")
        return cls(found.get("max_age_s"), None if size is None else int(size))

    def __bool__(self) -> bool:
        """Return whether anything is kept at all."""
        return self.max_age_s is not None or self.max_bytes is not None

    def surplus(self, kept: Iterable[A], now: float) -> Sequence[A]:
        """Return what has to go, oldest first.

        Args:
            kept: segments with the time they were written, in seconds since the epoch.
            now: the same clock.
        """
        by_age = sorted(kept, key=lambda segment: segment.kept_at)
        total, gone = sum(segment.size_bytes for segment in by_age), []
        for segment in by_age:
            too_old = self.max_age_s is not None and now - segment.kept_at > self.max_age_s
            too_much = self.max_bytes is not None and total > self.max_bytes
            if not self or too_old or too_much:
                gone.append(segment)
                total -= segment.size_bytes
        return gone
