"""Several commits of a history as one entry, which still proves their range and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, Ordering
from databus.core.state.checkpoint import HistoryEntry, MergedCommits

_FIRST, _LAST = "first_offset", "last_offset"


def mergeable(entry: HistoryEntry) -> bool:
    """Return whether an entry may become part of another: a commit with nothing held back or vanished."""
    if entry.action != "commit" or not entry.plan_hash or entry.previous is None:
        return False
    if isinstance(entry.offset, KafkaOffsets) and entry.offset.passed:
        return False  # a gap
    held = any(counts.quarantined for counts in entry.counts.values())
    return not held and not any(receipt.get("rejected") or receipt.get("vanished") for receipt in entry.receipts)


def goes_on(before: HistoryEntry, after: HistoryEntry) -> bool:
    """Return whether an entry goes on where another ended, in the same life of the same log, to the same outputs."""
    if after.previous is None or after.previous.compare(before.offset) is not Ordering.EQUAL:
        return False
    if after.first != before.number + 1 or after.epoch < before.epoch or _log(before.offset) != _log(after.offset):
        return False
    mine, theirs = _sources(before), _sources(after)
    return all(mine[output] == theirs[output] for output in mine.keys() & theirs.keys())


def merged(entries: Sequence[HistoryEntry]) -> HistoryEntry:
    """Return the entry that stands for entries which go on from one another; it has the last one's number and plan."""
    first, last = entries[0], entries[-1]
    counts: dict[str, TableCounts] = {}
    for entry in entries:
        for table, mine in entry.counts.items():
            counts[table] = counts.get(table, TableCounts()).plus(mine)
    sizes = [entry.bytes for entry in entries]
    known = first.merged or MergedCommits(first.number, first.batch, 1)
    return replace(
        last,
        previous=first.previous,
        counts=counts,
        receipts=tuple(_receipts(entries)),
        bytes=None if None in sizes else sum(size or 0 for size in sizes),
        merged=replace(known, batches=sum(entry.merged.batches if entry.merged else 1 for entry in entries)),
    )


def _log(offset: Offset) -> tuple[Any, ...]:
    if isinstance(offset, BinlogOffset):
        return offset.server, offset.timeline, offset.file.rpartition(".")[0]
    if isinstance(offset, KafkaOffsets):
        return dict(offset.ids), dict(offset.generations), dict(offset.lives)
    return ()


def _sources(entry: HistoryEntry) -> dict[str, Any]:
    """Return output → the partition that a mirror fills it from; None of other sinks."""
    return {
        output: facts.get("source")
        for receipt in entry.receipts
        for output, facts in dict(receipt.get("outputs") or {}).items()
    }


def _receipts(entries: Sequence[HistoryEntry]) -> Iterable[Mapping[str, Any]]:
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for entry in entries:
        for receipt in entry.receipts:
            found.setdefault((str(receipt["sink"]), int(receipt.get("slot", 0))), []).append(receipt)
    for (sink, slot), receipts in sorted(found.items()):
        outputs: dict[str, list[Mapping[str, Any]]] = {}
        for receipt in receipts:
            for name, facts in dict(receipt.get("outputs") or {}).items():
                outputs.setdefault(name, []).append(facts)
        yield {
            "sink": sink,
            "slot": slot,
            "batch": entries[-1].batch,
            "written": sum(int(receipt.get("written", 0)) for receipt in receipts),
            "rows": _sums([dict(receipt.get("rows", {})) for receipt in receipts]),
            "rejected": 0,
            "outputs": {name: _facts(facts) for name, facts in sorted(outputs.items())},
            "duplicate": False,
        }


def _facts(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what holds of an output over several batches: sums, the first and the last place, the partition behind it.

    Runs of a mirror are left out: between the first and the last place, which record became which is not known.
    """
    found: dict[str, Any] = _sums([{n: v for n, v in one.items() if n not in (_FIRST, _LAST)} for one in facts])
    placed = [one for one in facts if one.get(_FIRST, -1) >= 0]
    if placed and all(one in placed or not one.get("records") for one in facts):
        found |= {_FIRST: min(one[_FIRST] for one in placed), _LAST: max(one[_LAST] for one in placed)}
    source = facts[0].get("source")
    return found | ({"source": source} if source is not None else {})


def _sums(values: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in values:
        for name, value in one.items():
            if isinstance(value, int) and not isinstance(value, bool):
                found[name] = found.get(name, 0) + value
    return found
