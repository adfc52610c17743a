"""Grafana dashboards as values: queries, panels and boards, and their JSON (for Grafana 11 and later)."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databus.observe.metric_names import BY_NAME

SCHEMA = 39
"""Version of Grafana's dashboard schema that is written."""

WIDTH = 24
"""Columns of a dashboard."""

TAG = "databus"
"""Tag of every board; the boards' links list what has it."""

SOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}

_GREEN, _ORANGE, _RED = "green", "orange", "red"


def worst(name: str, *, by: Sequence[str] = (), match: str = 'flow=~"$flow"') -> str:
    """Return an expression of a metric by labels: the greatest value, for two watchdogs show each flow twice.

    Args:
        name: name behind `databus.`, e.g. "lag_seconds".
        by: labels that stay; by default all of the metric.
        match: matchers of the series, "" for none.

    Raises:
        KeyError: no such metric, or a label that it does not have.
    """
    metric = BY_NAME[f"databus.{name}"]
    for label in by:
        if label not in metric.labels:
            raise KeyError(f"{metric.prometheus} has the labels {metric.labels}, not {label}")
    labels = ", ".join(by or metric.labels)
    return (
        f"max by ({labels}) ({metric.prometheus}{{{match}}})" if match else f"max by ({labels}) ({metric.prometheus})"
    )


@dataclass(frozen=True)
class PanelQuery:
    """Query of a panel.

    Attributes:
        expr: PromQL.
        legend: name of its series, e.g. "{{flow}}".
        title: heading of its column in a table.
        unit: Grafana's unit of this column, "" for a plain number.
    """

    expr: str
    legend: str = "{{flow}}"
    title: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Panel:
    """Panel of a board.

    Attributes:
        title: heading.
        queries: what it shows, at most 26.
        unit: Grafana's unit, e.g. "s", "bytes", "short".
        kind: "timeseries", "stat" or "table".
        width: columns, of 24.
        height: rows of 30 pixels.
        text: what a reader sees behind the title's mark.
        warn: value from which a stat or column is orange; None for never.
        alarm: value from which it is red; None for never.
        below: whether low values are the bad ones.
    """

    title: str
    queries: tuple[PanelQuery, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    text: str = ""
    warn: float | None = None
    alarm: float | None = None
    below: bool = False

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """Return the panel at a place of its board."""
        shown = {"timeseries": _timeseries, "stat": _stat, "table": _table}[self.kind](self)
        return {
            "id": number,
            "title": self.title,
            "type": self.kind,
            **({"description": self.text} if self.text else {}),
            "datasource": dict(SOURCE),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            **shown,
            "targets": [_target(query, letter, self.kind) for query, letter in self.lettered()],
        }

    def thresholds(self) -> dict[str, Any]:
        """Return the colours: green until `warn`, orange until `alarm`, then red; the other way round below."""
        steps: list[tuple[float, str]] = []
        if self.below:
            first = _RED if self.alarm is not None else _ORANGE if self.warn is not None else _GREEN
            steps += [(self.alarm, _ORANGE if self.warn is not None else _GREEN)] if self.alarm is not None else []
            steps += [(self.warn, _GREEN)] if self.warn is not None else []
        else:
            first = _GREEN
            steps += [(self.warn, _ORANGE)] if self.warn is not None else []
            steps += [(self.alarm, _RED)] if self.alarm is not None else []
        told = [{"color": first, "value": None}, *({"color": color, "value": value} for value, color in steps)]
        return {"mode": "absolute", "steps": told}

    def lettered(self) -> list[tuple[PanelQuery, str]]:
        """Return each query with its letter."""
        return list(zip(self.queries, string.ascii_uppercase, strict=False))


@dataclass(frozen=True)
class PanelRow:
    """Heading between panels."""

    title: str

    def json(self, number: int, y: int) -> dict[str, Any]:
        """Return the heading at a place of its board."""
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        return {"id": number, "title": self.title, "type": "row", "collapsed": False, "gridPos": place, "panels": []}


@dataclass(frozen=True)
class Board:
    """Dashboard.

    Attributes:
        name: file name and last part of the uid.
        title: as Grafana lists it.
        text: what it is for.
        parts: headings and panels in order.
        flows: metric whose flows can be chosen; "" where a board shows all.
        topics: metric whose topics can be chosen; "" for none.
    """

    name: str
    title: str
    text: str
    parts: tuple[Panel | PanelRow, ...]
    flows: str = ""
    topics: str = ""

    @property
    def uid(self) -> str:
        """Identity in Grafana, by which boards link to each other."""
        return f"databus-{self.name}"

    def json(self) -> dict[str, Any]:
        """Return the dashboard as Grafana stores it."""
        variables = [_DATASOURCE]
        if self.flows:
            variables.append(_variable("flow", "Flow", f"label_values({self.flows}, flow)"))
        if self.topics:
            variables.append(_variable("topic", "Topic", f'label_values({self.topics}{{flow=~"$flow"}}, topic)'))
        link = {"title": "Databus", "type": "dashboards", "icon": "external link", "tooltip": "", "tags": [TAG]}
        how = {"asDropdown": True, "targetBlank": False, "includeVars": True, "keepTime": True}
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.text,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "graphTooltip": 1,
            "links": [{**link, **how}],
            "annotations": {"list": [_alerts_of("$flow" if self.flows else ".*")]},
            "templating": {"list": variables},
            "panels": self._placed(),
        }

    def _placed(self) -> list[dict[str, Any]]:
        """Return the parts from left to right, in lines as high as their highest panel."""
        found: list[dict[str, Any]] = []
        x = y = high = 0
        for number, part in enumerate(self.parts, 1):
            if isinstance(part, PanelRow) or x + part.width > WIDTH:
                x, y, high = 0, y + high, 0
            if isinstance(part, PanelRow):
                found.append(part.json(number, y))
                y += 1
                continue
            found.append(part.json(number, x, y))
            x, high = x + part.width, max(high, part.height)
        return found


_DATASOURCE: Mapping[str, Any] = {
    "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
}  # fmt: skip


def _variable(name: str, label: str, query: str) -> Mapping[str, Any]:
    chosen = {"includeAll": True, "multi": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
    return {
        "name": name, "label": label, "type": "query", "datasource": dict(SOURCE), "query": query,
        "refresh": 2, "sort": 1, **chosen,
    }  # fmt: skip


def _alerts_of(flows: str) -> dict[str, Any]:
    """Return marks where alerts of the rules fire."""
    expr = f'ALERTS{{alertname=~"Databus.*", alertstate="firing", flow=~"{flows}"}}'
    how = {"titleFormat": "{{alertname}}", "textFormat": "{{flow}}", "tagKeys": "severity", "step": "30s"}
    told = {"name": "Alerts", "datasource": dict(SOURCE), "enable": True, "iconColor": _RED, "expr": expr}
    return {**told, **how}


def _target(query: PanelQuery, letter: str, kind: str) -> dict[str, Any]:
    told: dict[str, Any] = {"refId": letter, "datasource": dict(SOURCE), "expr": query.expr}
    if kind == "timeseries":
        return {**told, "legendFormat": query.legend, "range": True}
    how = "table" if kind == "table" else "time_series"
    return {**told, "legendFormat": query.legend, "instant": True, "range": False, "format": how}


def _timeseries(panel: Panel) -> dict[str, Any]:
    limit = "off" if panel.warn is None and panel.alarm is None else "line"
    custom = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "thresholdsStyle": {"mode": limit}}
    legend = {"showLegend": True, "displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}
    return {
        "fieldConfig": _fields(panel, {"min": 0, "custom": custom, "color": {"mode": "palette-classic"}}),
        "options": {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def _stat(panel: Panel) -> dict[str, Any]:
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    how = {"graphMode": "none", "colorMode": "value", "justifyMode": "auto", "textMode": "auto", "orientation": "auto"}
    return {
        "fieldConfig": _fields(panel, {"noValue": "none", "color": {"mode": "thresholds"}}),
        "options": {
            "reduceOptions": reduced, **how, "wideLayout": True, "showPercentChange": False,
            "percentChangeColorMode": "standard",
        },
    }  # fmt: skip


def _table(panel: Panel) -> dict[str, Any]:
    columns = {f"Value #{letter}": query for query, letter in panel.lettered()}
    overrides = [
        {
            "matcher": {"id": "byName", "options": query.title},
            "properties": [{"id": "unit", "value": query.unit}],
        }
        for query in columns.values()
        if query.unit
    ]
    named = {name: query.title for name, query in columns.items()} | {"flow": "Flow", "topic": "Topic"}
    if len(columns) == 1:  # Grafana numbers values only where there are several
        named |= {"Value": panel.queries[0].title}
    ordered = {"excludeByName": {"Time": True}, "indexByName": {}, "includeByName": {}, "renameByName": named}
    fields = _fields(panel, {"custom": {"align": "auto", "filterable": True}, "color": {"mode": "thresholds"}})
    return {
        "fieldConfig": {**fields, "overrides": overrides},
        "options": {"showHeader": True, "cellHeight": "sm", "frameIndex": 0,
                    "sortBy": [{"displayName": panel.queries[0].title, "desc": True}]},
        "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": ordered}],
    }  # fmt: skip


def _fields(panel: Panel, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"defaults": {"unit": panel.unit, "thresholds": panel.thresholds(), **more}, "overrides": []}
