"""Freshness of each of many flows and of each class: delays of rows by flow, the worst flow by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.bench.airflow.metadata import percentile
from databus.bench.turns import SHARES


@dataclass
class FlowRows:
    """Rows of a flow, and when they were read.

    Attributes:
        sent: rows written; their numbers are 1 to `sent`.
        delays_s: row number → seconds from just before it was sent until it was read.
        repeated: arrivals beyond the first of a row.
    """

    sent: int = 0
    delays_s: dict[int, float] = field(default_factory=dict)
    repeated: int = 0

    def arrived(self, number: int, delay_s: float) -> None:
        """Note a row that was read."""
        if number in self.delays_s:
            self.repeated += 1
        else:
            self.delays_s[number] = delay_s

    @property
    def missing(self) -> int:
        """Rows that were sent and not read yet."""
        return self.sent - len(self.delays_s)

    def to_json(self) -> dict[str, Any]:
        """Return the flow's line of the table; a flow of which nothing was read has no delays."""
        delays = sorted(self.delays_s.values())
        found = {"p50_s": round(percentile(delays, 0.5), 3), "max_s": round(delays[-1], 3)} if delays else {}
        return {"sent": self.sent, "arrived": len(delays), **found}


@dataclass(frozen=True)
class FlowClass:
    """Flows of a mode, which get rows at one pace.

    Attributes:
        mode: "live" or "economy".
        every_s: seconds from one row of a flow to its next.
        flows: name → its rows.
    """

    mode: str
    every_s: float
    flows: Mapping[str, FlowRows]

    def due(self, seconds: float) -> list[tuple[float, str]]:
        """Return when the first row of each flow is to be written, in a run of so many seconds; all are within it."""
        first = min(self.every_s, seconds)
        return [(first * (n + 0.5) / len(self.flows), name) for n, name in enumerate(self.flows)]

    def figures(self) -> dict[str, float]:
        """Return the class's delays over all rows, and the median of its worst flow; counts alone if nothing was read.

        The worst flow of all by its slowest row is the class's maximum.
        """
        rows = self.flows.values()
        found: dict[str, float] = {
            f"{self.mode}_rows": sum(len(flow.delays_s) for flow in rows),
            f"{self.mode}_flows_without_row": sum(not flow.delays_s for flow in rows),
        }
        if delays := sorted(delay for flow in rows for delay in flow.delays_s.values()):
            found |= {f"{self.mode}_{name}_s": percentile(delays, share) for name, share in SHARES.items()}
            found |= {f"{self.mode}_max_s": delays[-1], f"{self.mode}_worst_flow_p50_s": self.worst()[1]}
        return found

    def worst(self) -> tuple[str, float]:
        """Return the flow with the longest median, and that; there is one that has rows."""
        medians = {name: percentile(sorted(f.delays_s.values()), 0.5) for name, f in self.flows.items() if f.delays_s}
        name = max(medians, key=medians.__getitem__)
        return name, medians[name]

    def lines(self) -> Iterator[str]:
        """Yield a line for a person: which flow is the worst, and which have no row."""
        if any(flow.delays_s for flow in self.flows.values()):
            name, median = self.worst()
            most = max(self.flows[name].delays_s.values())
            yield f"{self.mode}: worst flow {name}, p50 {median:.2f} s, max {most:.2f} s"
        if silent := [name for name, flow in self.flows.items() if not flow.delays_s]:
            yield f"{self.mode}: nothing was read of {len(silent)} flows, such as {silent[0]}"


def table(classes: Sequence[FlowClass]) -> dict[str, dict[str, Any]]:
    """Return flow → mode, rows and delays, for the result file."""
    return {name: {"mode": c.mode, **flow.to_json()} for c in classes for name, flow in c.flows.items()}
