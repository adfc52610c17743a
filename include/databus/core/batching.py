"""How much a micro-batch may hold."""

from __future__ import annotations

from pydantic import Field

from databus.core.spec import Spec


class Batching(Spec):
    """Bounds of one micro-batch.

    Attributes:
        max_rows: a batch ends at the first transaction boundary after this many row changes.
        max_bytes: … or after this many log bytes.
        max_seconds: … or after the dump has waited this long for the log to grow.
        dispatch_seconds: what a batch may take in its sinks. One that takes longer or is turned away meanwhile makes
            the next ones smaller, down to 1/256 of the bounds above; they grow again when the sinks keep up.
    """

    max_rows: int = Field(200_000, gt=0)
    max_bytes: int = Field(256 << 20, gt=0)
    max_seconds: float = Field(5.0, gt=0)
    dispatch_seconds: float = Field(30.0, gt=0)
