"""Numbers of rows in their transactions, and boundaries, against a plain count over the same rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from databus.core.events import BEGIN, END, TABLE_ORDER, TOTAL_ORDER
from databus.core.transactions import TransactionBoundary
from databus.rows.transaction_orders import TransactionOrders

Row = dict[str, Any]
_FATES = ("written", "written", "held", "other")

_ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(_FATES), st.sampled_from("cudr")), min_size=1),
    max_size=8,
)


def rows_of(transactions: list[list[tuple[str, str, str]]]) -> list[Row]:
    """Return rows in the order of the log, over two files."""
    found = []
    for number, changes in enumerate(transactions):
        log, gtid = f"log.{number // 4}", f"u:{number}" if number % 3 else ""
        for ordinal, (table, fate, op) in enumerate(changes):
            found.append(
                {"op": op, "database": "s", "table": table, "log": log, "place": 100 * (number % 4) + 4,
                 "transaction": gtid, "ordinal": ordinal, "event_id": f"{number}:{ordinal}:0", "ts_ms": number,
                 "server_id": 7, "fate": fate}
            )  # fmt: skip
    return found


def expected(rows: list[Row]) -> tuple[list[tuple[int | None, int | None]], list[tuple[Any, ...]]]:
    """Return the numbers of each row, and (status, id, counts, quarantined) of the boundaries."""
    numbers: list[tuple[int | None, int | None]] = []
    counts: dict[tuple[str, int], Counter[str]] = {}
    for row in rows:
        mine = row["op"] != "r" and row["fate"] != "other"
        here = counts.setdefault((row["log"], row["place"]), Counter()) if mine else Counter()
        name = f"s.{row['table']}" if row["fate"] == "written" else "held"
        here[name] += mine
        if mine and name != "held":
            numbers.append((sum(here.values()) - here["held"], here[name]))
        else:
            numbers.append((None, None))
    ids = {(row["log"], row["place"]): row["transaction"] or f"{row['log']}:{row['place']}" for row in rows}
    told: list[tuple[Any, ...]] = []
    for key, here in counts.items():
        held = here.pop("held", 0)
        told += [(BEGIN, ids[key], (), 0), (END, ids[key], tuple(sorted(here.items())), held)]
    return numbers, told


@given(_ROWS, st.lists(st.integers(1, 40)))
def test_numbers_and_boundaries_wherever_batches_are_cut(
    transactions: list[list[tuple[str, str, str]]], sizes: list[int]
) -> None:
    rows = rows_of(transactions)
    orders, start, seen = TransactionOrders(), 0, list[TransactionBoundary]()
    numbers: list[tuple[int | None, int | None]] = []
    while start < len(rows):
        size = sizes.pop() if sizes else len(rows)
        piece = rows[start : start + size]
        batch = pa.RecordBatch.from_pylist([{k: v for k, v in row.items() if k != "fate"} for row in piece])
        mine = np.array([row["fate"] != "other" for row in piece])
        held = np.array([row["fate"] == "held" for row in piece])
        found = orders.numbered(batch, mine, held)
        numbers += zip(found[TOTAL_ORDER].to_pylist(), found[TABLE_ORDER].to_pylist(), strict=True)
        seen += orders.taken()
        start += size
    seen += orders.end()
    wanted, told = expected(rows)
    assert numbers == wanted
    assert [(each.status, each.id, each.collections, each.quarantined) for each in seen] == told
    assert len({each.event_id for each in seen}) == len(seen)
