"""`databus records`: how long the records store remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from databus.binlog.segment_keep import KeepLimit
from databus.cli.options import Output
from databus.cli.output import ERR, Format, show_rows
from databus.core.errors import ConfigError
from databus.core.settings import Settings

app = typer.Typer(help="The records store: what may be forgotten.", no_args_is_help=True)


@app.command()
def prune(
    keep: Annotated[str, typer.Option("--keep", help='Age of what is kept, e.g. "30d".')] = "30d",
    execute: Annotated[bool, typer.Option("--execute", help="Delete it.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show the results of checks, quality and lineage windows that are older than a limit; `--execute` deletes them.

    Reports of batches, the ledger and held-back rows stay: `databus ledger --verify` and `databus trace` need them.
    """
    limit = KeepLimit.parse(keep)
    if limit.max_age_s is None or limit.max_bytes is not None:
        raise ConfigError(f"--keep={keep!r} is not an age", hint='Write an age, e.g. "30d" or "12h".')
    from databus.records.retention import RecordRetention
    from databus.records.store import RecordStore

    before = datetime.now(UTC) - timedelta(seconds=limit.max_age_s)
    with RecordStore(Settings.from_environment().records_url) as store:
        retention = RecordRetention(store)
        found = retention.prune(before) if execute else retention.surplus(before)
    show_rows([{"table": name, "rows": rows} for name, rows in found.items()], ("table", "rows"), output)
    if output is Format.TABLE and not execute:
        ERR.print(f"nothing is deleted; add --execute (older than {before:%Y-%m-%d %H:%M} UTC)", highlight=False)
