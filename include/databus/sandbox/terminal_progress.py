"""Progress of the sandbox's servers on a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from databus.sandbox.progress import ProgressEvent, ProgressStep


@contextmanager
def drawn(console: Console) -> Iterator[Callable[[ProgressEvent], None]]:
    """Draw a line per server on a terminal; elsewhere print a line when a server is ready or failed."""
    if not console.is_terminal or os.environ.get("CI"):
        yield (
            lambda event: (
                _print(console, event)
                if event.step in (ProgressStep.READY, ProgressStep.FAILED, ProgressStep.STOPPED)
                else None
            )
        )
        return
    tasks: dict[str, TaskID] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description:<14}"), TextColumn("{task.fields[what]}"))
    with Bars(*columns, TimeElapsedColumn(), console=console) as bars:

        def draw(event: ProgressEvent) -> None:
            if event.server not in tasks:
                tasks[event.server] = bars.add_task(event.server, total=1, what="")
            counted = f" {event.done}/{event.total}" if event.total else ""
            over = event.step in (ProgressStep.READY, ProgressStep.FAILED, ProgressStep.STOPPED)
            bars.update(tasks[event.server], what=f"{event.step} {event.detail}{counted}", completed=int(over))

        yield draw


def _print(console: Console, event: ProgressEvent) -> None:
    console.print(f"{event.server}: {event.step} {event.detail}", markup=False)
