"""Rows at a place of a flow's source, as those may see them who have no account at the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.ops.decode.row_lines import printable
from databus.ops.quarantine.exact_json import dumps
from databus.ops.quarantine.sample import HIDDEN, hidden_names, shown_payload
from databus.ops.runs.lost_names import LostNames
from databus.ops.runs.preview import peek
from databus.runtime.context import Services

MOST_ROWS = 1_000
_MOST_CHARS = 16 * 2**20
"""Characters of an answer: it is held in memory."""


def shown_rows(flow: Flow, services: Services, start: str | None, rows: int) -> list[str]:
    """Return row changes as lines of JSON, without what the flow hides of them now.

    A run stops where a column that is hidden is gone from its table, for it may have another name; here all values of
    such a row are hidden.

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
    lost = LostNames(flow, services, from_checkpoint=start is None)
    for row in peek(flow, services, start, rows, lost.note):
        lines.append(_shown(flow, row, lost))
        left -= len(lines[-1])
        if left < 0:
            raise ConfigError(
                f"flow {flow.name}: the first {len(lines)} rows are longer than {_MOST_CHARS / 2**20:.0f} MiB",
                hint="Ask for fewer rows, or run `databus peek` where the source can be reached.",
            )
    return lines


def _shown(flow: Flow, row: dict[str, Any], lost: LostNames) -> str:
    table = f"{row['database']}.{row['table']}"
    hidden = hidden_names(flow, table) or lost.names_elsewhere
    uncertain = lost.any_in(table, row)
    if not hidden and not uncertain:
        return printable(row)
    # Statements may hold values in their text, and the other key of an update is bytes.
    told = {**row, **{name: HIDDEN for name in ("statement", "other_key") if row.get(name) is not None}}
    if uncertain:
        return printable({**told, **{name: _covered(row.get(name)) for name in ("key", "before", "after")}})
    return dumps(shown_payload(printable(told), hidden))


def _covered(found: Any) -> Any:
    """Return a key or an image without its values."""
    if not isinstance(found, Mapping):
        return found and HIDDEN
    return {name: HIDDEN if value is not None else None for name, value in found.items()}
