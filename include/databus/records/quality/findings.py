"""Quality findings of a run's stored result, line by line: the flow's expectations, then each check and table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SEVERITIES = ("warn", "quarantine", "fail")
"""From the mildest to the gravest."""


def findings(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one record per expectation of the flow and per check and table: name, action, met, figures.

    Args:
        result: Great Expectations' result as JSON.
    """
    return [found for item in result["results"] if (found := _of_expectation(item) or _of_check(item)) is not None]


def expectation_findings(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings of the flow's own expectations alone."""
    return [found for item in result["results"] if (found := _of_expectation(item)) is not None]


def worst(result: Mapping[str, Any]) -> str | None:
    """Return the gravest of what is not met, None when all is; what could not be judged is a warning."""
    grades = ["warn" if found["error"] else found["action"] for found in findings(result) if not found["met"]]
    return max(grades, key=SEVERITIES.index, default=None)


def _of_expectation(item: Mapping[str, Any]) -> dict[str, Any] | None:
    own = (item["expectation_config"].get("meta") or {}).get("databus")
    if own is None:
        return None
    result, info = item["result"], item["exception_info"]
    evaluated = result.get("element_count", 0 if info["raised_exception"] else 1)
    violations = result.get("unexpected_count", int(not item["success"]))
    return {
        "name": own["name"],
        "table": ",".join(own["tables"]) or "*",
        "action": own["action"],
        "met": item["success"],
        "evaluated": evaluated,
        "violations": violations,
        "violating_percent": _percent(violations, evaluated),
        "observed": result.get("observed_value"),
        "judged_by": own["judged_by"],
        "error": info.get("exception_message") or "",
    }


def _of_check(item: Mapping[str, Any]) -> dict[str, Any] | None:
    meta = item["expectation_config"].get("meta") or {}
    if "check" not in meta:
        return None
    return {
        "name": meta["check"],
        "table": meta["table"],
        "action": meta["severity"],
        "met": item["success"],
        "evaluated": meta["evaluated"],
        "violations": meta["violations"],
        "violating_percent": _percent(meta["violations"], meta["evaluated"]),
        "observed": None,
        "judged_by": "every row" if meta["table"] != "*" else "batches",
        "error": "",
    }


def _percent(violations: int, evaluated: int) -> float | None:
    return round(100.0 * violations / evaluated, 6) if evaluated else None
