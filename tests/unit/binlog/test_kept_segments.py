"""Kept segments: limits, chains without gaps, and what a crash in the middle of keeping or pruning leaves."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.segments.kept_log import KeptLog, chain_from
from databus.binlog.segments.kept_segments import KeptSegment, KeptSegments, servers_with_kept_segments
from databus.binlog.segments.retention import KeepLimit
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.core.errors import ConfigError
from databus.core.positions.offsets import BinlogOffset, OffsetRange

A = "65046f36-e55e-11f1-844e-02fc00000001"


def kept(file: int, start: int, end: int, before: int, after: int, **fields: Any) -> KeptSegment:
    """A segment with transactions before + 1 … after of one source; position 124 begins a file."""
    values: dict[str, Any] = {
        "flavor": "mysql", "server": A, "file": f"bin.{file:06d}", "start_pos": start, "end_pos": end,
        "header_bytes": 120, "size_bytes": end - start + 120, "transactions": after - before,
        "gtids_before": f"{A}:1-{before}", "gtids_after": f"{A}:1-{after}", "min_ts_ms": before, "max_ts_ms": after,
        "kept_at": 1000.0 + before,
    }  # fmt: skip
    return KeptSegment(**{**values, **fields})


def at(file: int, pos: int, gtids: int) -> BinlogOffset:
    return BinlogOffset(f"bin.{file:06d}", pos, f"{A}:1-{gtids}", "mysql", A)


@pytest.mark.parametrize(
    ("text", "age", "size"),
    [
        ("", None, None),
        ("7d", 7 * 86_400, None),
        ("50GB", None, 50 * 10**9),
        ("7d,50GB", 7 * 86_400, 50 * 10**9),
        (" 1.5 GiB , 12h ", 43_200, 3 << 29),
        ("90m", 5400, None),
    ],
)
def test_limits_are_read(text: str, age: float | None, size: int | None) -> None:
    limit = KeepLimit.parse(text)
    assert (limit.max_age_s, limit.max_bytes) == (age, size)
    assert bool(limit) is bool(text)


@pytest.mark.parametrize("text", ["7", "GB", "7d,8d", "5x", "-1d", "7d;50GB"])
def test_bad_limits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="DATABUS_SEGMENT_KEEP") as caught:
        KeepLimit.parse(text)
    assert "7d,50GB" in caught.value.hint


def test_the_oldest_go_first() -> None:
    segments = [kept(1, 124 + 100 * n, 224 + 100 * n, n, n + 1) for n in range(5)]
    assert KeepLimit(max_bytes=3 * 220).surplus(segments, 1004.0) == segments[:2]
    assert KeepLimit(max_age_s=1.5).surplus(segments, 1004.0) == segments[:3]
    assert KeepLimit(max_age_s=3600, max_bytes=10**9).surplus(segments, 1004.0) == []
    assert KeepLimit().surplus(segments, 1004.0) == segments


def test_a_chain_has_no_gap() -> None:
    one, two = kept(1, 124, 500, 3, 10), kept(1, 500, 900, 10, 20)
    three, four = kept(2, 124, 300, 20, 25), kept(2, 400, 500, 27, 30)
    segments = [one, two, three, four]
    assert chain_from(segments, at(1, 4, 3)) == [one, two, three]
    assert chain_from(segments, at(1, 700, 15)) == [two, three]
    assert chain_from(segments, at(1, 900, 20)) == [three]
    assert chain_from(segments, at(2, 300, 25)) == []
    assert chain_from(segments, at(2, 4, 20)) == [three]
    # A later file follows only when nothing was executed in between.
    assert chain_from([one, two, dataclasses.replace(three, gtids_before=f"{A}:1-21")], at(1, 4, 3)) == [one, two]
    # Of overlapping ones the one that reaches further is taken.
    longer = kept(1, 124, 700, 3, 15)
    assert chain_from([one, longer, two, three], at(1, 4, 3)) == [longer, two, three]
    log = KeptLog(KeptSegments("/nowhere", A), [one, two], at(1, 4, 3))
    assert [log.reaches(at(1, pos, 1)) for pos in (124, 125, 900, 901)] == [False, True, True, False]
    assert not log.reaches(at(2, 200, 1))


def staged(folder: Path, count: int = 3) -> RangeIndex:
    """Segment files of 1,000 bytes each, and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    segments = []
    for n in range(count):
        start, end = 124 + 880 * n, 124 + 880 * (n + 1)
        name = f"bin.000001.{start}"
        (folder / name).write_bytes(bytes([n]) * 1000)
        gtids = f"{A}:1-{n + 1}"
        segments.append(
            Segment(name, "bin.000001", start, end, 1000, 1, {}, 1, 1, 1, True, min_ts_ms=1, gtids_before=gtids)
        )
    span = OffsetRange(at(1, 4, 1), at(1, 124 + 880 * count, count + 1))
    return RangeIndex(span, "shop.*", (), tuple(segments), 880 * count, False)


def test_kept_segments_outlive_the_range(tmp_path: Path) -> None:
    store = KeptSegments(str(tmp_path), A)
    assert store.list() == []
    index = staged(tmp_path / "range")
    store.keep(tmp_path / "range", index)
    for file in (tmp_path / "range").iterdir():
        file.unlink()
    again = KeptSegments(str(tmp_path), A)
    assert [(s.start_pos, s.end_pos, s.gtids_before, s.gtids_after) for s in again.list()] == [
        (124 + 880 * n, 124 + 880 * (n + 1), f"{A}:1-{n + 1}", f"{A}:1-{n + 2}") for n in range(3)
    ]
    with again.open(again.list()[2]) as data:
        assert data.read() == b"\x02" * 1000
    assert servers_with_kept_segments(str(tmp_path)) == [A]
    assert len(chain_from(again.list(), at(1, 4, 1))) == 3


def test_what_is_covered_is_not_kept_twice_and_a_reset_log_replaces(tmp_path: Path) -> None:
    store = KeptSegments(str(tmp_path), A)
    index = staged(tmp_path / "range")
    store.keep(tmp_path / "range", index)
    first = store.list()
    store.keep(tmp_path / "range", index)
    assert store.list() == first
    other = f"{A[:-1]}2"
    moved = tuple(dataclasses.replace(s, gtids_before=f"{other}:1-{n + 1}") for n, s in enumerate(index.segments))
    end = dataclasses.replace(index.range.end, gtids=f"{other}:1-9")  # type: ignore[type-var]
    store.keep(tmp_path / "range", dataclasses.replace(index, segments=moved, range=OffsetRange(at(1, 4, 1), end)))
    assert {s.gtids_before.partition(":")[0] for s in store.list()} == {other}


def killed(work: Callable[[], object], step: int) -> int:
    """Do work in a child that dies right before its n-th change of the file system; return its exit code."""
    child = os.fork()
    if child == 0:
        calls = itertools.count(1)

        def dying(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                if next(calls) == step:
                    os._exit(9)
                return real(*arguments, **options)

            return call

        for name in ("rename", "write_bytes", "unlink"):
            setattr(Path, name, dying(getattr(Path, name)))
        os.link, os.remove = dying(os.link), dying(os.remove)
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child must not come back into the test
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("what", ["keep", "prune"])
def test_a_kill_at_any_step_leaves_nothing_half(tmp_path: Path, what: str) -> None:
    for step in range(1, 40):
        root = tmp_path / str(step)
        index = staged(root / "range")
        if what == "prune":
            KeptSegments(str(root), A).keep(root / "range", index)
        store = KeptSegments(str(root), A)
        works = {
            "keep": lambda store=store, root=root, index=index: store.keep(root / "range", index),
            "prune": lambda store=store: store.prune(KeepLimit(max_bytes=1)),
        }
        code = killed(works[what], step)
        assert code in (0, 9)
        for segment in store.list():
            with store.open(segment) as data:
                assert data.read() == bytes([(segment.start_pos - 124) // 880]) * 1000
        # Whatever was left is gone with the next pruning, once it is old enough not to be someone's work.
        store.prune(KeepLimit(), time.time() + 7200)
        assert list((root / ".kept" / A).iterdir() if (root / ".kept" / A).exists() else []) == []
        store.keep(root / "range", staged(root / "range"))
        assert len(KeptSegments(str(root), A).list()) == 3
        if code == 0:
            assert step > 6
            return
    raise AssertionError("it never came to its end")


def test_a_damaged_description_is_not_used(tmp_path: Path) -> None:
    store = KeptSegments(str(tmp_path), A)
    store.keep(tmp_path / "range", staged(tmp_path / "range"))
    descriptions = sorted((tmp_path / ".kept" / A).glob("*.json"))
    descriptions[0].write_text("{")
    descriptions[1].write_text('{"v": 2}')
    assert [s.start_pos for s in KeptSegments(str(tmp_path), A).list()] == [124 + 1760]


def test_a_store_without_links_takes_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("another device")

    monkeypatch.setattr(os, "link", refused)
    store = KeptSegments(str(tmp_path), A)
    store.keep(tmp_path / "range", staged(tmp_path / "range"))
    assert len(store.list()) == 3


def test_any_fsspec_store_will_do(tmp_path: Path) -> None:
    store = KeptSegments("memory://kept-test", A)
    store.keep(tmp_path / "range", staged(tmp_path / "range"))
    assert len(KeptSegments("memory://kept-test", A).list()) == 3
    assert servers_with_kept_segments("memory://kept-test") == [A]
    assert len(store.prune(KeepLimit(max_bytes=1))) == 3
    assert KeptSegments("memory://kept-test", A).list() == []
