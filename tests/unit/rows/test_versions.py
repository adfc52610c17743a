"""Versions of rows rise with every newer change of a key, whatever the source and whatever became of its log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus import rows
from databus.core.errors import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, Ordering, SequenceOffset
from databus.core.positions.topic_lives import grown, made_anew
from databus.rows.versions import comparable, version_numbers, version_of

Change = tuple[dict[str, Any], Offset]
"""A row of one key and the end of the range that it was read in."""


def row(log: str, place: int, ordinal: int = 0, part: int = 0) -> dict[str, Any]:
    return {"log": log, "place": place, "ordinal": ordinal, "part": part}


def rises(changes: list[Change]) -> None:
    versions = [version_of(change, end) for change, end in changes]
    assert versions == sorted(set(versions))
    numbers = [version.number for version in versions]
    assert numbers == sorted(numbers)
    assert all(0 <= number < 1 << 63 for number in numbers)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["more", "same", "rotate", "failover", "replaced"]),
            st.integers(1, 1 << 20),
            st.integers(1, 400_000),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_of_a_binary_log(steps: list[tuple[str, int, int]]) -> None:
    at, ordinal, changes = BinlogOffset("bin.000009", 4, server="a"), 0, []
    for step, size, number in steps:
        ordinal = ordinal + 1 if step == "same" and changes else 0
        if step in ("more", "same"):
            at = replace(at, pos=at.pos + (size if not ordinal else 0))
        elif step == "rotate":
            at = replace(at, file=f"bin.{at.file_number + 1:06d}", pos=4 + size)
        elif step == "failover":
            at = replace(at, file=f"other.{number:06d}", pos=4 + size, server=f"{number}", timeline=at.timeline + 1)
        else:
            at = BinlogOffset(f"bin.{number:06d}", 4 + size, server=at.server).on_new_log(at)
        changes.append((row(at.file, at.pos, ordinal, ordinal % 2), at))
    rises(changes)
    # A batch's end lies behind its rows.
    rises([(change, replace(end, pos=end.pos + 1)) for change, end in changes])


@given(st.lists(st.tuples(st.sampled_from(["more", "grow", "anew"]), st.integers(1, 9), st.integers(0, 7))))
def test_of_a_topic(steps: list[tuple[str, int, int]]) -> None:
    ends, lives, mine, changes = {0: 0}, {}, 0, []
    for step, more, choice in steps:
        if step == "grow":
            lives = grown(lives, {len(ends): 0}, ends)
            ends = {**ends, len(ends): 0}
            mine = choice % len(ends)  # its key may move to another partition
        elif step == "anew":
            ends = dict.fromkeys(range(1 + choice), 0)
            lives, mine = made_anew(lives, ends), 0
        offset = ends[mine] + more - 1
        ends = {**ends, mine: offset + 1}
        changes.append((row(f"t[{mine}]", offset), KafkaOffsets({"t": ends}, lives={"t": lives} if lives else {})))
    rises(changes)
    since = max((n for n, (step, *_) in enumerate(steps) if step == "anew"), default=0)
    rises([(change, changes[-1][1]) for change, _ in changes[since:]])  # all of the log that is there, read again
    for (one, _), (other, end), (step, *_) in zip(changes, changes[1:], steps[1:], strict=False):
        assert comparable(one, other, end) or step == "anew"


@given(st.lists(st.integers(1, 99)))
def test_of_a_source_that_counts(steps: list[int]) -> None:
    changes: list[Change] = []
    for step in steps:
        place = changes[-1][0]["place"] + step if changes else step
        changes.append((row("mock.000001", place), SequenceOffset(place)))
    rises(changes)


@dataclass(frozen=True)
class Page:
    """An offset of another package; several books, each of which begins at page 0."""

    page: int
    kind: str = "page"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "page": self.page}

    def compare(self, other: Offset) -> Ordering:
        return Ordering.EQUAL if other == self else Ordering.DIVERGED


class NumberedPage(Page):
    """One that says how its books follow one another."""

    def version_at(self, log: str, place: int) -> int:
        return int(log) << 40 | place


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 99))))
def test_of_another_package(steps: list[tuple[bool, int]]) -> None:
    one_book, books, place, book, page = [], [], 0, 1, 0
    for next_book, step in steps:
        place, page, book = place + step, (0 if next_book else page) + step, book + next_book
        one_book.append((row("1", place), Page(place)))
        books.append((row(str(book), page), NumberedPage(page)))
    rises(one_book)
    rises(books)


def test_what_is_not_comparable_is_told() -> None:
    topic = KafkaOffsets({"t": {0: 9, 1: 9}}, lives={"t": {1: {1: 0}}})
    assert comparable(row("t[0]", 1), row("t[1]", 1), topic)
    assert not comparable(row("t[0]", 1), row("t[1]", 1), KafkaOffsets({"t": {0: 9, 1: 9}}))
    assert comparable(row("bin.000001", 9), row("bin.000002", 4), BinlogOffset("bin.000002", 9))
    assert not comparable(row("1", 5), row("2", 4), Page(4))
    assert comparable(row("1", 5), row("2", 4), NumberedPage(4))
    assert comparable(row("a", 5), row("b", 6), SequenceOffset(6))


def test_numbers_of_a_batch_are_those_of_its_rows() -> None:
    end = BinlogOffset("bin.000003", 900, timeline=2)
    changes = [row("bin.000002", 100), row("bin.000002", 100, 1), row("bin.000003", 50)]
    batch = pa.RecordBatch.from_pylist(changes)
    assert version_numbers(batch, end).to_pylist() == [version_of(change, end).number for change in changes]
    assert version_numbers(batch.slice(0, 0), end).to_pylist() == []
    assert version_of(changes[0], end) < version_of(changes[1], end) < version_of(changes[2], end)
    assert rows.version_of is version_of


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SinkSettingError, match="version 9223372036854775808 does not fit into 63 bits"):
        version_of(row(str(1 << 23), 0), NumberedPage(0))
