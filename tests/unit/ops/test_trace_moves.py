"""What a mirror's recorded batches say of single records, against batches that were written down by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from databus import Flow, Mirror
from databus.connections.environment import EnvironmentConnections
from databus.core.positions.offset_map import UNKNOWN
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.ops.trace.clusters import Sites
from databus.ops.trace.mirror_offsets import MirrorMoves
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.store import RecordStore
from tests.contract.many_batches import record

T, W = ("t", 0), ("west.t", 0)
FLOW = Mirror(name="m", source_conn_id="kafka_east", target_conn_id="kafka_west", topics="t", renames={"t": "west.t"})


def upto(position: int, life: int = 0) -> KafkaOffsets:
    return KafkaOffsets({"t": {0: position}}, generations={"t": {0: life}} if life else {})


def wrote(first: int, last: int, *runs: tuple[int, int, int], **more: Any) -> Mapping[str, Any]:
    facts = {"source": "t[0]", "runs": [list(run) for run in runs], "first_offset": first, "last_offset": last, **more}
    return {"west.t[0]": facts}


class Recorded:
    """A mirror whose batches are written down."""

    def __init__(self, folder: Any, *moved: tuple[Offset, Offset, Mapping[str, Any]], flow: Flow = FLOW):
        self.url = f"sqlite:///{folder / 'records.db'}"
        with RecordStore(self.url) as store:
            record(store, flow.name, 10, moved)
        self.reader = RecordReader(self.url)
        self.moves = MirrorMoves(flow, Sites(EnvironmentConnections({})), Provenance(self.reader))

    def onward(self, *offsets: int) -> list[tuple[int, Any, int]]:
        return [(m.offset, m.others, m.batch.batch - 1_000_000) for m in self.moves.onward(T, offsets)]

    def back(self, offset: int) -> list[tuple[Any, int, bool]]:
        return [(m.others, m.batch.batch - 1_000_000, m.former) for m in self.moves.back(W, offset)]


@pytest.fixture
def recorded(tmp_path: Any) -> Iterator[Any]:
    opened: list[Recorded] = []

    def make(*moved: tuple[Offset, Offset, Mapping[str, Any]], flow: Flow = FLOW) -> Recorded:
        opened.append(Recorded(tmp_path, *moved, flow=flow))
        return opened[-1]

    yield make
    for one in opened:
        one.reader.close()


def at(offset: int) -> range:
    return range(offset, offset + 1)


def test_holes_of_either_side_have_no_copy_and_no_original(recorded: Any) -> None:
    mirror = recorded(
        (upto(0), upto(7), wrote(100, 104, (0, 100, 3), (5, 103, 2))),
        (upto(7), upto(12), wrote(106, 107, (9, 106, 2))),
    )
    assert mirror.onward(*range(14)) == [
        (0, at(100), 0), (1, at(101), 0), (2, at(102), 0), (5, at(103), 0), (6, at(104), 0),
        (9, at(106), 1), (10, at(107), 1),
    ]  # fmt: skip
    assert [mirror.back(offset) for offset in (99, 100, 104, 105, 106, 108)] == [
        [], [(at(0), 0, False)], [(at(6), 0, False)], [], [(at(9), 1, False)], [],
    ]  # fmt: skip


def test_after_a_rewind_a_record_has_two_copies(recorded: Any) -> None:
    mirror = recorded((upto(0), upto(3), wrote(0, 2, (0, 0, 3))), (upto(1), upto(3), wrote(4, 5, (1, 4, 2))))
    assert mirror.onward(0, 2) == [(0, at(0), 0), (2, at(2), 0), (2, at(5), 1)]
    assert mirror.back(5) == [(at(2), 1, False)]


def test_a_former_life_of_the_source_s_topic_has_no_copies_but_is_told_from_the_target(recorded: Any) -> None:
    mirror = recorded((upto(0), upto(3), wrote(0, 2, (0, 0, 3))), (upto(0, 1), upto(2, 1), wrote(4, 5, (0, 4, 2))))
    assert mirror.onward(0, 1, 2) == [(0, at(4), 1), (1, at(5), 1)]
    assert (mirror.back(2), mirror.back(4)) == ([(at(2), 0, True)], [(at(0), 1, False)])


def test_a_target_s_topic_that_was_made_anew_gives_two_originals_oldest_first(recorded: Any) -> None:
    mirror = recorded((upto(0), upto(3), wrote(0, 2, (0, 0, 3))), (upto(3), upto(5), wrote(0, 1, (3, 0, 2))))
    assert mirror.back(1) == [(at(1), 0, False), (at(4), 1, False)]


def test_where_only_bounds_are_known_they_are_told(recorded: Any) -> None:
    mirror = recorded(
        (upto(0), upto(5), wrote(10, 19, unsure=[[0, 5, 10, 20]])),
        (upto(5), upto(9), wrote(UNKNOWN, UNKNOWN, unsure=[[5, 9, UNKNOWN, UNKNOWN]])),
    )
    assert mirror.onward(4, 5) == [(4, range(10, 20), 0), (5, None, 1)]
    assert (mirror.back(12), mirror.back(20)) == ([(range(5), 0, False)], [])


def test_why_a_record_was_not_moved_is_told_as_far_as_it_is_recorded(recorded: Any) -> None:
    def never() -> str:
        raise AssertionError

    batches = [(upto(5), upto(9), wrote(0, 1, (5, 0, 2)))]
    mirror = recorded(*batches)
    assert list(mirror.moves.why_not(T, [4, 9], never)) == [
        (4, "mirror m began behind it"),
        (9, "mirror m has not moved it yet, as far as is recorded"),
    ]
    assert list(mirror.moves.why_not(("other", 0), [4], never)) == []
    assert list(mirror.moves.why_not(T, [8], lambda: "id")) == [(8, "mirror m did not carry it on")]
    two_way = Mirror(name="two", source_conn_id="kafka_east", target_conn_id="kafka_west", topics="t", two_way="back")
    mirror = recorded(*batches, flow=two_way)
    told = list(mirror.moves.why_not(T, [8], lambda: "id"))
    assert told == [(8, "mirror two left it out: it came from kafka_west before")]
