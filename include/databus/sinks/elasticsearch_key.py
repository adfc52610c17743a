"""Keys of an index: under which key columns its documents were written, and whether a table still has them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from databus.core.errors import SinkSettingError
from databus.core.tables import TableSchema
from databus.sinks.elasticsearch import OnKeyChange
from databus.sinks.elasticsearch_index import Indices, Standing

log = logging.getLogger(__name__)


def require_key(
    indices: Indices, index: str, table: TableSchema, earlier: Collection[str], policy: OnKeyChange
) -> None:
    """Refuse a table whose documents were written under ids of other key columns; ids hold values, names do not matter.

    Of an index that several tables may share nothing is remembered. What is accepted is written down in the index, and
    so is the key of one that does not say it: the present one is taken for that of its documents.

    Args:
        indices: the indices; `ensure` was called.
        index: name.
        table: a definition of the table, in the order of the log.
        earlier: columns that the table had before this definition, as far as they are known.
        policy: what to do about another key.

    Raises:
        SinkSettingError: the key is another one.
        SinkUnavailableError: no answer.
    """
    standing = indices.standing(index, table.full_name)
    now = table.primary_key
    if standing is None or indices.shared or now in (known := _known_keys(standing)):
        return
    if known and not any(_is_renamed(before, now, table, earlier) for before in known):
        if policy == "fail":
            raise _changed(indices.place, index, table, known[-1])
        log.warning(
            "%s: documents of %s in index %r have ids made of (%s), and its key is (%s) now: those of former ids stay "
            "as they are (on_key_change)",
            indices.place, table.full_name, index, ", ".join(known[-1]), ", ".join(now),
        )  # fmt: skip
    if standing.key:
        standing.keys = (*standing.keys, now)
    else:
        standing.key = now

    def added(ours: dict[str, Any]) -> dict[str, Any]:
        if ours.get("table") != table.full_name:  # somebody else's index: it is not ours to say
            return ours
        further = {"keys": [list(each) for each in standing.keys]} if standing.keys else {}
        return {**ours, "key": list(standing.key), **further}

    indices.write_down(index, added, f"ids are made of ({', '.join(now)}): it is asked again")


def _known_keys(standing: Standing) -> tuple[tuple[str, ...], ...]:
    return (standing.key, *standing.keys) if standing.key else ()


def _is_renamed(before: Sequence[str], now: Sequence[str], table: TableSchema, earlier: Collection[str]) -> bool:
    """Tell whether key columns only got other names: the old ones are gone, the new ones were not there before."""
    columns = {column.name for column in table.columns}
    return len(before) == len(now) and all(
        old == new or (old not in columns and new not in earlier) for old, new in zip(before, now, strict=True)
    )


def _changed(place: str, index: str, table: TableSchema, before: Sequence[str]) -> SinkSettingError:
    name = table.full_name
    return SinkSettingError(
        f"{place}: the primary key of {name} is ({', '.join(table.primary_key)}) now, and the documents of index "
        f"{index!r} have ids made of ({', '.join(before)}): later rows would overwrite and miss them",
        hint=f"Take a new index (`index` of the sink) and have the rows of {name} written again behind the ALTER, or "
        'go on knowingly with on_key_change="ignore" of the sink: documents under former ids stay until they are '
        "deleted by hand.",
        code="sink_key_changed",
    )
