"""Turns of two sides that move the same rows: their delays, what they lost, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from databus.bench.delays import Delays
from databus.bench.results import Bar
from databus.core.errors.batch import ReconciliationError

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class SideRun:
    """Turn of one side.

    Attributes:
        delays_s: ascending.
        rows: rows committed.
        rows_per_second: rate that the writer reached.
        lost: rows that never arrived.
        repeated: arrivals beyond the first of a row.
        cpu_seconds: of the side's processes during the turn, by name.
        slowest_s: second of sending, since the epoch → longest delay of its rows, for the slowest seconds.
    """

    delays_s: Sequence[float]
    rows: int
    rows_per_second: float
    lost: int
    repeated: int
    cpu_seconds: Mapping[str, float]
    slowest_s: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Delays, cpu_seconds: Mapping[str, float]) -> SideRun:
        """Return the turn in which a reader saw these delays."""
        slowest = sorted(found.by_second.items(), key=lambda item: -item[1])[:_SLOWEST]
        rows, seconds = found.written.rows, found.written.seconds
        return cls(found.delays_s, rows, rows / seconds, found.lost, found.repeated, cpu_seconds, dict(slowest))

    def told(self, who: str) -> str:
        """Return a line about it."""
        delays = " ".join(f"{name} {percentile(self.delays_s, share):.3f}" for name, share in SHARES.items())
        cost = " ".join(f"{name} {seconds:.1f}" for name, seconds in self.cpu_seconds.items())
        return (
            f"{who}: delay in seconds {delays} max {self.delays_s[-1]:.3f}; {self.rows_per_second:,.0f} rows/s were "
            f"written; CPU seconds: {cost}"
        )


_SLOWEST = 40


BARS = (Bar("p50_s", at_most=0.15), Bar("p99_s", at_most=1.0))


def bars(peer: str) -> tuple[Bar, ...]:
    """Return the bars of our delays, one of them beside those of a peer that promises as much."""
    return (*BARS, Bar(f"p50_to_{peer}", at_most=1.0))


def percentile(ascending: Sequence[float], share: float) -> float:
    """Return the value that this share does not exceed."""
    return ascending[int((len(ascending) - 1) * share)]


def require_once(turns: Sequence[SideRun]) -> None:
    """Judge our turns.

    Raises:
        ReconciliationError: a row was lost, or came twice.
    """
    for turn in turns:
        if turn.lost or turn.repeated:
            raise ReconciliationError(f"of {turn.rows} rows {turn.lost} were lost and {turn.repeated} came twice")


def compared(peer: str, ours: Sequence[SideRun], theirs: Sequence[SideRun]) -> dict[str, float]:
    """Return our figures, and the peer's with ratios where it had a turn."""
    figures = _figures("", ours)
    if theirs:
        figures |= _figures(f"{peer}_", theirs)
        figures |= {f"{name}_to_{peer}": figures[f"{name}_s"] / figures[f"{peer}_{name}_s"] for name in SHARES}
    return figures


def rounded(figures: Mapping[str, float]) -> dict[str, float]:
    """Return figures of four digits."""
    return {key: float(f"{value:.4g}") for key, value in figures.items()}


def details(turns: Sequence[SideRun]) -> list[dict[str, Any]]:
    """Return the turns without their single delays."""
    return [{k: v for k, v in asdict(turn).items() if k != "delays_s"} for turn in turns]


def _figures(prefix: str, turns: Sequence[SideRun]) -> dict[str, float]:
    together = sorted(delay for turn in turns for delay in turn.delays_s)
    if not together:
        return {}
    found = {f"{prefix}{name}_s": percentile(together, share) for name, share in SHARES.items()}
    found[f"{prefix}max_s"] = together[-1]
    cpu, rows = sum(sum(turn.cpu_seconds.values()) for turn in turns), sum(turn.rows for turn in turns)
    found[f"{prefix}cpu_seconds_per_1000_rows"] = cpu / rows * 1000
    return found
