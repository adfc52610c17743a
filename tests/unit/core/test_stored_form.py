"""Every stored form says the lowest version that can express its value, and refuses by name what it does not know."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import databus
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.core.errors import CheckpointFormatError, MarkerDivergedError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange, offset_from_json
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry, ReplacedOutputs
from databus.core.state.plan import Plan, SinkPlan
from databus.core.stored_form import Form
from databus.core.tables.unlogged import UnloggedChange
from databus.sinks.kafka.markers import Marker

_SEGMENT = Segment("a", "bin.000001", 4, 90, 100, 1, {0: 1}, 1, 1, 1, checksum=True)
_RANGE = OffsetRange(BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 90))


def _forms() -> list[Form]:
    found: dict[int, Form] = {}
    for package in ("core", "checkpoints", "binlog", "sinks.kafka"):
        path = importlib.import_module(f"databus.{package}")
        for module in pkgutil.walk_packages(path.__path__, f"databus.{package}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Form):
                    found[id(value)] = value
    return sorted(found.values(), key=lambda form: form.name)


FORMS = _forms()


def test_all_forms_are_known_by_a_name_of_their_own() -> None:
    assert databus.__version__
    assert len({form.name for form in FORMS}) == len(FORMS) >= 25


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_newer_version_and_an_unknown_field_are_refused_by_name(form: Form) -> None:
    newer = {"v": form.latest + 1}
    with pytest.raises(CheckpointFormatError, match=f"stored {form.name} has format version") as refused:
        form.read(newer)
    assert "upgrade databus on every worker" in refused.value.hint
    with pytest.raises(CheckpointFormatError, match=f"stored {form.name} .* unknown fields: tomorrow"):
        form.read({"v": 1, "tomorrow": 1})


class TestLowestVersion:
    def test_of_a_binlog_offset(self) -> None:
        before = BinlogOffset("bin.000001", 4)
        assert "v" not in before.to_json()
        assert replace(before, created_s=7).to_json()["v"] == 2

    def test_of_a_kafka_offset(self) -> None:
        before = KafkaOffsets({"t": {0: 1}})
        assert "v" not in before.to_json()
        lives = KafkaOffsets({"t": {0: 1}}, lives={"t": {1: {0: 0}}})
        assert lives.to_json()["v"] == 2
        assert offset_from_json(lives.to_json()) == lives

    def test_of_new_outputs_in_a_plan_of_a_sink(self) -> None:
        assert "v" not in SinkPlan(2, (1, 1)).to_json()
        newer = SinkPlan(2, (1, 1), first=("orders",))
        assert newer.to_json() == {"v": 2, "slots": 2, "prev": [1, 1], "partitions": {}, "first": ["orders"]}
        assert SinkPlan.from_json(newer.to_json()) == newer

    def test_of_a_segment_and_its_index(self) -> None:
        index = RangeIndex(_RANGE, "*", (), (_SEGMENT,), 86, more=False)
        assert index.to_json()["v"] == 1
        newer = replace(index, segments=(replace(_SEGMENT, definitions=()),))
        assert newer.to_json()["v"] == 2
        assert RangeIndex.from_json(newer.to_json()) == newer
        dropped = UnloggedChange(("shop.t",), "ALTER TABLE t DROP PARTITION p0", "bin.000001", 4, 90)
        newest = replace(index, segments=(replace(_SEGMENT, unlogged=(dropped,)),))
        assert (newest.to_json()["v"], newest.to_json()["segments"][0]["v"]) == (3, 3)
        assert RangeIndex.from_json(newest.to_json()) == newest
        renames = replace(index, segments=(replace(_SEGMENT, others=True),))
        assert (renames.to_json()["v"], renames.to_json()["segments"][0]["v"]) == (4, 4)
        assert RangeIndex.from_json(renames.to_json()) == renames
        folds = replace(index, folds=True)
        assert folds.to_json()["v"] == 4
        assert RangeIndex.from_json(folds.to_json()) == folds

    def test_of_a_plan_of_a_sink(self) -> None:
        before = SinkPlan(1, (0,), {"t": 1})
        assert "v" not in before.to_json()
        pinned = replace(before, ids={"t": "x"}, names={"t": "t$"})
        assert pinned.to_json()["v"] == 2
        assert SinkPlan.from_json(pinned.to_json()) == pinned

    def test_of_a_checkpoint(self) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        before = Checkpoint(BinlogOffset("bin.000001", 4), 1, Epoch(1), "r", "h", {}, None, now)
        assert before.to_json()["v"] == 1
        assert replace(before, output_ids={"kafka": {}}).to_json()["v"] == 1
        for field in ("output_ids", "output_names"):
            knows = replace(before, **{field: {"kafka": {"t": "x"}}})
            assert knows.to_json()["v"] == 2
            assert Checkpoint.from_json(knows.to_json()) == knows
        assert replace(before, first={"search": ()}).to_json()["v"] == 1
        waits = replace(before, first={"search": ("i",)})
        assert waits.to_json()["v"] == 3
        assert Checkpoint.from_json(waits.to_json()) == waits
        for behind in (replace(before, detached=0), replace(waits, detached=7)):
            assert behind.to_json()["v"] == 4
            assert Checkpoint.from_json(behind.to_json()) == behind

    def test_of_a_history_entry(self) -> None:
        now, at = datetime(2026, 1, 1, tzinfo=UTC), BinlogOffset("bin.000001", 4)
        before = HistoryEntry(3, "accept", "ada", "on purpose", at, at, 2, Epoch(1), {}, (), now)
        assert before.to_json()["v"] == 1
        newest = replace(before, replaced=ReplacedOutputs(3, {"kafka": {"u": None, "t": "x"}}))
        assert newest.to_json()["v"] == 3
        assert "v" not in newest.to_json()["replaced"]
        assert HistoryEntry.from_json(newest.to_json()) == newest
        for written in ({"kafka": {"t[1]": 2, "t[0]": 1}}, {"kafka": {}}):
            knows = replace(before, replaced=ReplacedOutputs(3, {"kafka": {"t": "x"}}, written))
            assert knows.to_json()["replaced"]["v"] == 2
            assert HistoryEntry.from_json(knows.to_json()) == knows

    def test_of_a_marker(self) -> None:
        assert '"v":1' in Marker(1, "h").metadata()
        assert '"v":2' in Marker(1, "h", before="").metadata()
        assert '"v":3' in Marker(1, "h", place=("t[0]", 7, 0, 0)).metadata()


def test_fields_that_were_written_under_version_1_are_read() -> None:
    offset = {**KafkaOffsets({"t": {0: 1}}, lives={"t": {1: {0: 0}}}).to_json()}
    del offset["v"]
    assert offset_from_json(offset) == KafkaOffsets({"t": {0: 1}}, lives={"t": {1: {0: 0}}})
    marker = Marker(1, "h", before="b")
    assert Marker.parse(1, marker.metadata().replace('"v":2', '"v":1')) == marker


def test_a_plan_keeps_its_hash_whatever_versions_its_parts_say() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    end = BinlogOffset("bin.000001", 90, created_s=7)
    plan = Plan("i", "f", 1, OffsetRange(BinlogOffset("bin.000001", 4), end), {"v": SinkPlan()}, "s", now)
    # As it was before offsets had versions: markers hold that hash.
    assert plan.hash == "a38868245ddce343"
    further = replace(plan, closed_until=end)
    assert further.to_json()["closed_until"]["v"] == 2
    stored = further.to_json()
    del stored["closed_until"]["v"]
    assert Plan.from_json(stored).hash == further.hash


def test_a_plan_keeps_its_hash_when_another_topic_is_accepted() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    pinned = [SinkPlan(1, (0,), {"t": 1}, ids) for ids in ({}, {"t": "x"}, {"t": "y"})]
    plans = [Plan("i", "f", 1, _RANGE, {"kafka": sink}, "s", now) for sink in pinned]
    assert len({plan.hash for plan in plans}) == 1
    renamed = Plan("i", "f", 1, _RANGE, {"kafka": SinkPlan(1, (0,), {"ids": 1})}, "s", now)
    assert renamed.hash != plans[0].hash


def test_what_an_index_lacks_is_named() -> None:
    stored = RangeIndex(_RANGE, "*", (), (_SEGMENT,), 86, more=False).to_json()
    with pytest.raises(CheckpointFormatError, match="segment of format version 1 has unknown fields: colour"):
        RangeIndex.from_json({**stored, "segments": [{**stored["segments"][0], "colour": 1}]})
    with pytest.raises(CheckpointFormatError, match="lacks or garbles a field"):
        RangeIndex.from_json({"v": 1, "range": stored["range"]})


def test_a_newer_marker_is_refused_with_what_to_do() -> None:
    with pytest.raises(MarkerDivergedError, match="stored marker has format version 9") as refused:
        Marker.parse(1, Marker(1, "h").metadata().replace('"v":1', '"v":9'))
    assert "upgrade databus" in refused.value.hint
