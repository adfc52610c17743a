"""Places that the history names: batches back along the way that led here, and what lies in between."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.checkpoints.rules.adoption import check_adoption
from databus.checkpoints.rules.amendments import check_amendment
from databus.core.batches.counts import TableCounts
from databus.core.errors import CheckpointConflictError, ConfigError, OffsetPurgedError, SourceDivergedError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange, Ordering, SequenceOffset
from databus.core.state.amendments import Amendment, SinkEffect
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.ops.backfill.run import _require_consent
from databus.ops.checkpoint import targets
from databus.ops.checkpoint.preview import _with_own_batches, look, passed_over
from databus.ops.checkpoint.targets import Target, batches_back, resolve

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def history(*moves: tuple[str, int, int]) -> list[HistoryEntry]:
    """Entries of (action, from, to), newest first."""
    made = []
    for number, (action, start, end) in enumerate(moves, 1):
        commit = action == "commit"
        read = end - start
        counts = {"shop.orders": TableCounts(read, 0, 0, read)} if commit else {}
        receipts: tuple[dict[str, Any], ...] = (
            ({"sink": "kafka", "written": read, "outputs": {f"cdc[{number}]": {}}},) if commit else ()
        )
        made.append(
            HistoryEntry(
                number, action, "run", "", SequenceOffset(start), SequenceOffset(end), number, Epoch(1), counts,
                receipts, NOON,
            )
        )  # fmt: skip
    return made[::-1]


PLAIN = history(("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("pause", 20, 20), ("commit", 20, 35))
AFTER_REWIND = history(
    ("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("commit", 20, 30), ("rewind", 30, 10), ("commit", 10, 15)
)


@pytest.mark.parametrize(("count", "place"), [(1, 20), (2, 10), (3, 0)])
def test_batches_back(count: int, place: int) -> None:
    assert batches_back("f", PLAIN, SequenceOffset(35), count) == SequenceOffset(place)


def entry(number: int, action: str, previous: BinlogOffset | None, offset: BinlogOffset) -> HistoryEntry:
    return HistoryEntry(number, action, "run", "", previous, offset, number, Epoch(1), {}, (), NOON)


class TestAcrossFailBack:
    """From server a to b and back to a: timelines 0, 1 and 2."""

    first = BinlogOffset("bin.000001", 100, f"{U}:1-10", server="a")
    second = BinlogOffset("bin.000001", 200, f"{U}:1-20", server="a")
    on_b = BinlogOffset("bin.000007", 300, f"{U}:1-30", server="b", timeline=1)
    back = BinlogOffset("bin.000002", 400, f"{U}:1-40", server="a", timeline=2)
    entries = (
        entry(4, "commit", on_b, back),
        entry(3, "commit", second, on_b),
        entry(2, "commit", first, second),
        entry(1, "start", None, first),
    )

    @pytest.mark.parametrize(
        ("target", "place"),
        [
            (Target(entry=2), second),
            (Target(batches=3), first),
            (Target(batches=1), on_b),  # one more failover from there: above timeline 2
        ],
    )
    def test_a_place_of_the_history_is_put_onto_the_standing_timeline(
        self, target: Target, place: BinlogOffset
    ) -> None:
        looked_at: list[Any] = []
        services: Any = SimpleNamespace(store=SimpleNamespace(history=lambda *_: self.entries))
        source: Any = SimpleNamespace(lag=looked_at.append)
        flow: Any = SimpleNamespace(name="f")
        stands = Checkpoint(self.back, 4, Epoch(1), "run", "", {}, None, NOON)
        found = resolve(flow, services, source, stands, target)
        assert found == replace(place, timeline=2)
        assert found.compare(self.back) is Ordering.BEFORE
        assert looked_at == [found]

    def test_what_is_lower_is_refused(self) -> None:
        stands = Checkpoint(self.back, 4, Epoch(1), "run", "", {}, None, NOON)
        lower = Amendment("rewind", "ada", "again", self.second)
        with pytest.raises(CheckpointConflictError, match="timeline 0, the flow has come to timeline 2"):
            check_amendment("f", lower, stands, None, ())
        with pytest.raises(CheckpointConflictError, match="timeline 0"):
            check_adoption("f", stands, replace(stands, batch=5, offset=self.second))


def test_batches_back_follow_the_way_that_led_here() -> None:
    assert batches_back("f", AFTER_REWIND, SequenceOffset(15), 1) == SequenceOffset(10)
    assert batches_back("f", AFTER_REWIND, SequenceOffset(15), 2) == SequenceOffset(0)


UNDONE = history(
    ("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("commit", 20, 30), ("rewind", 30, 20), ("restore", 20, 30)
)
"""A flow whose rewind was undone."""


@pytest.mark.parametrize(("count", "place"), [(1, 20), (2, 10), (3, 0)])
def test_a_rewind_that_was_undone_is_no_way(count: int, place: int) -> None:
    assert batches_back("f", UNDONE, SequenceOffset(30), count) == SequenceOffset(place)


@pytest.mark.parametrize("place", [35, 34])
def test_more_than_the_history_holds_is_refused(place: int) -> None:
    with pytest.raises(ConfigError, match="4 batches back"):
        batches_back("f", PLAIN, SequenceOffset(place), 4)


def test_what_lies_between() -> None:
    passed = passed_over(PLAIN, SequenceOffset(35), SequenceOffset(12))
    assert (passed.batches, dict(passed.rows), passed.complete) == (2, {"shop.orders": 25}, True)
    assert (dict(passed.written), passed.outputs) == ({"kafka": 25}, {"kafka": ("cdc[5]", "cdc[3]")})
    assert not passed_over(PLAIN[:2], SequenceOffset(35), SequenceOffset(5)).complete
    assert passed_over(AFTER_REWIND, SequenceOffset(15), SequenceOffset(0)).rows == {"shop.orders": 15}


def test_what_a_receipt_tells_of_no_output_is_no_output() -> None:
    """Such as the rows that a sink's own transforms leave out, and a search sink's statements."""
    left_out = [
        replace(each, receipts=tuple({**r, "outputs": {"": {"filtered": 3}, **r["outputs"]}} for r in each.receipts))
        for each in PLAIN
    ]
    moved = OffsetRange(SequenceOffset(12), SequenceOffset(35))
    passed = passed_over(left_out, moved.end, moved.start)
    assert passed.outputs == {"kafka": ("cdc[5]", "cdc[3]")}
    alone = _with_own_batches(passed, {"kafka": left_out, "w": left_out[:1]}, moved)
    assert alone.outputs == {"kafka": ("cdc[5]", "cdc[3]"), "w": ("cdc[5]",)}
    asked: list[tuple[str, ...]] = []

    def effect_of(outputs: tuple[str, ...], *, back: bool) -> SinkEffect:
        asked.append(outputs)
        return SinkEffect("kafka", "")

    services: Any = SimpleNamespace(store=SimpleNamespace(history=lambda *_: left_out))
    ends: Any = SimpleNamespace(sinks={"kafka": SimpleNamespace(effect_of=effect_of)})
    _require_consent(
        Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("s.t",)), sinks=(Noop(),)),
        services,
        ends,
        SimpleNamespace(consents=False),
    )  # type: ignore[arg-type]
    assert [sorted(outputs) for outputs in asked] == [["cdc[2]", "cdc[3]", "cdc[5]"]]


ON_WAY_OVER_SKIP = history(("start", 0, 0), ("commit", 0, 10), ("skip", 10, 15), ("commit", 15, 20), ("skip", 20, 30))
"""A flow that was moved forward over two ranges."""


@pytest.mark.parametrize(("count", "place"), [(1, 15), (2, 0)])
def test_batches_back_follow_the_way_over_skips(count: int, place: int) -> None:
    assert batches_back("f", ON_WAY_OVER_SKIP, SequenceOffset(30), count) == SequenceOffset(place)


@pytest.mark.parametrize("end", [0, 3])
def test_what_lies_before_a_skip_is_told_as_well(end: int) -> None:
    passed = passed_over(ON_WAY_OVER_SKIP, SequenceOffset(30), SequenceOffset(end))
    assert (passed.batches, dict(passed.rows), dict(passed.written)) == (2, {"shop.orders": 15}, {"kafka": 15})
    assert passed.outputs == {"kafka": ("cdc[4]", "cdc[2]")}
    assert (passed.complete, passed.skipped) == (True, True)


def test_a_skip_alone_holds_nothing_that_was_moved() -> None:
    passed = passed_over(ON_WAY_OVER_SKIP, SequenceOffset(30), SequenceOffset(22))
    assert (passed.batches, passed.outputs, passed.complete, passed.skipped) == (0, {}, True, True)
    assert not passed_over(ON_WAY_OVER_SKIP, SequenceOffset(20), SequenceOffset(15)).skipped


@pytest.mark.parametrize("action", ["skip", "restore"])
def test_what_was_moved_before_it_was_set_back_and_passed_over_is_told(action: str) -> None:
    moves = history(("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("rewind", 20, 5), (action, 5, 25))
    assert passed_over(moves, SequenceOffset(25), SequenceOffset(5)).outputs == {"kafka": ("cdc[3]", "cdc[2]")}
    assert passed_over(moves, SequenceOffset(25), SequenceOffset(12)).written == {"kafka": 10}
    assert passed_over(moves, SequenceOffset(25), SequenceOffset(20)).written == {}


def test_what_lies_before_the_start_was_never_moved_and_what_was_adopted_is_not_known() -> None:
    moves = history(("start", 5, 5), ("commit", 5, 10))
    passed = passed_over(moves, SequenceOffset(10), SequenceOffset(0))
    assert (passed.batches, passed.complete) == (1, True)
    adopted = history(("start", 0, 0), ("commit", 0, 10), ("adopt", 10, 20), ("commit", 20, 25))
    passed = passed_over(adopted, SequenceOffset(25), SequenceOffset(5))
    assert (passed.batches, passed.complete) == (2, False)


def test_a_rewind_of_partitions_goes_on_until_each_of_them_is_there() -> None:
    def at(first: int, second: int) -> KafkaOffsets:
        return KafkaOffsets({"t": {0: first, 1: second}})

    places = [at(0, 0), at(0, 5), at(5, 5), at(9, 9)]
    moves = [
        HistoryEntry(n, "commit", "run", "", a, b, n, Epoch(1), {}, (), NOON)
        for n, (a, b) in enumerate(pairwise(places))
    ]
    assert passed_over(moves[::-1], places[-1], at(2, 0)).batches == 3


class Compacted:
    """A sink that refuses to be moved back behind what it wrote."""

    def effect_of(self, outputs: Any, *, back: bool) -> SinkEffect:
        return SinkEffect("kafka", "", f"{', '.join(outputs)} compacted" if back and outputs else "")


@pytest.mark.parametrize(
    ("moves", "refused"),
    [
        (ON_WAY_OVER_SKIP, "cdc[4], cdc[2] compacted"),
        (ON_WAY_OVER_SKIP[:3], "cdc[4] compacted"),  # trimmed: what is known of outputs stands for what is not
        (ON_WAY_OVER_SKIP[:1], "known compacted"),
    ],
)
def test_a_sink_is_asked_about_what_was_written_before_a_skip(
    monkeypatch: pytest.MonkeyPatch, moves: list[HistoryEntry], refused: str
) -> None:
    ids = {"kafka": {"known": "id"}} if len(moves) == 1 else {}
    stands = Checkpoint(SequenceOffset(30), 4, Epoch(1), "r", "", {}, None, NOON, output_ids=ids)
    own = SimpleNamespace(history=lambda *_: ())
    store = {
        "load": stands,
        "pending_plan": None,
        "sinks_behind": (),
        "history": moves,
        "of_sink": own,
        "snapshot": None,
    }
    services: Any = SimpleNamespace(store=SimpleNamespace(**{k: lambda *_, v=v: v for k, v in store.items()}))
    lag = SimpleNamespace(bytes=1)
    ends: Any = SimpleNamespace(source=SimpleNamespace(lag=lambda _: lag), sinks={"kafka": Compacted()})
    monkeypatch.setattr("databus.ops.checkpoint.preview.resolve", lambda *_: SequenceOffset(0))
    flow: Any = SimpleNamespace(name="f")
    assert [effect.refused for effect in look(flow, services, ends, "rewind", Target("earliest")).effects] == [refused]


@pytest.mark.parametrize(
    "given", [{}, {"place": "earliest", "batches": 1}, {"entry": 1, "past_gap": True}, {"batches": 1, "new_log": True}]
)
def test_exactly_one_place_is_named(given: Any) -> None:
    with pytest.raises(ConfigError, match="exactly one"):
        Target(**given)


class ReplacedLog:
    """A source whose log is another one than that of the places which `replaces` says."""

    def __init__(self, replaces: bool, purged: OffsetRange | None = None) -> None:
        self.why = SourceDivergedError("the log was replaced") if replaces else None
        self.purged = purged

    def log_replaced(self, standing: Any) -> SourceDivergedError | None:
        return self.why

    def forget_former_log(self, standing: Any) -> None:
        pass

    def earliest_offset(self) -> BinlogOffset:
        return BinlogOffset("bin.000001", 4, "", server="a", created_s=9)

    def offset_at(self, when: datetime) -> BinlogOffset:
        return BinlogOffset("bin.000041", 800, f"{U}:1-80", server="a")

    def lag(self, offset: Any) -> None:
        assert self.why is None, offset
        if self.purged:
            error = OffsetPurgedError("the log was deleted")
            error.missing = self.purged
            raise error


class TestReplacedLog:
    stands = BinlogOffset("bin.000042", 900, f"{U}:1-90", server="a", timeline=3, generation=1)
    flow: Any = SimpleNamespace(name="f")

    def test_a_sink_that_is_behind_refuses_the_move_before_anything_is_deleted(self) -> None:
        standing = Checkpoint(self.stands, 4, Epoch(1), "r", "", {}, None, NOON)
        store: dict[str, Any] = {"load": standing, "pending_plan": None, "sinks_behind": ("search",)}
        own = replace(standing, offset=replace(self.stands, pos=500))
        store["of_sink"] = SimpleNamespace(load=lambda _: own, pending_plan=lambda _: None)
        services: Any = SimpleNamespace(store=SimpleNamespace(**{k: lambda _, v=v: v for k, v in store.items()}))
        ends: Any = SimpleNamespace(source=ReplacedLog(replaces=True), sinks={})
        with pytest.raises(CheckpointConflictError, match="sinks stand behind the others: search"):
            look(self.flow, services, ends, "skip", Target(new_log=True))

    def resolve(self, source: Any, target: Target, *entries: HistoryEntry) -> Any:
        services: Any = SimpleNamespace(store=SimpleNamespace(history=lambda *_: entries))
        return resolve(
            self.flow, services, source, Checkpoint(self.stands, 4, Epoch(1), "r", "", {}, None, NOON), target
        )

    @pytest.mark.parametrize(
        "target",
        [Target("earliest"), Target("bin.000001:157"), Target("2024-01-31"), Target(batches=1), Target(entry=1),
         Target(past_gap=True)],
    )  # fmt: skip
    def test_no_place_is_looked_for_in_it(self, target: Target) -> None:
        with pytest.raises(SourceDivergedError, match="the log was replaced"):
            self.resolve(ReplacedLog(replaces=True), target)

    def test_its_beginning_lies_behind_all_and_above_all_versions(self) -> None:
        found = self.resolve(ReplacedLog(replaces=True), Target(new_log=True))
        assert (found.file, found.pos, found.timeline, found.generation) == ("bin.000001", 4, 4, 2)
        assert found.compare(self.stands) is Ordering.AFTER

    def test_a_time_is_looked_for_in_the_servers_own_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is kept (`Source.offset_at`) is still of the former log: its places mean other changes."""
        found, asked = BinlogOffset("bin.000001", 157, "", server="a", created_s=9), []
        monkeypatch.setattr(targets, "_start", lambda _flow, _services, place: asked.append(place) or found)
        monkeypatch.setattr(targets, "require_place", lambda *_: None)
        for place in ("2024-01-31T12:00:00", "bin.000001:157", "latest"):
            moved = self.resolve(ReplacedLog(replaces=True), Target(place, new_log=True))
            assert (moved.pos, moved.generation, asked.pop()) == (157, 2, place)

    def test_of_a_log_that_deleted_the_place_a_person_may_say_that_it_is_another(self) -> None:
        gone = OffsetRange(self.stands, replace(self.stands, file="bin.000043"))
        found = self.resolve(ReplacedLog(replaces=False, purged=gone), Target(new_log=True))
        assert (found.timeline, found.generation) == (4, 2)

    def test_where_none_was_replaced_nothing_is_taken_for_new(self) -> None:
        for source in (ReplacedLog(replaces=False), SimpleNamespace()):
            with pytest.raises(ConfigError, match="none has replaced it"):
                self.resolve(source, Target(new_log=True))

    def test_the_history_leads_back_to_no_former_log(self) -> None:
        former = BinlogOffset("bin.000900", 900, f"{U}:1-900", server="a")
        entries = (entry(2, "commit", former, self.stands), entry(1, "start", None, former))
        for target in (Target(entry=1), Target(batches=1)):
            with pytest.raises(SourceDivergedError, match="of a log that was replaced since"):
                self.resolve(ReplacedLog(replaces=False), target, *entries)


class TestLookedAt:
    """A place that a look begins at is counted as the flow counts it."""

    standing = BinlogOffset("bin.000001", 900, server=U, timeline=2, generation=1)
    there = BinlogOffset("bin.000001", 4, server=U)

    def looked(
        self, monkeypatch: pytest.MonkeyPatch, place: str, standing: Offset | None, found: Offset, *, replaced: bool
    ) -> Offset:
        monkeypatch.setattr(targets, "named", lambda *_: found)
        flow = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Noop(),))
        why = SourceDivergedError("replaced") if replaced else None
        source: Any = SimpleNamespace(log_replaced=lambda _: why, forget_former_log=lambda _: None)
        stands = Checkpoint(standing, 4, Epoch(1), "run", "", {}, None, NOON) if standing else None
        services: Any = None
        return targets.looked(flow, services, source, stands, place)

    @pytest.mark.parametrize(
        ("standing", "replaced", "timeline", "generation"),
        [
            (None, False, 0, 0),
            (standing, False, 2, 1),
            (standing, True, 3, 2),  # as it will be counted once the flow goes on there
            (replace(standing, server="former"), False, 2, 1),  # a failover that no batch has taken up
        ],
    )
    def test_as_the_flow_counts(
        self,
        monkeypatch: pytest.MonkeyPatch,
        standing: BinlogOffset | None,
        replaced: bool,
        timeline: int,
        generation: int,
    ) -> None:
        found = self.looked(monkeypatch, "earliest", standing, self.there, replaced=replaced)
        assert found == replace(self.there, timeline=timeline, generation=generation)

    def test_a_place_of_the_former_log_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = json.dumps(replace(self.there, pos=500).to_json())
        with pytest.raises(SourceDivergedError, match="of a log that was replaced since"):
            self.looked(monkeypatch, text, self.standing, self.there, replaced=False)

    def test_topics_that_were_made_anew_count_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        standing = KafkaOffsets({"orders": {0: 9}}, generations={"orders": {0: 2}})
        found = self.looked(monkeypatch, "earliest", standing, KafkaOffsets({"orders": {0: 3}}), replaced=False)
        assert found == KafkaOffsets({"orders": {0: 3}}, generations={"orders": {0: 2}})
