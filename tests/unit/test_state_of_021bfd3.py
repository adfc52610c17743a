"""What commit 021bfd3 wrote is read, and written again byte for byte: a value without newer fields stays version 1."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.segments.kept_segments import KeptSegments, servers_with_kept_segments
from databus.binlog.segments.large_values import LargeValueStore, read_large_value
from databus.binlog.segments.store import SegmentStore
from databus.checkpoints.codec import OWNER, decode_as, encode
from databus.checkpoints.holder import EPOCH, LeaseHolder
from databus.checkpoints.nodes.large_values import LargeValues, reference
from databus.checkpoints.spool import PlanSpool
from databus.core.alerts.book import AlertState
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import offset_from_json
from databus.core.state.amendments import Pause
from databus.core.state.backfill import Backfill, Boundary
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import Announcement
from databus.records.ledger.pages import LedgerPages
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.store import RecordStore
from databus.sinks.kafka.markers import Marker

STATE = Path(__file__).parents[1] / "fixtures" / "state_021bfd3"
ZNODES: dict[str, str] = json.loads((STATE / "znodes.json").read_text())
_FLOWS = "/databus/flows/"


def _stored(build: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda data: dict(build(data).to_json())


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**Checkpoint.from_json(data).to_json(), "history": data["history"]}


FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    r".*/checkpoint": _checkpoint,
    r".*/plan": _stored(Plan.from_json),
    r".*/history/\d+": _stored(HistoryEntry.from_json),
    r".*/gaps/\d+": _stored(Gap.from_json),
    r".*/alerts/[^/]+": _stored(AlertState.from_json),
    r".*/backfills/[^/]+": _stored(Backfill.from_json),
    r".*/boundaries/[^/]+": _stored(Boundary.from_json),
    r".*/paused": _stored(Pause.from_json),
    r".*/lease": _stored(LeaseHolder.from_json),
    r".*/epoch": lambda data: EPOCH.write(EPOCH.read(data)),
    r"/databus/servers/.*": lambda data: OWNER.write(OWNER.read(data)),
}


def _segments() -> str:
    return str(STATE / "segments")


def _plan(flow: str) -> Plan:
    return decode_as(ZNODES[f"{_FLOWS}{flow}/plan"].encode(), "plan", Plan.from_json)


@pytest.mark.parametrize("path", [p for p in ZNODES if p != f"{_FLOWS}kept_wide/plan"])
def test_znode(path: str) -> None:
    (form,) = [form for pattern, form in FORMS.items() if re.fullmatch(pattern, path)]
    assert encode(decode_as(ZNODES[path].encode(), path, form)) == ZNODES[path].encode()


def test_every_kind_of_znode_is_there() -> None:
    for pattern in FORMS:
        assert any(re.fullmatch(pattern, path) for path in ZNODES), pattern


def test_offsets() -> None:
    stored = json.loads((STATE / "offsets.json").read_text())
    assert [offset_from_json(data).to_json() for data in stored] == stored
    assert {data["kind"] for data in stored} == {"binlog", "kafka", "sequence"}


def test_markers_hold_the_hashes_of_the_plans() -> None:
    stored = json.loads((STATE / "markers.json").read_text())
    written = [(offset, text) for slots in stored["groups"].values() for _, offset, text in slots if offset >= 0]
    for offset, text in (*written, *stored["others"]):
        assert Marker.parse(offset, text).metadata() == text
    plan = _plan("kept_written")
    marks = [Marker.parse(offset, text) for _, offset, text in stored["groups"]["databus.kept.kept_written.kafka"]]
    assert {(mark.batch, mark.hash, mark.state) for mark in marks} == {(plan.batch, plan.hash, "written")}


def test_a_large_plan(tmp_path: Path) -> None:
    shutil.copytree(_segments(), tmp_path, dirs_exist_ok=True)
    node = ZNODES[f"{_FLOWS}kept_wide/plan"].encode()
    assert reference(node)
    value = LargeValues(str(tmp_path), "kept").unpack("kept_wide", node)
    assert encode(decode_as(value, "plan", Plan.from_json).to_json()) == value


def test_a_staged_range_with_its_prepares() -> None:
    planned = _plan("kept_binlog").range
    server = json.loads(ZNODES[f"{_FLOWS}kept_binlog/checkpoint"])["offset"]["server"]
    index = SegmentStore(_segments(), "kept_binlog", server).find(planned)
    assert index is not None
    assert index.range == planned
    assert [table.full_name for table in index.tables] == ["kept_shop.items"]
    assert sum(1 for segment in index.segments if segment.commits) == 1
    (stored,) = (STATE / "segments" / "kept_binlog").rglob("index.json")
    assert json.loads(json.dumps(index.to_json())) == json.loads(stored.read_text())


def test_a_kept_prepare(tmp_path: Path) -> None:
    start = _plan("kept_binlog").range.start
    store = SegmentStore(_segments(), "kept_binlog", start.server)  # type: ignore[attr-defined]
    (prepared,) = start.prepared  # type: ignore[attr-defined]
    found = store.load_pin(prepared, tmp_path / "copy")
    assert found is not None
    assert found.definitions is None  # not kept then: the log is asked for them
    assert (tmp_path / "copy").stat().st_size > 100


def test_kept_segments_and_a_claim() -> None:
    (server,) = servers_with_kept_segments(_segments())
    kept = KeptSegments(_segments(), server).list()
    assert len(kept) == 5
    assert all(a.end_pos == b.start_pos for a, b in itertools.pairwise(kept))
    (claim,) = LargeValueStore(_segments()).list()
    assert b"".join(read_large_value(claim.path)) == b"x" * 3000


def test_a_spool() -> None:
    spool = PlanSpool(_segments(), "kept", "kept_hand")
    (last,) = [f for f in (STATE / "segments/_detached/kept/kept_hand").iterdir() if f.name.startswith("0000000002")]
    committed = Checkpoint.from_json(json.loads(ZNODES[f"{_FLOWS}kept_planned/checkpoint"]))
    before = Checkpoint(**{**vars(committed), "batch": 0, "plan_hash": ""})
    chain = spool.chain(before, Announcement(Epoch(1), 2, last.name.split("-")[1].split(".")[0]))
    assert [outcome.plan.batch for outcome in chain.outcomes] == [1]
    assert chain.pending is not None
    assert chain.pending.batch == 2


def test_records(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "records.db")
    connection.executescript((STATE / "records.sql").read_text())
    connection.close()
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}") as store:
        for flow in ("kept_written", "kept_hand"):
            pages = LedgerPages(store).pages(flow)
            history = [ZNODES[p] for p in sorted(ZNODES) if p.startswith(f"{_FLOWS}{flow}/history/")]
            entries = [HistoryEntry.from_json(json.loads(text)) for text in history]
            assert [page.entry for page in pages] == entries
        tally = HeldRows(store, "kept_written").tally()
        assert (sum(tally["held"].values()) > 0, sum(tally["discarded"].values())) == (True, 1)
        assert HeldRows(store, "kept_written").select(Selection())
