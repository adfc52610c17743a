"""`databus bench`: benchmarks on servers that they start themselves."""

from __future__ import annotations

import signal
import sys

import typer

from databus.cli.bench import mirrors as bench_mirrors
from databus.cli.bench import path as bench_path
from databus.cli.bench import plane as bench_plane

_HELP = "Measure speed on real servers, which are started and removed."
app = typer.Typer(help=_HELP, no_args_is_help=True)


@app.callback(help=_HELP)
def end_when_asked_to() -> None:
    """End a benchmark that is sent SIGTERM as Ctrl-C does, so that its servers end with it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


for _command in (
    bench_path.decode,
    bench_path.e2e,
    bench_path.catchup,
    bench_path.snapshot,
    bench_path.validate,
    bench_path.freshness,
    bench_mirrors.mirror,
    bench_mirrors.mirror_delay,
    bench_mirrors.mirror_link,
    bench_mirrors.plan,
    bench_plane.idle,
    bench_plane.dag_files,
    bench_path.trace,
    bench_plane.metadata,
    bench_plane.plane,
):
    app.command()(_command)
