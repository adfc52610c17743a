"""How long each stage of a batch took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

STAGES = ("plan", "read", "transform", "check", "dispatch", "commit", "record")
"""The path's stages in order; every list of stages follows it."""


@dataclass
class StageTimes:
    """Wall time per stage, in milliseconds, on the monotonic clock."""

    durations_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block; repeated blocks of one stage add up."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - started) * 1000
            self.durations_ms[name] = round(self.durations_ms.get(name, 0.0) + spent, 3)
