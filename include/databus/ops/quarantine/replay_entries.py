"""Entries of the quarantine that one replay takes up: an event goes to a single sink in it, or to all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from databus.core.batches.receipts import CHECK
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.ops.quarantine.replay_range import BatchRanges
from databus.ops.quarantine.replay_refusals import SINK_BEHIND, ReplayRefusal, concerns_its_rows_alone, require_passed
from databus.ops.quarantine.show import held_rows
from databus.records.quarantine.held_row import HeldRow
from databus.runtime.context import Services

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


def refusals(flow: Flow, services: Services, held: Sequence[HeldRow]) -> list[ReplayRefusal]:
    """Return the rows that a replay would refuse because a sink is behind.

    Whether the log still has the ranges of the others, and whether these are known, the replay alone shows.

    Args:
        flow: the flow.
        services: the installation.
        held: the rows that are meant.
    """
    found = []
    with held_rows(flow, services) as rows:
        ranges = BatchRanges(flow.name, services.store, rows, [spec.sink_name for spec in flow.sinks])
        for origin, batch in in_replays(held):
            try:
                require_passed(flow, services.store, ranges.of(origin), batch)
            except DatabusError as error:
                if not concerns_its_rows_alone(error):
                    raise
                if error.code == SINK_BEHIND:
                    found.append(ReplayRefusal(origin, len(batch), error))
    return found
