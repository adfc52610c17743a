"""`databus records`: retention of the records store."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from databus.binlog.segments.retention import KeepLimit
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import ERR, Format, show_rows
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.core.settings import Settings

app = typer.Typer(help="Prune the records store (SQL): results, batches, lineage.", no_args_is_help=True)


@app.command()
def prune(
    keep: Annotated[str, typer.Option("--keep", help='Age up to which results are kept, e.g. "30d" or "12h".')] = "30d",
    merge: Annotated[
        str | None,
        typer.Option("--merge", help='Age up to which batches stay single, e.g. "1h".', show_default="as --keep"),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete and merge; without it, only the numbers are shown.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what is older than a limit; --execute deletes or merges it.

    Deleted are results of checks and of quality, and lineage windows. Batches are merged: one ledger page and one
    report stand for many from then on, with their range and sums. Rows in quarantine stay, with the batches that held
    them back: `databus ledger --verify` and `databus trace` work on from what is left.
    """
    before, single = (
        datetime.now(UTC) - timedelta(seconds=_age(name, given))
        for name, given in (("keep", keep), ("merge", merge) if merge else ("keep", keep))
    )
    from databus.records.ledger.merged_pages import MergedPages
    from databus.records.retention import RecordRetention, old_results
    from databus.records.store import RecordStore

    with RecordStore(Settings.from_environment().records_url) as store:
        retention, merging = RecordRetention(store), MergedPages(store)
        found = retention.prune(before) if execute else retention.surplus(before)
        merged = merging.merge(single) if execute else merging.surplus(single, old_results(before))
    found |= {"databus_ledger": merged.gone, "databus_batches": merged.gone}
    found["databus_runs"] += merged.runs
    show_rows([{"table": name, "rows": found[name]} for name in sorted(found)], ("table", "rows"), output)
    if output is not Format.TABLE:
        return
    if merged.single:
        ERR.print(
            f"{counted(merged.single, 'batch', 'batches')} older than {single:%Y-%m-%d %H:%M} UTC stay single: they "
            "hold rows back, stand alone between gaps, amendments and set-backs, or have no report that says the same",
            highlight=False,
        )
    if not any(found.values()):
        ERR.print(
            f"nothing to delete is older than {before:%Y-%m-%d %H:%M} UTC, nothing to merge older than "
            f"{single:%Y-%m-%d %H:%M} UTC",
            highlight=False,
        )
    elif not execute:
        ERR.print(f"nothing is deleted; add --execute (older than {before:%Y-%m-%d %H:%M} UTC)", highlight=False)


def _age(option: str, given: str) -> float:
    with contextlib.suppress(ConfigError):
        limit = KeepLimit.parse(given)
        if limit.max_age_s is not None and limit.max_bytes is None:
            return limit.max_age_s
    raise ConfigError(f"--{option}={given!r} is not an age", hint='Write an age, e.g. "30d" or "12h".')
