"""Pace: how large the next batch may be, learned from how the sinks took the last one.

Multiplicative decrease and increase inside the flow's own bounds. The pace stands in the checkpoint, so that the next
run begins with it; a plan in flight keeps its range whatever the pace becomes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from databus.core.batches.receipts import WriteReceipt
from databus.core.batching import Batching

log = logging.getLogger(__name__)

LEAST_SHARE = 1 / 256
"""The smallest batch, as a share of the flow's bounds: what one batch costs at least would take over below it."""

SHRINK = 0.5
GROW = 1.5
_FILLED = 0.25
_QUICK = 0.5
"""A batch that takes less than this share of the target lets the next one grow."""


@dataclass(frozen=True)
class Effort:
    """Sink effort: how the sinks took a batch.

    Attributes:
        rows: row changes of the batch.
        bytes: log bytes of the batch.
        seconds: time in the sinks.
        turned_away: how often a sink asked for a slower pace meanwhile (429, 503, a full queue).
        retried: whether an earlier attempt of the batch failed.
    """

    rows: int
    bytes: int
    seconds: float
    turned_away: int = 0
    retried: bool = False


@dataclass(frozen=True)
class Pace:
    """Bounds of the next batch as a share of the flow's own.

    Attributes:
        share: 1 at full pace, LEAST_SHARE at least.
    """

    share: float = 1.0

    @classmethod
    def of(cls, stored: Mapping[str, int], batching: Batching) -> Pace:
        """Read what `to_json` gave; the flow's bounds may have changed since."""
        shares = [stored[name] / bound for name, bound in _bounds(batching).items() if name in stored]
        return cls(min(1.0, max(LEAST_SHARE, *shares))) if shares else cls()

    def to_json(self, batching: Batching) -> dict[str, int]:
        """Return the bounds of the next batch, nothing at full pace."""
        if self.share >= 1.0:
            return {}
        return {name: max(1, math.ceil(bound * self.share)) for name, bound in _bounds(batching).items()}

    def limit(self, batching: Batching) -> Batching:
        """Return the bounds of the next batch."""
        lowered = self.to_json(batching)
        if not lowered:
            return batching
        return batching.model_copy(update={"max_rows": lowered["rows"], "max_bytes": lowered["bytes"]})

    def after(self, effort: Effort, batching: Batching) -> Pace:
        """Return the pace after a batch.

        A batch that was turned away or retried halves it. One that took longer than `dispatch_seconds` lowers it to a
        half of the batch's own size, and further where the time says so, unless it filled little of its bounds: then
        rows were not what took the time. A quick one that filled its bounds lets it grow by half.
        """
        target_s = batching.dispatch_seconds
        size = min(self.share, max(effort.rows / batching.max_rows, effort.bytes / batching.max_bytes))
        if effort.seconds > target_s and size >= self.share * _FILLED:
            return Pace(max(LEAST_SHARE, size * min(SHRINK, target_s / effort.seconds)))
        if effort.turned_away or effort.retried:
            return Pace(max(LEAST_SHARE, self.share * SHRINK))
        if self.share < 1.0 and effort.seconds <= target_s * _QUICK and size >= self.share * SHRINK:
            return Pace(min(1.0, self.share * GROW))
        return self


def turned_away(receipts: Iterable[WriteReceipt]) -> int:
    """Return how often the sinks asked for a slower pace, as their receipts say (output "", fact `retries`)."""
    return sum(int(receipt.outputs.get("", {}).get("retries", 0)) for receipt in receipts)


def log_change(flow: str, before: Pace, after: Pace, effort: Effort, batching: Batching) -> None:
    """Say that batches become smaller or larger, and why."""
    if after.share == before.share:
        return
    bounds = after.to_json(batching) or _bounds(batching)
    if after.share < before.share:
        log.warning(
            "flow %s: the sinks took %.1f s for %d rows%s%s: the next batch has at most %d rows, %d bytes",
            flow, effort.seconds, effort.rows,
            f" and turned requests away {effort.turned_away} times" if effort.turned_away else "",
            ", at a repeated attempt" if effort.retried else "",
            bounds["rows"], bounds["bytes"],
        )  # fmt: skip
    else:
        log.info(
            "flow %s: the sinks keep up: the next batch has up to %d rows, %d bytes",
            flow,
            bounds["rows"],
            bounds["bytes"],
        )


def _bounds(batching: Batching) -> dict[str, int]:
    return {"rows": batching.max_rows, "bytes": batching.max_bytes}
