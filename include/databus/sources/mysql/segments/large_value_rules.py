"""Large value rules: which values leave their row for the segment store; light: a split carries it to workers."""

from __future__ import annotations

from dataclasses import dataclass

LARGE_VALUE_OVER_BYTES = 15 << 20
"""Default limit of a row image: under the 16 MiB of a VARIANT, with room for what surrounds its values."""

MOST_BYTES = (16 << 20) - (256 << 10)
"""Highest limit that leaves a VARIANT room for numbers, times and the row's own structure."""


@dataclass(frozen=True)
class LargeValueRules:
    """Large value rules: when a row is too large, and where its largest values go.

    Attributes:
        root: the segment store.
        over_bytes: most bytes of values of variable length in one row image.
    """

    root: str
    over_bytes: int = LARGE_VALUE_OVER_BYTES
