"""The demonstration's last page: a table of what arrived, its mismatches, and the runs in Airflow."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from databus.demo.verdict import FlowVerdict

_MISMATCHES_SHOWN = 10
_RUNS_SHOWN = 3
_WIDTH = 112
"""Columns of a terminal that the table needs; where there is none, rich would take 80."""


def show(verdicts: Sequence[FlowVerdict], first_row_s: float | None) -> None:
    """Print the result to standard output."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, _WIDTH)
    table = Table(title="What arrived, compared by key and value", title_justify="left")
    for name in ("flow", "changes at the source", "messages in Kafka", "documents", "mismatches", "lag", "runs"):
        table.add_column(name, justify="left" if name == "flow" else "right", no_wrap=True)
    for v in verdicts:
        table.add_row(
            v.flow,
            f"{v.source_rows:,}",
            "-" if v.messages is None else f"{v.messages:,}",
            "-" if v.documents is None else f"{v.documents:,}",
            f"[{'red' if v.problems else 'green'}]{len(v.problems)}[/]",
            "-" if v.lag_s is None else f"{v.lag_s:.1f} s",
            str(len(v.runs)),
        )
    console.print(table)
    if first_row_s is not None:
        console.print(f"first row in Kafka {first_row_s:.0f} s after the command")
    for v in verdicts:
        for run in v.runs[:_RUNS_SHOWN]:
            console.print(f"{run.state:<8} {run.address}", markup=False)
    for v in verdicts:
        for problem in v.problems[:_MISMATCHES_SHOWN]:
            console.print(f"{v.flow}: {problem}", style="red", markup=False)
