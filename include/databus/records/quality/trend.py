"""The quality of a flow over its runs: the newest results, and each expectation's and check's share of violations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.quality.findings import findings
from databus.records.store import RecordStore


@dataclass(frozen=True)
class RunQuality:
    """The stored result of one run.

    Attributes:
        run_id: run id.
        evaluated_at: when it was judged.
        success: whether all was met.
        worst: severity of the gravest violation, None without any.
        evaluated: values looked at.
        violations: how many violate.
        result: Great Expectations' result.
    """

    run_id: str
    evaluated_at: datetime
    success: bool
    worst: str | None
    evaluated: int
    violations: int
    result: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON without the single results; `data_docs` is the run's page, "" without one."""
        return {
            "run_id": self.run_id,
            "evaluated_at": self.evaluated_at.isoformat(),
            "success": self.success,
            "worst": self.worst,
            "evaluated": self.evaluated,
            "violations": self.violations,
            "data_docs": self.result.get("meta", {}).get("databus", {}).get("data_docs", ""),
        }

    def findings(self) -> list[dict[str, Any]]:
        """Return one record per expectation of the flow and per check and table: name, action, met, figures."""
        return findings(self.result)


def newest_runs(store: RecordStore, flow: str, last: int) -> list[RunQuality]:
    """Return the results of a flow's newest runs, newest first. Raises RecordingError."""
    q = t.quality_results.c
    wanted = sa.select(q.run_id, q.evaluated_at, q.success, q.worst, q.evaluated, q.violations, q.result)
    ordered = wanted.where(q.flow == flow).order_by(q.evaluated_at.desc(), q.id.desc()).limit(last)
    with store.transaction() as connection:
        return [RunQuality(*row) for row in connection.execute(ordered)]


def trends(runs: Sequence[RunQuality]) -> list[dict[str, Any]]:
    """Return the newest run's findings, each with `trend`: its violating percent over the runs, oldest first.

    A run in which it was not judged, or looked at nothing, counts as None.
    """
    if not runs:
        return []
    by_run = [{(f["name"], f["table"]): f["violating_percent"] for f in run.findings()} for run in reversed(runs)]
    return [
        {**finding, "trend": [found.get((finding["name"], finding["table"])) for found in by_run]}
        for finding in runs[0].findings()
    ]


def over_runs(runs: Sequence[RunQuality]) -> list[dict[str, Any]]:
    """Return each check and expectation of some runs as its newest run had it, with `runs`: what each run found.

    Args:
        runs: newest first.

    Returns:
        One record per name and table, those of the newest run first. `runs` is as long as `runs` is, oldest first: None
        where a run did not judge it, else evaluated, violations, violating_percent, met and error.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for finding in run.findings():
            one = found.setdefault((finding["name"], finding["table"]), {**finding, "runs": [None] * len(runs)})
            one["runs"][-1 - place] = {name: finding[name] for name in _OF_A_RUN}
    return list(found.values())


_OF_A_RUN = ("evaluated", "violations", "violating_percent", "met", "error")
