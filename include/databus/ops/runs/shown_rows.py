"""Rows at a place of a flow's source, as those may see them who have no account at the source."""

from __future__ import annotations

from typing import Any

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.ops.decode.row_lines import printable
from databus.ops.quarantine.exact_json import dumps
from databus.ops.quarantine.sample import HIDDEN, hidden_names, shown_payload
from databus.ops.runs.preview import peek
from databus.runtime.context import Services

MOST_ROWS = 1_000
_MOST_CHARS = 16 * 2**20
"""Characters of an answer: it is held in memory."""


def shown_rows(flow: Flow, services: Services, start: str | None, rows: int) -> list[str]:
    """Return row changes as lines of JSON, without what the flow hides of them now.

    Args:
        flow: the flow.
        services: where to connect.
        start: a place in any form, None for the checkpoint.
        rows: how many at most.

    Raises:
        ConfigError: they are longer than an answer may be.
        DatabusError: as `databus.ops.runs.preview.peek`.
    """
    lines: list[str] = []
    left = _MOST_CHARS
    for row in peek(flow, services, start, rows):
        lines.append(_shown(flow, row))
        left -= len(lines[-1])
        if left < 0:
            raise ConfigError(
                f"flow {flow.name}: the first {len(lines)} rows are longer than {_MOST_CHARS / 2**20:.0f} MiB",
                hint="Ask for fewer rows, or run `databus peek` where the source can be reached.",
            )
    return lines


def _shown(flow: Flow, row: dict[str, Any]) -> str:
    hidden = hidden_names(flow, f"{row['database']}.{row['table']}")
    if not hidden:
        return printable(row)
    # Statements may hold values in their text, and the other key of an update is bytes.
    told = {**row, **{name: HIDDEN for name in ("statement", "other_key") if row.get(name) is not None}}
    return dumps(shown_payload(printable(told), hidden))
