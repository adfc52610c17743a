"""Dashboards and rules: written from the code, and every query names metrics, recorded series and labels that exist.

promtool reads them in `make charts-check`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from databus.core.alerts.alert import SEVERITIES, AlertKind
from databus.observe.alerts.rules import AlertWhen
from databus.observe.charts.__main__ import files, main
from databus.observe.charts.boards import BOARDS
from databus.observe.charts.grafana import WIDTH, Board, Panel, PanelQuery, worst
from databus.observe.charts.rules import ALERTS, RECORDED, alerting_file
from databus.observe.metric_names import WATCH_METRICS

ROOT = Path(__file__).parents[3]
CASES = ROOT / "docker" / "prometheus_cases"
SHIPPED = ROOT / "docker"

PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus gives each sample as it scrapes."""

LABELS: dict[str, set[str]] = {
    **{metric.prometheus: set(metric.labels) | PROMETHEUS for metric in WATCH_METRICS},
    **{series.name: set(series.labels) for series in RECORDED},
    "ALERTS": {"alertname", "alertstate", "severity", "flow"},
}
NAME = re.compile(r"(?<![\w:])(?:(?:flow|flow_topic|plane):)?(?:databus_\w+|ALERTS)(?::\w+)?")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    for name in ("check", "check_charts"):
        spec = importlib.util.spec_from_file_location(name, ROOT / "docker" / f"{name}.py")
        found = importlib.util.module_from_spec(spec)
        # The second imports the first by its name, as scripts of one folder do.
        sys.modules[name] = found
        spec.loader.exec_module(found)
    return sys.modules["check_charts"]


def unquoted(expr: str) -> str:
    return re.sub(r'"[^"]*"', '""', expr)


def queries(board: Board) -> Iterator[tuple[Panel, PanelQuery]]:
    for part in board.parts:
        if isinstance(part, Panel):
            yield from ((part, query) for query in part.queries)


def kept(expr: str) -> set[str]:
    """Labels of an expression's result: those of the outermost aggregation, else of its first series."""
    flat = unquoted(expr)
    grouped = re.match(r"(?:sum|max|min|count)(?: by \(([^)]*)\))? ?\(", flat)
    if grouped:
        return {label.strip() for label in (grouped[1] or "").split(",") if label.strip()}
    inner = re.match(r"(?:topk|bottomk)\(\d+, (.*)\)$", flat) or re.match(r"(?:rate|increase)\((.*)\[\w+\]\)", flat)
    return kept(inner[1]) if inner else LABELS[NAME.search(flat)[0]]


def faults(expr: str) -> list[str]:
    flat, found = unquoted(expr), []
    names = NAME.findall(flat)
    found += [f"no such series: {name}" for name in names if name not in LABELS]
    if not names:
        return ["no series"]
    known = set.union(*(LABELS.get(name, set()) for name in names))
    asked = [label.strip() for labels in GROUPED.findall(flat) for label in labels.split(",") if label.strip()]
    found += [f"no such label: {label}" for label in asked if label not in known]
    for name, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", flat):
        found += [
            f"{name} has no {label}" for label in MATCHED.findall(matchers) if label not in LABELS.get(name, {label})
        ]
    return found


def test_the_files_are_those_of_the_code(tmp_path: Path) -> None:
    shipped = {
        str(path.relative_to(SHIPPED)): path.read_text()
        for path in sorted([*SHIPPED.glob("grafana/*"), *SHIPPED.glob("prometheus/*")])
    }
    assert shipped == files(), "make charts"
    assert main([str(tmp_path)]) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == set(shipped)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_names_series_and_labels_that_exist(board: Board) -> None:
    for panel, query in queries(board):
        assert faults(query.expr) == [], f"{panel.title}: {query.expr}"
        shown = kept(query.expr)
        assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= shown or panel.kind != "timeseries", query
        chosen = {name for name in ("flow", "topic") if f'"${name}"' in query.expr}
        assert chosen <= {name for name, asked in (("flow", board.flows), ("topic", board.topics)) if asked}, query
    for variable in (board.flows, board.topics):
        assert not variable or variable in LABELS


def test_a_query_of_a_name_or_label_that_is_gone_is_found() -> None:
    assert "no such series: databus_lag_second" in faults("max by (flow) (databus_lag_second)")
    assert faults("max by (table) (databus_lag_seconds)") == ["no such label: table"]
    assert faults('databus_lag_seconds{topic="x"}') == ["databus_lag_seconds has no topic"]
    assert faults("flow:databus_lag:max") == ["no such series: flow:databus_lag:max"]
    with pytest.raises(KeyError):
        worst("lag_second")
    with pytest.raises(KeyError, match="not table"):
        worst("lag_seconds", by=("table",))


def test_every_metric_of_the_watchdog_is_on_a_board() -> None:
    recorded = {series.name: series.expr for series in RECORDED}
    texts = [query.expr for board in BOARDS for _, query in queries(board)]
    used = {name for text in texts for name in NAME.findall(unquoted(text))}
    for _ in RECORDED:
        used |= {name for series in used & set(recorded) for name in NAME.findall(recorded[series])}
    assert set(recorded) <= used, "recorded, and shown nowhere"
    assert {metric.prometheus for metric in WATCH_METRICS} <= used


def alone(expr: str) -> list[str]:
    """Series of flows that stand outside of a maximum, a minimum or the maximum of a rate, once for each such place."""
    own = {metric.prometheus for metric in WATCH_METRICS if metric.name.startswith("databus.watch_")}
    flat = unquoted(expr)
    return [
        found[0]
        for found in NAME.finditer(flat)
        if found[0].startswith("databus_") and found[0] not in own
        if not re.search(r"(?:max|min) by \([\w, ]+\) \((?:rate\()?$", flat[: found.start()])
    ]


def test_series_of_two_watchdogs_are_not_added_up() -> None:
    """Each watchdog shows each flow."""
    found = [query.expr for board in BOARDS for _, query in queries(board)]
    for expr in [*found, *(series.expr for series in RECORDED), *(alert.expr for alert in ALERTS)]:
        assert alone(expr) == [], expr
    second = "max by (flow) (databus_lag_seconds) / databus_lag_seconds"
    assert alone(second) == ["databus_lag_seconds"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_panels_have_places_of_their_own(board: Board) -> None:
    told = board.json()
    numbers = [panel["id"] for panel in told["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in told["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= WIDTH
        taken |= cells
    titles = [panel["title"] for panel in told["panels"]]
    assert len(set(titles)) == len(titles)


def test_boards_have_addresses_of_their_own() -> None:
    assert len({board.uid for board in BOARDS}) == len(BOARDS) == len({board.title for board in BOARDS})


def test_colours_change_at_the_thresholds() -> None:
    def steps(**told: Any) -> list[tuple[float | None, str]]:
        return [(s["value"], s["color"]) for s in Panel("x", (), **told).thresholds()["steps"]]

    assert steps() == [(None, "green")]
    assert steps(warn=1, alarm=5) == [(None, "green"), (1, "orange"), (5, "red")]
    assert steps(alarm=1) == [(None, "green"), (1, "red")]
    assert steps(warn=6, below=True) == [(None, "orange"), (6, "green")]
    assert steps(warn=6, alarm=2, below=True) == [(None, "red"), (2, "orange"), (6, "green")]
    assert steps(alarm=2, below=True) == [(None, "red"), (2, "green")]


def test_recorded_series_have_the_labels_that_they_say() -> None:
    before: set[str] = set()
    for series in RECORDED:
        assert faults(series.expr) == [], series.name
        assert {name for name in NAME.findall(series.expr) if ":" in name} <= before, "evaluated before what it reads"
        before.add(series.name)
        level = series.name.partition(":")[0]
        assert series.labels == {"flow": ("flow",), "flow_topic": ("flow", "topic"), "plane": ()}[level]


def test_alerts_name_series_that_exist_and_are_as_severe_as_the_product_s() -> None:
    for rule in ALERTS:
        assert faults(rule.expr) == [], rule.name
        labels = set(re.findall(r"\$labels\.(\w+)", rule.summary))
        assert labels <= kept(rule.expr), rule.name
        if rule.runbook in set(AlertKind):
            assert rule.severity is SEVERITIES[AlertKind(rule.runbook)], rule.name
    assert {rule.runbook for rule in ALERTS} >= set(map(str, AlertKind))
    assert len({rule.name for rule in ALERTS}) == len(ALERTS)


def test_thresholds_are_the_defaults_of_the_flows() -> None:
    by_name = {rule.name: rule.expr for rule in ALERTS}
    assert by_name["DatabusLag"].endswith(f"> {AlertWhen().lag.total_seconds():g}")
    assert f"> {AlertWhen().no_run.total_seconds():g} " in by_name["DatabusNoRun"]


def test_each_alert_links_a_runbook_and_stands_in_the_page() -> None:
    page = (ROOT / "docs/howto/charts-in-grafana.md").read_text()
    for rule in ALERTS:
        assert "## What to do" in (ROOT / f"docs/runbooks/{rule.runbook}.md").read_text(), rule.name
        assert f"| [{rule.name}](../runbooks/{rule.runbook}.md) | " in page, rule.name
    for board in BOARDS:
        assert f"`{board.name}.json`" in page
    for series in RECORDED:
        assert f"| `{series.name}` | {series.text} |" in page, series.name


def test_links_of_runbooks_have_another_base() -> None:
    (group,) = alerting_file(runbooks="https://x/y/")["groups"]
    assert group["rules"][0]["annotations"]["runbook_url"] == "https://x/y/lag.md"


def test_each_alert_and_each_recorded_series_has_a_case_of_promtool(check: ModuleType) -> None:
    cases = yaml.safe_load((CASES / "alerts.yaml").read_text())
    assert [case["alert"] for case in cases] == [rule.name for rule in ALERTS]
    tests = check.alert_tests(cases, check.RULES / "alerts.yaml")["tests"]
    for test in tests:
        assert [len(each["exp_alerts"]) for each in test["alert_rule_test"]] == [0, 1, 0], test["name"]
    file = yaml.safe_load((CASES / "recording.yaml").read_text())
    asked = [each["expr"] for test in file["tests"] for each in test["promql_expr_test"]]
    assert asked == [series.name for series in RECORDED]
    given = [series for case in cases for series in case["series"]]
    given += [each["series"] for test in file["tests"] for each in test["input_series"]]
    for series in given:
        name, _, labels = series.partition("{")
        assert set(MATCHED.findall(labels)) <= LABELS[name], series


def test_promtool_is_given_each_query_without_variables(check: ModuleType) -> None:
    told = check.query_rules([board.json() for board in BOARDS])
    assert [len(group["rules"]) for group in told["groups"]] == [len(list(queries(board))) + 1 for board in BOARDS]
    assert "$" not in json.dumps(told).replace("$labels", "")


def test_a_tool_that_is_missing_is_a_failure(check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--promtool", "/nowhere/promtool"]) == 1
    assert "FAIL  promtool: rules" in capsys.readouterr().out
    assert check.main(["--promtool", "/bin/true"]) == 0
