"""`databus segments`: the log segments that are kept and shared by all flows of a server."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.binlog.segments.retention import KeepLimit
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import OUT, Format, show_rows
from databus.core.amounts import counted
from databus.core.settings import Settings

_COLUMNS = ("server", "file", "from", "to", "transactions", "first commit", "last commit", "size", "age")


def segments(
    prune: Annotated[bool, typer.Option("--prune", help="Show only what is over the limit and would go.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="With --prune: delete it.")] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", help='Another limit than DATABUS_SEGMENT_KEEP, e.g. "7d,50GB".')
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List kept segments: places, times, size, age; `--prune` shows what is over the limit, `--execute` deletes it.

    The limit holds for claims (`databus claim`) as well, but for none of the last 7 days.
    """
    from databus.ops.large_values import prune_claims  # with all that decodes a log, which help needs nothing of
    from databus.ops.segments import list_segments, prune_segments

    if execute and not prune:
        raise typer.BadParameter("--execute goes with --prune")
    settings = Settings.from_environment()
    limit = None if keep is None else KeepLimit.parse(keep, "--keep")
    views = prune_segments(settings, limit) if execute else list_segments(settings, limit)
    claims = prune_claims(settings, limit, execute=execute) if prune else ()
    if prune:
        views = [view for view in views if view.surplus]
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
    show_rows(rows, _COLUMNS, output, empty="no segments over the limit" if prune else "no segments are kept")
    if prune and views:
        size = sum(v.segment.size_bytes for v in views)
        done = "deleted" if execute else "would be deleted; add --execute"
        OUT.print(f"{counted(len(views), 'segment')}, {size / 1e6:.1f} MB {done}", highlight=False)
    if claims:
        size = sum(claim.size_bytes for claim in claims)
        done = "deleted" if execute else "would be deleted; add --execute"
        OUT.print(f"{counted(len(claims), 'claim')}, {size / 1e6:.1f} MB {done}", highlight=False)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
