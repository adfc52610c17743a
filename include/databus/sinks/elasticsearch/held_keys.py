"""Keys of held documents: what an `_id` says of the row that it was made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from databus.core.tables.schemas import TableSchema

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", re.IGNORECASE)
_NUMBERS = re.compile(r"((tiny|small|medium|big)?int|decimal|float|double|year)\b")


def row_keys(table: TableSchema, ids: Iterable[str], *, shared: bool) -> list[bytes] | None:
    """Return the key JSON of those ids that a row of a table may have; None where an id does not say its key.

    Args:
        table: the table as the source has it.
        ids: `_id` of documents.
        shared: whether ids begin with the table's name.
    """
    key, types = table.primary_key, {column.name: column.type for column in table.columns}
    whole = [bool(_NUMBERS.match(types.get(name, ""))) for name in key]
    found = []
    for text in ids:
        if _DIGEST.fullmatch(text) and whole != [True]:
            return None
        if shared and not text.startswith(f"{table.full_name}:"):
            continue
        said = text[len(table.full_name) + 1 :] if shared else text
        values = _values(said) if len(key) > 1 else [said if whole[0] else json.dumps(said)]
        if len(values) != len(key) or any(n and not _NUMBER.fullmatch(v) for n, v in zip(whole, values, strict=True)):
            continue
        pairs = (f"{json.dumps(name)}:{value}" for name, value in zip(key, values, strict=True))
        found.append(f"{{{','.join(pairs)}}}".encode())
    return found


def table_of(text: str, tables: Sequence[str]) -> str | None:
    """Return the table whose name an id begins with; "" where none of them, None of an id that does not name its table.

    A colon in a table's name lets two names fit: the longer one is refused by the sink.
    """
    if _DIGEST.fullmatch(text):
        return None
    return next((name for name in tables if text.startswith(f"{name}:")), "")


def _values(text: str) -> list[str]:
    """Return the JSON text of each value of an id that is made of several; none of any other id."""
    try:
        listed = json.loads(text)
        if not isinstance(listed, list):
            return []
        spelled, decode, place = [], json.JSONDecoder().raw_decode, 1
        for _ in listed:
            _, end = decode(text, place)
            spelled.append(text[place:end])
            place = end + 1
    except ValueError:
        return []
    return spelled
