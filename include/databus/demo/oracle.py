"""Oracle of the demo: what a consumer reads against what the source holds, by key and value."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

State = dict[str, dict[str, Any]]
"""Canonical key JSON → the row's values, as JSON gives them."""


@dataclass
class ConsumedTopic:
    """Records that a read_committed consumer read of one topic.

    Attributes:
        messages: records with a value.
        tombstones: records without one.
        duplicates: event ids seen more than once.
        disordered: records of a key whose position in the log is before an earlier record's.
        state: the rows that the records add up to, by table.
        changes: records by (table, key), a consumer's own count of changes.
        reads: records of op `r` by (table, key), apart from these: rows as a snapshot read them.
    """

    messages: int = 0
    tombstones: int = 0
    duplicates: int = 0
    disordered: int = 0
    state: dict[str, State] = field(default_factory=dict)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    reads: Counter[tuple[str, str]] = field(default_factory=Counter)


def fold(records: Iterable[tuple[bytes | None, bytes | None]]) -> ConsumedTopic:
    """Apply Debezium-style records (key, value) in the order a consumer got them."""
    seen = ConsumedTopic()
    ids: set[str] = set()
    last: dict[tuple[str, str], tuple[int, str, int, int]] = {}
    for key, value in records:
        if value is None:
            seen.tombstones += 1
            continue
        record = json.loads(value, parse_float=Decimal)
        source = record["source"]
        table, name = f"{source['db']}.{source['table']}", key.decode() if key else ""
        seen.messages += 1
        (seen.reads if record["op"] == "r" else seen.changes)[table, name] += 1
        seen.duplicates += source["event_id"] in ids
        ids.add(source["event_id"])
        place = (len(source["file"]), source["file"], source["pos"], source["row"])
        seen.disordered += place < last.get((table, name), place)
        last[table, name] = place
        rows = seen.state.setdefault(table, {})
        if record["op"] == "d":
            rows.pop(name, None)
        else:
            rows[name] = record["after"]
    return seen


def source_state(
    connection: Any, table: str, keys: tuple[str, ...], change: Callable[[dict[str, Any]], Any] = lambda row: row
) -> State:
    """Read a table and return its rows as they should look in JSON.

    Args:
        connection: open PyMySQL connection.
        table: `database.table`.
        keys: primary-key columns in key order.
        change: what the flow's transforms do to a row; returns the row, or None for one it filters out.
    """
    state: State = {}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own table names
        names = [d[0] for d in cursor.description]
        types = {d[0]: (d[1], d[5]) for d in cursor.description}
        for values in cursor.fetchall():
            row = {n: to_json(v, types[n]) for n, v in zip(names, values, strict=True)}
            key = json.dumps({k: row[k] for k in keys}, separators=(",", ":"), ensure_ascii=False, default=int)
            changed = change(row)
            if changed is not None:
                state[key] = changed
    return state


_DATETIME, _TIMESTAMP, _BIT, _JSON = 12, 7, 16, 245


def to_json(value: Any, kind: tuple[int, int]) -> Any:
    """Return a PyMySQL value as the product should write it into JSON.

    Args:
        value: what SELECT gave.
        kind: (protocol type, decimals) of the column.
    """
    code, digits = kind
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S") + _fraction(value.microsecond, digits)
        return text + ("Z" if code == _TIMESTAMP else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        seconds, fraction = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else ""
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return sign + clock + _fraction(fraction, digits)
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") if code == _BIT else base64.b64encode(value).decode()
    if code == _JSON and value is not None:
        return json.loads(value, parse_float=Decimal)
    return value


def _fraction(micros: int, digits: int) -> str:
    return "." + f"{micros:06d}"[:digits] if digits else ""


def mismatches(expected: State, actual: Mapping[str, Any]) -> list[str]:
    """Return a line for each key that is missing, too many, or has another value; empty when all is equal."""
    lines = [f"{key}: missing" for key in expected.keys() - actual.keys()]
    lines += [f"{key}: should not be there" for key in actual.keys() - expected.keys()]
    for key in expected.keys() & actual.keys():
        wanted, found = expected[key], actual[key]
        for name in wanted.keys() | found.keys():
            if name not in wanted or name not in found or not same(wanted[name], found[name]):
                lines.append(f"{key}.{name}: {wanted.get(name, '<absent>')!r} became {found.get(name, '<absent>')!r}")
    return sorted(lines)


def same(wanted: Any, found: Any) -> bool:
    """Return whether a JSON value is the source's value; numbers by value, JSON documents by content."""
    if isinstance(wanted, dict | list) and isinstance(found, str):
        return bool(json.loads(found, parse_float=Decimal) == wanted)
    if isinstance(wanted, float) and isinstance(found, Decimal | int | float):
        return float(found) == wanted
    if isinstance(wanted, int | Decimal) and not isinstance(wanted, bool):
        return isinstance(found, int | float | Decimal) and Decimal(str(found)) == Decimal(str(wanted))
    return type(wanted) is type(found) and bool(wanted == found)
