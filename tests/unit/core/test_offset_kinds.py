"""Offsets of another package: found by an entry point, stored as they are, refused by name without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.cli.terminal.places import in_words
from databus.core.errors import CheckpointFormatError, OffsetInvalidError, SourceDivergedError
from databus.core.positions import offset_kinds
from databus.core.positions.offset_kinds import GROUP, KINDS, NOT_LOADED, UNKNOWN, is_known, offset_class
from databus.core.positions.offset_ranges import overlap, without
from databus.core.positions.offsets import Offset, OffsetRange, Ordering, SequenceOffset, offset_from_json
from databus.core.state.backfill import Aim, Mode, backfill_id
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan
from databus.ops.checkpoint.place_words import place_word

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)

MODULE = """
from dataclasses import dataclass, field
from databus.core.positions.offset import Ordering
from databus.core.stored_form import Form

FORM = Form("ledger page", "kind book page", "line", part=True)

@dataclass(frozen=True)
class PageOffset:
    book: str
    page: int
    line: int = 0
    kind: str = "page"

    def to_json(self):
        line = {"line": self.line} if self.line else {}
        return FORM.write({"kind": self.kind, "book": self.book, "page": self.page, **line})

    @classmethod
    def from_json(cls, data):
        values = FORM.read(data)
        return cls(**values)

    def compare(self, other):
        if not isinstance(other, PageOffset) or other.book != self.book:
            return Ordering.DIVERGED
        mine, theirs = (self.page, self.line), (other.page, other.line)
        return Ordering.EQUAL if mine == theirs else Ordering.BEFORE if mine < theirs else Ordering.AFTER

    def __str__(self):
        return f"{self.book}, page {self.page}"

class Liar(PageOffset):
    @classmethod
    def from_json(cls, data):
        return PageOffset(data["book"], data["page"])

class Hollow(PageOffset):
    def __len__(self):
        return self.page

class Half:
    kind = "half"
"""

POINTS = f"""[{GROUP}]
page = ledger_pages:PageOffset
liar = ledger_pages:Liar
half = ledger_pages:Half
gone = ledger_pages:Nobody
hollow = ledger_pages:Hollow
away = no_such_module_here:Offset
kafka = ledger_pages:PageOffset
"""

AGAIN = """
import json, sys
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.plan import Plan
forms = {"checkpoint": Checkpoint, "plan": Plan, "entry": HistoryEntry}
found = []
for name, data in json.load(sys.stdin):
    value = forms[name].from_json(data)
    found.append([value.to_json(), value.hash if name == "plan" else ""])
json.dump(found, sys.stdout)
"""


def write_package(folder: Path) -> None:
    """Lay a package with an entry point into a folder, as pip leaves it there."""
    (folder / "ledger_pages.py").write_text(MODULE)
    info = folder / "ledger_pages-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger-pages\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)


@dataclass(frozen=True)
class Installed:
    """A folder that holds the package, and its class."""

    folder: Path
    page: Any


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    write_package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget()
    yield Installed(tmp_path, offset_class("page"))
    sys.modules.pop("ledger_pages", None)
    _forget()


def _forget() -> None:
    offset_kinds.offset_class.cache_clear()
    offset_kinds._points.cache_clear()


def _checkpoint(offset: Offset, until: Offset | None = None) -> Checkpoint:
    return Checkpoint(offset, 7, Epoch(3), "run", "hash", {}, NOON, NOON, replay_until=until, closed_until=until)


def _entry(offset: Offset, previous: Offset) -> HistoryEntry:
    return HistoryEntry(4, "commit", "run", "", previous, offset, 7, Epoch(3), {}, (), NOON)


def _plan(start: Offset, end: Offset) -> Plan:
    return Plan("default", "orders", 8, OffsetRange(start, end), {}, "spec", NOON, closed_until=end)


def _elsewhere(stored: list[list[Any]], *path: Path) -> list[list[Any]]:
    """Read stored forms in a fresh process and return what it writes again, with the hashes of plans."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], input=json.dumps(stored), capture_output=True, text=True, env=env, check=True
    )
    found: list[list[Any]] = json.loads(done.stdout)
    return found


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.text(max_size=9), st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 9)),
        min_size=20,
        max_size=40,
    )
)
def test_a_checkpoint_and_a_plan_are_read_in_a_fresh_process(
    installed: Installed, drawn: list[tuple[str, int, int, int]]
) -> None:
    stored: list[list[Any]] = []
    hashes = []
    for book, page, more, line in drawn:
        start, end = installed.page(book, page), installed.page(book, page + more, line)
        plan = _plan(start, end)
        values: dict[str, Any] = {"checkpoint": _checkpoint(end, start), "plan": plan, "entry": _entry(end, start)}
        for name, value in values.items():
            again = type(value).from_json(json.loads(json.dumps(value.to_json())))
            assert again == value
            stored.append([name, value.to_json()])
            hashes.append(plan.hash if name == "plan" else "")
    assert _elsewhere(stored, installed.folder) == [
        [data, hash_] for (_, data), hash_ in zip(stored, hashes, strict=True)
    ]


def test_without_the_package_its_offset_is_refused_by_name(installed: Installed) -> None:
    stored = _checkpoint(installed.page("a", 1)).to_json()
    sys.path.remove(str(installed.folder))
    _forget()
    with pytest.raises(CheckpointFormatError, match="unknown kind 'page'") as refused:
        Checkpoint.from_json(stored)
    assert refused.value.code == UNKNOWN
    assert f"entry point 'page' in the group {GROUP}" in refused.value.message
    assert "Install the package of the source" in refused.value.hint
    assert "binlog, kafka, pg_snapshot, sequence" in refused.value.hint


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("half", "lacks from_json, to_json, compare"),
        ("gone", "cannot be loaded"),
        ("hollow", "has __len__: an offset is never false"),
        ("away", "no_such_module_here"),
        ("liar", "reads it as 'page'"),
    ],
)
def test_a_class_that_is_no_offset_is_named(installed: Installed, kind: str, why: str) -> None:
    assert installed.folder
    with pytest.raises(CheckpointFormatError, match=why) as refused:
        offset_from_json({"kind": kind, "book": "a", "page": 1})
    assert refused.value.code == NOT_LOADED
    assert GROUP in refused.value.hint


def test_other_packages_cannot_replace_ours_and_ours_ask_no_metadata(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed.folder
    assert offset_class("kafka").__name__ == "KafkaOffsets"
    _forget()
    monkeypatch.setattr(offset_kinds, "entry_points", lambda **_: pytest.fail("metadata was read"))
    for kind in KINDS:
        assert offset_class(kind)
        assert is_known(kind)
    assert offset_from_json(SequenceOffset(3).to_json()) == SequenceOffset(3)


def test_its_own_versions_are_its_own_business(installed: Installed) -> None:
    newer = installed.page("a", 1, 5)
    assert newer.to_json()["v"] == 2
    assert _checkpoint(newer).to_json()["offset"] == newer.to_json()
    with pytest.raises(CheckpointFormatError, match="stored ledger page has format version 3"):
        offset_from_json({**newer.to_json(), "v": 3})
    with pytest.raises(CheckpointFormatError, match="cannot be read"):
        offset_from_json({"kind": "page"})


def test_what_only_knows_the_protocol_works(installed: Installed) -> None:
    first, last = installed.page("a", 1), installed.page("a", 9)
    span = OffsetRange(first, last)
    assert not span.empty
    assert last.compare(SequenceOffset(1)) is Ordering.DIVERGED
    assert SequenceOffset(1).compare(last) is Ordering.DIVERGED
    with pytest.raises(OffsetInvalidError):
        OffsetRange(last, first)
    assert in_words(span.to_json()) == "a, page 1 → a, page 9"
    assert in_words(last.to_json()) == "a, page 9"
    assert offset_from_json(json.loads(place_word(last))) == last
    assert without(span, [OffsetRange(installed.page("a", 3), installed.page("a", 5))]) == (
        OffsetRange(first, installed.page("a", 3)),
        OffsetRange(installed.page("a", 5), last),
    )
    with pytest.raises(SourceDivergedError, match="cannot be ordered, says their kind 'page'"):
        overlap(span, OffsetRange(installed.page("b", 1), installed.page("b", 2)))
    sink = {"kind": "page", "topic": "orders"}  # a sink's kind may be called the same
    assert in_words(sink) is sink
    aim = Aim(Mode.MISSING)
    other = OffsetRange(first, replace(last, line=3))
    assert str(other) == str(span)
    assert backfill_id(aim, other) != backfill_id(aim, span)
