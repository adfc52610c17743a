"""`databus quality`: results of checks and expectations in the last runs of a flow, and their trend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from databus.cli.server.choice import served
from databus.cli.terminal.options import Dags, FlowName, Output
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.settings import Settings

_BARS = "▁▂▃▄▅▆▇█"


def quality(
    flow: FlowName,
    last: Annotated[int, typer.Option("--last", "-n", help="Number of newest runs that the trend covers.", min=1)] = 20,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the newest results of checks and expectations, with trend.

    The trend is each one's share of violations over the last runs, oldest first.
    """
    from databus.ops.flows.discovery import find_flow
    from databus.records.quality.trend import newest_runs, trends
    from databus.records.store import RecordStore

    if (there := served(flow)) is not None:
        told = there.get("/quality", last=last)
        runs, found = told["runs"], told["latest"]
    else:
        with RecordStore(Settings.from_environment().records_url) as store:
            results = newest_runs(store, flow, last)
        if not results:
            find_flow(flow, dags, dags=False)  # refuses a name that is none; of a flow that is gone results may be left
        runs, found = [run.to_json() for run in results], trends(results)
    if output is not Format.TABLE:
        show_one({"flow": there.name if there else flow, "runs": runs, "latest": found}, output)
        return
    rows = [{**each, "state": _state(each), "trend": sparkline(each["trend"])} for each in found]
    show_rows(
        rows, ("state", "name", "table", "action", "evaluated", "violations", "trend"), output, empty="no results"
    )
    columns = ("run_id", "evaluated_at", "success", "worst", "evaluated", "violations")
    show_rows(runs[:5], columns, output, empty="no run was judged yet")
    for each in found:
        if each["error"]:
            ERR.print(f"not judged: {each['name']}: {each['error']}", style="yellow", markup=False)
    if runs and (page := runs[0]["data_docs"]):
        ERR.print(f"Data Docs: {page}", markup=False, soft_wrap=True)


def sparkline(percents: Sequence[float | None]) -> str:
    """Return a bar per run, as high as its share of violations next to the greatest; "·" where nothing was judged."""
    most = max((p for p in percents if p is not None), default=0.0)
    return "".join("·" if p is None else _bar(p, most) for p in percents)


def _bar(percent: float, most: float) -> str:
    if not percent:
        return _BARS[0]
    return _BARS[max(1, round(percent / most * (len(_BARS) - 1)))]


def _state(found: dict[str, Any]) -> str:
    if found["met"]:
        return "ok"
    return "warn" if found["action"] == "warn" or found["error"] else "error"
