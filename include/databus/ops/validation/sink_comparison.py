"""Comparison of one sink with the source's tables: all keys by their hashes, then those that differ in rounds.

Whatever the source's views show was in the sink at the first look or came later, so a key whose row was in the sink at
any of these moments as the source has it is equal. A key that differs is judged by a version that stays: the sink held
it at one look; after that look the source was read in a view that shows all the sink could hold by then; the flow went
on until all that the view shows had reached the sink; and at a second look the sink's row was still the same writing. A
change of the key in between would have been written anew. So nothing that writers do meanwhile looks like a difference.
A key whose writing changed is taken to another round.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from databus.core.flow import Flow
from databus.core.positions.offsets import Offset
from databus.core.protocols.validated_sink import OriginTellingState, SinkState, ValidatedSink, held_schema
from databus.ops.validation import looked_keys as looked
from databus.ops.validation.both_sides import BothSides
from databus.ops.validation.checkpoint_wait import CheckpointWait
from databus.ops.validation.expected_rows import ExpectedRows
from databus.ops.validation.extra_keys import judged
from databus.ops.validation.looked_keys import WantedRow, looked_keys, size_of
from databus.ops.validation.result import FIGURES, Difference, SinkComparison
from databus.ops.validation.row_hashes import keys_of
from databus.ops.validation.sink_keys import Key, SinkKeys
from databus.ops.validation.table_reads import TableReads
from databus.ops.validation.work_folder import work_folder
from databus.sinks.row_state import settled

log = logging.getLogger(__name__)

ROUNDS = 5


@dataclass
class ComparedSink:
    """Comparison of one sink, under way.

    Attributes:
        flow: the flow.
        name: sink name.
        sink: the open sink.
        outputs: output → `database.table` of those of the flow's tables whose rows go there.
        tables: tables to compare.
        reads: reads the source.
        wait: waits for the flow.
        most: contents are kept of so many differences; of the others keys alone.
        hidden: whether tables that the flow's patterns mean may be hidden from the account.
    """

    flow: Flow
    name: str
    sink: ValidatedSink
    outputs: Mapping[str, tuple[str, ...]]
    tables: tuple[str, ...]
    reads: TableReads
    wait: CheckpointWait
    hidden: bool = False
    most: int = 20
    figures: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    found: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    beyond: int = 0
    moving: list[Key] = field(default_factory=list)
    cut: bool = False
    _keys: SinkKeys = field(init=False)

    def __post_init__(self) -> None:
        self._keys = SinkKeys(self.flow, self.sink, self.outputs, self.tables, self.reads.schemas)

    @property
    def keys_say(self) -> bool:
        """Return whether a key in the sink says its table."""
        return self._keys.say_table

    def whole(self) -> SinkComparison:
        """Compare all rows of the tables.

        Raises:
            DatabusError: source, store or sink cannot be read; the flow does not go on; see `CheckpointWait.reached`.
        """
        with (
            work_folder() as folder,
            closing(self.sink.held(sorted(self.outputs))) as state,
            BothSides(folder) as sides,
        ):
            self._read_both(state, sides)
            self._await_reads()
            for rows in state.later():
                sides.hold(rows, later=True)
            self._differing(sides, state)
        return self._result()

    def sampled(self, conditions: Mapping[str, str]) -> SinkComparison:
        """Compare the rows of some conditions; extra rows are not looked for.

        Raises:
            DatabusError: as `whole`.
        """
        with closing(self.sink.held(sorted(self.outputs))) as state:
            covers = self.wait.reached(self.reads.source.end_of_log(self.wait.standing()))
            keys = self._sample(covers, conditions)
            before = {key: version for key, (_, version) in self._looked(state, keys).items()}
            self._rounds(state, before, conditions)
        return self._result()

    def _sample(self, covers: Offset, conditions: Mapping[str, str]) -> set[Key]:
        """Return the keys of the rows of some conditions, up to `looked_keys.MOST_BYTES` of rows."""
        keys: set[Key] = set()
        size = 0
        for key, row in self._rows(self.reads.read(covers, conditions)):
            size += size_of(key, row.content)
            if size > looked.MOST_BYTES:
                self.cut = True
                self.notes.append(
                    f"the sample ended after {len(keys)} rows: it is more than {looked.MOST_BYTES >> 20} MiB"
                )
                break
            keys.add(key)
        return keys

    def _read_both(self, state: SinkState, sides: BothSides) -> None:
        """Read the sink, and the source in views that show all that the sink held; side by side where that holds."""
        rows, stop = state.rows(), threading.Event()
        with ThreadPoolExecutor(1, "databus-validate") as pool:
            scan = pool.submit(self._scan, rows, sides, stop)
            try:
                if not state.of_one_moment:
                    scan.result()
                self._expect(sides, lambda: scan.result() if scan.done() else None)
            except BaseException:
                stop.set()
                raise
            scan.result()
        log.info("sink %s: %d records, %d rows of the source read", self.name, sides.held, sides.expected)

    @staticmethod
    def _scan(rows: Iterator[pa.RecordBatch], sides: BothSides, stop: threading.Event) -> None:
        for batch in rows:
            if stop.is_set():
                return
            sides.hold(batch)

    def _expect(self, sides: BothSides, require: Callable[[], object]) -> None:
        """Read the source; `require` raises where that is in vain."""
        covers = self.wait.reached(self.reads.source.end_of_log(self.wait.standing()))
        for part in self.reads.read(covers, dict.fromkeys(self.tables, "")):
            require()
            keyed = self._keyed(part)
            self._count(keyed)
            sides.expect(keyed)

    def _differing(self, sides: BothSides, state: SinkState) -> None:
        """Look at the keys whose rows differ."""
        seen = sides.differing()
        if seen.twice:
            self.notes.append(
                f"{seen.twice} rows share their key with a row of another table in the same output: one of them "
                "replaces the other there"
            )
        before, wanted, self.beyond = looked_keys(sides, seen, self._keys.may_be_extra)
        self._rounds(state, before, None, wanted)

    def _rounds(
        self,
        state: SinkState,
        before: dict[Key, str | None],
        conditions: Mapping[str, str] | None,
        wanted: Mapping[Key, WantedRow] | None = None,
    ) -> None:
        """Judge keys, those that move again and again in further rounds.

        Args:
            state: the sink's state.
            before: key → version at the look before the source was read.
            conditions: what to read of the tables in the first round; None for what the keys say.
            wanted: rows that were read after that look, once the sink has all that was there then; None to read them.
        """
        for number in range(1, ROUNDS + 1):
            if not before and not (number == 1 and conditions):
                return
            if wanted is None:
                wanted = self._read(before, conditions, counts=number == 1)
            keys = {*before, *wanted} if conditions else set(before)
            before = self._judged(before, wanted, state, keys, first=number == 1)
            wanted = conditions = None
        self.moving = list(before)
        for key in before:
            self.figures[self._keys.table(key)]["moving"] += 1

    def _judged(
        self,
        before: Mapping[Key, str | None],
        wanted: Mapping[Key, WantedRow],
        state: SinkState,
        keys: Iterable[Key],
        *,
        first: bool,
    ) -> dict[Key, str | None]:
        """Note the keys that differ; return those that cannot be judged yet, with their versions."""
        again: dict[Key, str | None] = {}
        # No version tells an absent row from one that came and went: it is looked at twice.
        for key, (content, version) in self._looked(state, keys).items():
            row = wanted.get(key)
            if row is not None and row.held_back:
                continue
            source = None if row is None else row.content
            if content == source:
                continue
            if key not in before or version != before[key] or (version is None and first):
                again[key] = version
                continue
            kind = "missing" if content is None else "extra" if source is None else "different"
            table = self._keys.table(key) if row is None else row.table
            self.figures[table][kind] += 1
            origin = state.origin(*key) if kind == "extra" and isinstance(state, OriginTellingState) else None
            shown = (source, content) if len(self.found) < self.most else (None, None)
            self.found.append(Difference(kind, table, *key, *shown, origin))  # type: ignore[arg-type] # Kind
        return again

    def _read(self, keys: Iterable[Key], conditions: Mapping[str, str] | None, *, counts: bool) -> dict[Key, WantedRow]:
        """Read rows anew, and wait until the sink has all that was there then; return those of the keys.

        Where `conditions` say what to read, all rows that are read.
        """
        covers = self.wait.reached(self.reads.source.end_of_log(self.wait.standing()))
        asked = set(keys)
        reads = self.reads.read(covers, self._keys.conditions(asked) if conditions is None else conditions)
        counted = (self._counted(part) for part in reads) if counts else reads
        every = conditions is not None and not self.cut
        found = {key: row for key, row in self._rows(counted) if every or key in asked}
        self._await_reads()
        return found

    def _await_reads(self) -> None:
        if self.reads.end is not None:
            self.wait.reached(self.reads.end)

    def _rows(self, parts: Iterable[ExpectedRows]) -> Iterable[tuple[Key, WantedRow]]:
        for part in parts:
            keyed = part if not part.rows["key"].null_count else part.filter(pc.is_valid(part.rows["key"]))
            contents, tables = keyed.rows["content"].to_pylist(), keyed.tables.to_pylist()
            held = keyed.held.tolist()
            for key, content, table, is_held in zip(keys_of(keyed.rows), contents, tables, held, strict=True):
                yield key, WantedRow(settled(content), table, is_held)

    def _counted(self, part: ExpectedRows) -> ExpectedRows:
        keyed = self._keyed(part)
        self._count(keyed)
        return keyed

    def _keyed(self, part: ExpectedRows) -> ExpectedRows:
        """Return the rows that have a key; count the others."""
        if not part.rows["key"].null_count:
            return part
        valid = pc.is_valid(part.rows["key"])
        for table in part.tables.filter(pc.invert(valid)).to_pylist():
            self.figures[table]["without_key"] += 1
        return part.filter(valid)

    def _count(self, part: ExpectedRows) -> None:
        for table, held, rows in part.counts():
            self.figures[table]["held_back" if held else "rows"] += rows

    def _looked(self, state: SinkState, keys: Iterable[Key]) -> dict[Key, tuple[bytes | None, str | None]]:
        asked = sorted(keys)
        if not asked:
            return {}
        rows = state.look(
            pa.RecordBatch.from_arrays(
                [pa.array([key[n] for key in asked], held_schema().field(n).type) for n in (0, 1)],
                names=["output", "key"],
            )
        )
        contents = map(settled, rows["content"].to_pylist())
        return dict(zip(asked, zip(contents, rows["version"].to_pylist(), strict=True), strict=True))

    def _result(self) -> SinkComparison:
        names = [*self.tables, *(name for name in self.figures if name not in self.tables)]
        figures = {name: {figure: self.figures[name][figure] for figure in FIGURES} for name in names}
        self.notes.extend(self._keys.shared())
        repairs = self._keys.repairs(self.found, whole=bool(self.beyond))
        extra = judged(self._keys, self.found, self.moving, hidden=self.hidden)
        return SinkComparison(
            self.name, figures, tuple(self.found), self.beyond, tuple(self.notes), repairs,
            extra.deletes, extra.kept, frozenset(extra.others),
        )  # fmt: skip
