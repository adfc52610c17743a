"""The table of fates, asked of a database's own CASE for every row and every answer that a condition can give."""

from __future__ import annotations

import itertools
import sqlite3

import pytest

from databus.rows.frames.leaving import LEFT_OUT, UNJUDGED, Crossing, fate

Answer = int | None
"""1, 0, or None for NULL, which keeps nothing."""

CROSSING = Crossing("was", "as_delete", "as_insert", "lacked")
ROWS = [("c", 0, 1), ("r", 0, 1), ("u", 1, 1), ("u", 0, 1), ("d", 1, 0), ("f", 0, 0)]


def expected(op: str, answers: tuple[Answer, ...], *, both: bool, crossing: bool) -> str:
    kept, was, as_delete, as_insert, lacks, lacked = answers
    if op == LEFT_OUT:
        return LEFT_OUT
    if lacks:
        return UNJUDGED
    crosses = crossing and op == "u" and both
    if kept:
        return "c" if crosses and not lacked and not was and as_insert else op
    if crosses and lacked:
        return UNJUDGED
    return "d" if crosses and was and as_delete else LEFT_OUT


@pytest.mark.parametrize("crossing", [CROSSING, None], ids=["delete", "ignore"])
def test_every_row_meets_its_fate(crossing: Crossing | None) -> None:
    values = [
        (op, before, after, *answers)
        for op, before, after in ROWS
        for answers in itertools.product((None, 0, 1), (None, 0, 1), (None, 0, 1), (None, 0, 1), (0, 1), (0, 1))
    ]
    database = sqlite3.connect(":memory:")
    columns = "op, before, after, kept, was, as_delete, as_insert, lacks, lacked"
    database.execute(f"CREATE TABLE asked ({columns})")
    database.executemany(f"INSERT INTO asked VALUES (?, nullif(?, 0), nullif(?, 0), {', '.join('?' * 6)})", values)

    found = database.execute(f"SELECT {fate('kept', 'lacks', crossing)} FROM asked ORDER BY rowid").fetchall()

    database.close()
    wanted = [expected(v[0], v[3:], both=bool(v[1] and v[2]), crossing=crossing is not None) for v in values]
    assert [row[0] for row in found] == wanted
    assert set(wanted) >= {"u", "c", "r", LEFT_OUT, UNJUDGED, "d"}
