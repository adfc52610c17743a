"""Kept segments of a log that was replaced go; those of the log that took its place stay, whoever goes onto it when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from databus.binlog.log.events import HEADER_BYTES
from databus.binlog.segments.former_segments import former_segments
from databus.binlog.segments.kept_segments import KeptSegments
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.core.positions.offsets import BinlogOffset, OffsetRange

A = "65046f36-e55e-11f1-844e-02fc00000001"
RESET_S = 1000
STANDS = BinlogOffset("bin.000003", 700, f"{A}:1-60", "mysql", A, created_s=RESET_S - 100)
"""Where flows stood in the former log."""

File = tuple[int, int]
"""Number, and when it was begun."""

FORMER = {(1, 700): (0, 20), (2, 800): (20, 40), (3, 900): (40, 70), (4, 990): (70, 90)}
NEW = {(1, 1001): (0, 20), (2, 1100): (20, 25), (3, 1200): (25, 60), (4, 1300): (60, 80)}
"""File → GTIDs before it and at its end. The first ones of both logs hold the same GTIDs."""


class Folder:
    """The kept segments of a server, of which each file has two."""

    def __init__(self, root: Path):
        self.root, self.store = root, KeptSegments(str(root), A)

    def keep(self, file: File, gtids: tuple[int, int]) -> None:
        """Keep a file's segments as a flow does that has staged them."""
        number, created_s = file
        name, (before, after) = f"bin.{number:06d}", gtids
        folder = self.root / "range"
        folder.mkdir(exist_ok=True)
        parts = []
        for start, end, first in ((124, 500, before), (500, 900, (before + after) // 2)):
            segment = Segment(
                f"{name}.{start}", name, start, end, end - start + 120, 1, {}, 1, 1, 1, True, gtids_before=_set(first)
            )
            (folder / segment.name).unlink(missing_ok=True)  # what is kept is a link to it
            (folder / segment.name).write_bytes(created_s.to_bytes(4, "little") + bytes(HEADER_BYTES + 200))
            parts.append(segment)
        begin = BinlogOffset(name, 4, _set(before), "mysql", A)
        span = OffsetRange(begin, BinlogOffset(name, 900, _set(after), "mysql", A))
        self.store.keep(folder, RangeIndex(span, "*", (), tuple(parts), 776, False))

    def files(self) -> set[File]:
        return {(segment.number, self.store.created_s(segment)) for segment in self.store.list()}

    def count(self, log: dict[File, tuple[int, int]]) -> int:
        return sum((s.number, self.store.created_s(s)) in log for s in self.store.list())

    def go_on(self, first_left: int, standing: BinlogOffset = STANDS) -> None:
        """Forget the former log, of the new one the server has its files from one on."""
        log = {
            f"bin.{number:06d}": BinlogOffset(f"bin.{number:06d}", 4, _set(before), "mysql", A, created_s=created_s)
            for (number, created_s), (before, _) in NEW.items()
            if number >= first_left
        }
        self.store.forget(former_segments(self.store.list(), self.store.created_s, log, standing))


class KilledError(Exception):
    """The process is gone."""


class Killing:
    """Lets a folder's files be removed so many times, and then never again."""

    def __init__(self, patch: pytest.MonkeyPatch, store: KeptSegments, after: int):
        self.left, self.remove = after, store._remove
        patch.setattr(store, "_remove", self)

    def __call__(self, path: str) -> None:
        if not self.left:
            raise KilledError
        self.left -= 1
        self.remove(path)


def _set(last: int) -> str:
    return f"{A}:1-{last}" if last else f"{A}:1"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("first_left", [1, 2, 3, 4])
def test_only_the_former_log_goes_whatever_the_server_has_deleted(folder: Folder, first_left: int) -> None:
    for file in ((3, 900), (4, 990)):
        folder.keep(file, FORMER[file])
    for file in ((1, 1001), (2, 1100)):
        folder.keep(file, NEW[file])
    folder.keep((3, 1200), NEW[3, 1200])  # takes the former one's name
    assert folder.files() == {(1, 1001), (2, 1100), (3, 1200), (4, 990)}
    folder.go_on(first_left)
    assert folder.files() == {(1, 1001), (2, 1100), (3, 1200)}
    folder.go_on(first_left)
    assert folder.count(NEW) == 6


@pytest.mark.parametrize("killed_after", range(17))
@pytest.mark.parametrize(
    "ahead_first", [True, False], ids=["the flow ahead moves first", "the flow behind moves first"]
)
def test_two_flows_move_one_after_the_other_each_killed_at_any_step_and_begun_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, ahead_first: bool, killed_after: int
) -> None:
    behind = replace(STANDS, file="bin.000002", gtids=f"{A}:1-30", created_s=800)
    for file, gtids in FORMER.items():
        folder.keep(file, gtids)
    kept: set[File] = set()
    for number, standing in enumerate((STANDS, behind) if ahead_first else (behind, STANDS)):
        for attempt in (killed_after, 1000):
            with monkeypatch.context() as patch:
                Killing(patch, folder.store, attempt)
                try:
                    folder.go_on(1 + 2 * number, standing)
                except KilledError:
                    assert attempt == killed_after
            assert kept <= folder.files()
        assert folder.files() == kept
        for file in list(NEW)[2 * number : 2 * number + 2]:
            folder.keep(file, NEW[file])
            kept.add(file)
    assert folder.count(NEW) == len(folder.store.list()) == 8


def test_what_is_written_under_a_name_meanwhile_stays(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another flow keeps the new log's segments while this one deletes the former one's, which have their names."""
    folder.keep((3, 900), FORMER[3, 900])
    former = folder.store.list()
    folder.keep((3, 1200), NEW[3, 1200])
    folder.store.forget(former)
    assert folder.files() == {(3, 1200)}
    assert folder.count(NEW) == 2


def test_a_file_that_lost_its_end_is_of_the_former_log(folder: Folder) -> None:
    """It is the file of the place, and is of both: what was kept of its end is gone on the server."""
    folder.keep((3, 1200), NEW[3, 1200])
    folder.go_on(1, replace(STANDS, created_s=1200))
    assert folder.files() == set()


def test_what_nothing_shows_to_be_of_the_new_log_goes(folder: Folder) -> None:
    """Of a file that the server has deleted, behind which the next one is not kept."""
    for file in ((1, 1001), (3, 1200)):
        folder.keep(file, NEW[file])
    folder.go_on(4)
    assert folder.files() == {(3, 1200)}
