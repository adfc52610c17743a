"""`databus bench`: benchmarks on servers that they start themselves."""

from __future__ import annotations

import typer

from databus.cli.bench import mirrors as bench_mirrors
from databus.cli.bench import path as bench_path
from databus.cli.bench import plane as bench_plane

app = typer.Typer(help="Measure speed on real servers, which are started and removed.", no_args_is_help=True)

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
