"""Extra keys of sinks: which of them a repair may delete, because nobody else's row can be meant.

A snapshot's delete goes to every sink of the flow. So a key is deleted only where its record names the flow and the
table, or its id the table, and no other sink of the flow may hold somebody else's row under it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from databus.core.flow import Flow
from databus.core.tables.schemas import TableSchema
from databus.ops.validation import sink_keys
from databus.ops.validation.key_conditions import conditions_for
from databus.ops.validation.result import DeletedKeys, Difference, ExtraKey, SinkComparison, Validation
from databus.ops.validation.sink_keys import Key, SinkKeys
from databus.transforms.filter import Filter

FILTERED = "of a flow that filters rows, or routes them by value: nothing tells whether it would send such a row"
HIDDEN = "that may be of tables which the flow's patterns mean and the account is not shown"
OTHERS = "of another flow or table, as the records say"
UNSAID = 'that do not say of which table they are (only envelope="debezium" and ids="table_key" do)'
UNNAMED = "of which nothing says which row of one table it would be"
ELSEWHERE = "under which another sink of the flow holds, or may hold, what is not the flow's"
"""Why keys are not deleted; said behind "2 extra keys"."""


@dataclass
class ExtraKeys:
    """Extra keys of one sink, judged.

    Attributes:
        deletes: `database.table` → keys that may be deleted, as far as this sink tells.
        kept: why the others are not → how many.
        others: table and JSON of the key, of rows whose delete would hit one of the others.
    """

    deletes: dict[str, list[ExtraKey]] = field(default_factory=lambda: defaultdict(list))
    kept: Counter[str] = field(default_factory=Counter)
    others: set[tuple[str, str]] = field(default_factory=set)


def judged(keys: SinkKeys, found: Sequence[Difference], moving: Iterable[Key], *, hidden: bool) -> ExtraKeys:
    """Judge the extra keys among what differs.

    Args:
        keys: keys of the sink.
        found: what differs.
        moving: keys that were not judged.
        hidden: whether tables that the flow's patterns mean may be hidden from the account.
    """
    made, filters = ExtraKeys(), _filters(keys.flow)
    for each in found:
        if each.kind != "extra":
            continue
        row_key = keys.row_key(each.table, each.key)
        why = FILTERED if filters else HIDDEN if hidden else _why(keys, each, row_key)
        if not why:
            made.deletes[each.table].append(ExtraKey(each.output, each.key, row_key))
            continue
        made.kept[why] += 1
        made.others.update(_meant(keys, (each.output, each.key)))
    for key in moving:
        made.others.update(_meant(keys, key))
    return made


def _meant(keys: SinkKeys, key: Key) -> Iterator[tuple[str, str]]:
    """Yield the rows, as table and JSON of the key, that go to a key."""
    output, text = key
    for table in keys.outputs[output]:
        if named := keys.row_key(table, text):
            yield table, named


def with_deletes(
    found: Validation, flow: Flow, schemas: Mapping[str, TableSchema], unseen: Mapping[str, frozenset[str]]
) -> Validation:
    """Return a validation with the extra keys of all its sinks that may be deleted, each once.

    Args:
        found: the sinks, compared.
        flow: the flow.
        schemas: `database.table` → the table as it was read.
        unseen: sink → tables of which it may hold extra keys that nobody looked at; also of sinks not compared.
    """
    kept = sum((Counter(sink.kept) for sink in found.sinks), Counter[str]())
    joined: dict[str, dict[str, list[ExtraKey]]] = defaultdict(lambda: defaultdict(list))
    others = frozenset[tuple[str, str]]().union(*(each.others for each in found.sinks))
    for sink in found.sinks:
        dark = frozenset[str]().union(*(tables for name, tables in unseen.items() if name != sink.sink))
        for table, keys in sink.deletes.items():
            for each in keys:
                if table in dark or (table, each.row_key) in others:
                    kept[ELSEWHERE] += 1
                else:
                    joined[table][each.row_key].append(each)
    deletes: dict[str, tuple[DeletedKeys, ...]] = {}
    deleted: list[ExtraKey] = []
    for table, those in joined.items():
        named = list(those)[: sink_keys.MOST_REPAIRED]
        if left := len(those) - len(named):
            kept[f"behind the first {sink_keys.MOST_REPAIRED} of {table}: validate again for them"] += left
        cut = sink_keys.parts(named, lambda part, table=table: _condition(flow, table, part, schemas))  # type: ignore[misc]
        deletes[table] = tuple(DeletedKeys(where, tuple(part)) for where, part in cut if where)
        deleted += [each for part in deletes[table] for key in part.keys for each in those[key]]
    return Validation(found.flow, found.sinks, found.rows_read, found.seconds_read, deletes, deleted, kept)


def unseen_of(sink: SinkComparison, outputs: Mapping[str, Sequence[str]], keys_say: bool) -> frozenset[str]:
    """Return the tables of which a compared sink may hold extra keys that nobody looked at.

    Args:
        sink: the sink.
        outputs: output → the flow's tables whose rows go there.
        keys_say: whether a key says its table, so that none of another table's is meant.
    """
    if sink.beyond:
        return frozenset(table for tables in outputs.values() for table in tables)
    if keys_say:
        return frozenset()
    return frozenset(t for tables in outputs.values() if not set(tables) <= set(sink.tables) for t in tables)


def _why(keys: SinkKeys, each: Difference, row_key: str) -> str:
    """Return why a key may not be deleted; "" where it may."""
    told = keys.told((each.output, each.key))
    if told is None:
        if each.origin is None:
            return UNSAID
        if each.origin.flow != keys.flow.name or each.origin.table not in keys.outputs[each.output]:
            return OTHERS
        told = each.origin.table
    return "" if told == each.table and row_key else UNNAMED


def _filters(flow: Flow) -> bool:
    leaves_out = any(isinstance(each, Filter) or each.most_copies > 1 for each in flow.transforms)
    return leaves_out or bool(getattr(flow.source, "row_filters", ()))


def _condition(flow: Flow, table: str, keys: Sequence[str], schemas: Mapping[str, TableSchema]) -> str:
    return conditions_for(flow, [table], {key.encode() for key in keys}, schemas)[table]
