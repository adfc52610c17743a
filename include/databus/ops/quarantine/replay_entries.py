"""Entries of the quarantine that one replay takes up: an event goes to a single sink in it, or to all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from databus.core.batches.receipts import CHECK
from databus.records.quarantine import HeldRow

MAX_ROWS = 2_000
"""Rows of one replay; more are several."""


def in_replays(rows: Sequence[HeldRow]) -> list[tuple[int, list[HeldRow]]]:
    """Cut held entries into replays, oldest batch first.

    Entries of several sinks on one event are taken up by a replay each. Beside a check's entry they are taken up
    together: what a check had held goes to every sink.

    Returns:
        (batch whose range is read, entries of at most `MAX_ROWS` events) of each replay.
    """
    checked = {row.event_id: row.batch for row in rows if row.stage == CHECK}
    before: Counter[tuple[int, str]] = Counter()
    shares: dict[tuple[int, int], dict[str, list[HeldRow]]] = {}
    for row in rows:
        origin, event = checked.get(row.event_id, row.batch), row.event_id
        share = shares.setdefault((origin, 0 if event in checked else before[origin, event]), {})
        share.setdefault(event, []).append(row)
        before[origin, event] += 1
    return [
        (origin, [row for event in events[first : first + MAX_ROWS] for row in event])
        for (origin, _), events in sorted((key, list(share.values())) for key, share in shares.items())
        for first in range(0, len(events), MAX_ROWS)
    ]


def stages_of(taken: Sequence[HeldRow]) -> tuple[dict[str, str], list[HeldRow]]:
    """Return event id → stage whose row a replay sends, and the entries that this answers.

    `021bfd3` took up entries of several sinks on one event, and sent the row to the last of them: a replay that it left
    unfinished is finished so, and the other entries are held still.
    """
    sent = {row.event_id: row.stage for row in sorted(taken, key=lambda row: row.stage == CHECK)}
    return sent, [row for row in taken if sent[row.event_id] in (CHECK, row.stage)]
