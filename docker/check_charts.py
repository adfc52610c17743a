"""Checks the dashboards and Prometheus rules without Grafana and Prometheus: `make charts-check`.

promtool reads the rules, runs the cases of docker/prometheus_cases, and reads each query of the dashboards. That
queries name metrics which exist is a unit test (tests/unit/observe/test_charts.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from check import DOCKER, report, run_tool

CASES = DOCKER / "prometheus_cases"
RULES = DOCKER / "prometheus"
BOARDS = DOCKER / "grafana"
INTERVAL = "30s"


def alert_tests(cases: Sequence[dict[str, Any]], rules: Path) -> dict[str, Any]:
    """Return promtool's file of tests: each alert alone at three times.

    Args:
        cases: entries of cases/alerts.yaml.
        rules: file of the alerting rules.

    Raises:
        KeyError: a case of an alert that the rules do not have.
    """
    (group,) = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"]
    by_name = {rule["alert"]: rule for rule in group["rules"]}
    tests = []
    for case in cases:
        rule = by_name[case["alert"]]
        fired = {
            "exp_labels": {**case["labels"], **rule["labels"]},
            "exp_annotations": {**rule["annotations"], "summary": case["summary"]},
        }
        when = [(case["quiet"], []), (case["fires"], [fired]), (case["over"], [])]
        tests.append({
            "name": case["alert"],
            "interval": INTERVAL,
            "input_series": [{"series": name, "values": str(values)} for name, values in case["series"].items()],
            "alert_rule_test": [
                {"eval_time": at, "alertname": case["alert"], "exp_alerts": alerts} for at, alerts in when
            ],
        })  # fmt: skip
    return {"rule_files": [str(rules)], "evaluation_interval": INTERVAL, "tests": tests}


def board_queries(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the title of a panel (or mark) and a query, with all flows and topics chosen."""
    found = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]
    found += [(mark["name"], mark["expr"]) for mark in board["annotations"]["list"]]
    for title, expr in found:
        yield title, expr.replace("$flow", ".*").replace("$topic", ".*")


def query_rules(boards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a file of rules with each query of the boards, for promtool to read."""
    groups = []
    for board in boards:
        queries = enumerate(board_queries(board))
        name = board["uid"].replace("-", "_")
        rules = [{"record": f"{name}:{n}", "expr": expr, "labels": {"panel": title}} for n, (title, expr) in queries]
        groups.append({"name": board["uid"], "rules": rules})
    return {"groups": groups}


def outcomes(promtool: str) -> list[bool]:
    """Print the outcome of each check; whether each is clean."""
    files = sorted(BOARDS.glob("*.json"))
    boards = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    cases = yaml.safe_load((CASES / "alerts.yaml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        tests, queries = Path(folder) / "alerts.yaml", Path(folder) / "queries.yaml"
        tests.write_text(yaml.safe_dump(alert_tests(cases, RULES / "alerts.yaml")), encoding="utf-8")
        queries.write_text(yaml.safe_dump(query_rules(boards)), encoding="utf-8")
        rules = [str(file) for file in sorted(RULES.glob("*.yaml"))]
        lint = ["check", "rules", "--lint=all", "--lint-fatal"]
        checks = {
            "promtool: rules": [promtool, *lint, *rules],
            "promtool: each alert fires, and ends": [promtool, "test", "rules", str(tests)],
            "promtool: each recorded series": [promtool, "test", "rules", str(CASES / "recording.yaml")],
            "promtool: queries of the dashboards": [promtool, *lint, str(queries)],
        }
        return [report(title, run_tool(argv)[1]) for title, argv in checks.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check; 0 when all are clean."""
    parser = argparse.ArgumentParser(description="Check dashboards and rules without Grafana and Prometheus.")
    parser.add_argument("--promtool", default="promtool", help="Prometheus' own checker")
    options = parser.parse_args(arguments)
    return 0 if all(outcomes(options.promtool)) else 1


if __name__ == "__main__":
    sys.exit(main())
