"""`databus segments`: kept log segments, shared by all flows of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from databus.binlog.segments.retention import KeepLimit
from databus.cli.server.choice import require_served
from databus.cli.terminal.lazy_commands import tell_renamed
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import OUT, Format, show_rows, stdout_for_data
from databus.core.amounts import counted
from databus.core.settings import Settings

if TYPE_CHECKING:
    from databus.ops.segments import SegmentView

_COLUMNS = ("server", "file", "from", "to", "transactions", "first commit", "last commit", "size", "age")

app = typer.Typer(help="List and prune the log segments in the segment store.")

Keep = Annotated[
    str | None,
    typer.Option(
        "--keep", help='Retention limit by age, size or both, e.g. "7d,50GB".', show_default="DATABUS_SEGMENT_KEEP"
    ),
]


@app.callback(invoke_without_command=True)
@stdout_for_data()
def segments(
    context: typer.Context,
    prune: Annotated[bool, typer.Option("--prune", help="Old name of `segments prune`.", hidden=True)] = False,
    execute: Annotated[bool, typer.Option("--execute", help="As of `segments prune`.", hidden=True)] = False,
    keep: Annotated[str | None, typer.Option("--keep", help="As of `segments list`.", hidden=True)] = None,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="As of `segments list`.", hidden=True)
    ] = Format.TABLE,
) -> None:
    """List and prune the log segments in the segment store."""
    if context.invoked_subcommand is not None:
        if prune or execute or keep is not None or output is not Format.TABLE:
            raise typer.BadParameter(f"write options behind `{context.invoked_subcommand}`, not before it")
        return
    require_served("segments prune" if prune else "segments list")
    if execute and not prune:
        raise typer.BadParameter("--execute goes with --prune")
    tell_renamed("segments --prune" if prune else "segments", "segments prune" if prune else "segments list")
    if prune:
        prune_segments(execute, keep, output)
    else:
        list_segments(keep, output)


@app.command("list")
def list_segments(keep: Keep = None, output: Output = Format.TABLE) -> None:
    """List kept segments: positions, commit times, size, age."""
    from databus.ops import segments as kept  # with all that decodes a log, which help needs nothing of

    views = kept.list_segments(Settings.from_environment(), _limit(keep))
    _show(views, output, "no segments are kept")


@app.command("prune")
def prune_segments(
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete them; without it, only show what would be deleted.")
    ] = False,
    keep: Keep = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what is over the retention limit; --execute deletes it.

    The limit holds for large values (`databus large-value`) too, but for none of the last 7 days.
    """
    from databus.ops import segments as kept  # with all that decodes a log, which help needs nothing of
    from databus.ops.large_values import prune_large_values

    settings, limit = Settings.from_environment(), _limit(keep)
    found = kept.prune_segments(settings, limit) if execute else kept.list_segments(settings, limit)
    values = prune_large_values(settings, limit, execute=execute)
    views = [view for view in found if view.surplus]
    _show(views, output, "no segments over the limit")
    if output is not Format.TABLE:
        return
    done = "deleted" if execute else "would be deleted; add --execute"
    for what, sizes in (
        ("segment", [view.segment.size_bytes for view in views]),
        ("large value", [value.size_bytes for value in values]),
    ):
        if sizes:
            OUT.print(f"{counted(len(sizes), what)}, {sum(sizes) / 1e6:.1f} MB {done}", highlight=False)


def _limit(keep: str | None) -> KeepLimit | None:
    return None if keep is None else KeepLimit.parse(keep, "--keep")


def _show(views: Sequence[SegmentView], output: Format, empty: str) -> None:
    if output is not Format.TABLE:
        show_rows([view.to_json() for view in views], (), output)
        return
    rows = [
        {
            "server": v.segment.server,
            "file": v.segment.file,
            "from": v.segment.start_pos,
            "to": v.segment.end_pos,
            "transactions": v.segment.transactions,
            "first commit": v.to_json()["first_commit_at"],
            "last commit": v.to_json()["last_commit_at"],
            "size": f"{v.segment.size_bytes / 1e6:.1f} MB",
            "age": _age(v.age_s),
        }
        for v in views
    ]
    show_rows(rows, _COLUMNS, output, empty=empty)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
