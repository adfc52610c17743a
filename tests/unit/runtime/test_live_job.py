"""The live job against a Spark session that runs its task in a thread: called, lost, refused, never started."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from databus.core.errors import SinkFencedError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.runtime.direct.spark_jobs import SparkJobs
from databus.runtime.live import lane as live
from databus.runtime.live.job import LiveJob
from databus.runtime.live.lane import LIVE_BYTES, LIVE_ROWS, LiveLane, LiveSlots
from databus.runtime.live.link import LinkLostError
from databus.runtime.live.worker import LiveTaskError


class Session:
    """Runs mapInArrow in the thread that collects; `slots` says whether a task slot is free."""

    def __init__(self) -> None:
        self.slots = threading.Event()
        self.slots.set()
        self.jobs = 0
        self.ended = threading.Semaphore(0)

    def range(self, *_: int) -> Session:
        return self

    def mapInArrow(self, run: Callable[..., Iterator[pa.RecordBatch]], _schema: str) -> Session:  # noqa: N802
        self.task = run
        return self

    def collect(self) -> list[Any]:
        self.jobs += 1
        self.slots.wait()
        rows = list(self.task([pa.RecordBatch.from_pydict({"id": [0]})]))
        self.ended.release()
        return rows


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def job(session: Session) -> Iterator[LiveJob]:
    found = LiveJob(session, "orders")
    found.start()
    yield found
    found.close()


def planned(rows: int = 1, size: int = 1) -> SourcePlan:
    return SourcePlan(OffsetRange(SequenceOffset(0), SequenceOffset(1)), (), rows, size)


def fenced() -> None:
    raise SinkFencedError("another writer took over", hint="look")


def test_calls_are_answered_one_after_the_other_by_one_job(job: LiveJob, session: Session) -> None:
    assert job.ready(20)
    assert [job.call(pow, 2, n) for n in range(4)] == [1, 2, 4, 8]
    assert session.jobs == 1


def test_errors_come_back_as_they_are_and_others_with_their_traceback(job: LiveJob) -> None:
    assert job.ready(20)
    with pytest.raises(SinkFencedError, match="another writer") as raised:
        job.call(fenced)
    assert raised.value.hint == "look"
    with pytest.raises(LiveTaskError, match="ZeroDivisionError"):
        job.call(divmod, 1, 0)
    assert job.call(abs, -1) == 1


def test_a_task_that_ends_is_lost_and_the_job_with_it(job: LiveJob, session: Session) -> None:
    assert job.ready(20)
    assert job._link is not None
    job._link._socket.shutdown(socket.SHUT_RDWR)  # as when the task's process dies
    assert session.ended.acquire(timeout=20)
    with pytest.raises(LinkLostError):
        job.call(abs, 1)


def test_the_task_ends_when_the_run_closes(job: LiveJob, session: Session) -> None:
    assert job.ready(20)
    job.close()
    assert session.ended.acquire(timeout=20)


def test_a_job_that_gets_no_slot_is_given_up_and_its_task_ends_when_it_does(session: Session) -> None:
    session.slots.clear()
    job = LiveJob(session, "orders")
    job.start()
    assert not job.ready(0.3)
    job.close()
    session.slots.set()
    assert session.ended.acquire(timeout=20)


def test_a_caller_without_the_key_is_sent_away_and_the_task_still_gets_in(session: Session) -> None:
    session.slots.clear()
    job = LiveJob(session, "orders")
    job.start()
    assert job._listener is not None
    with socket.create_connection(job._listener.getsockname()) as stranger:
        stranger.sendall(b"\x00\x00\x00\x20" + b"x" * 32)
        session.slots.set()
        assert job.ready(20)
    assert job.call(abs, -2) == 2
    job.close()


@pytest.mark.parametrize(("rows", "size"), [(LIVE_ROWS + 1, 1), (1, LIVE_BYTES + 1)])
def test_a_backlog_gives_the_slot_back_and_the_head_takes_one_again(session: Session, rows: int, size: int) -> None:
    lane = LiveLane(session, "orders")
    assert lane.takes(planned())
    assert not lane.takes(planned(rows, size))
    assert session.ended.acquire(timeout=20)
    assert lane.takes(planned())
    assert session.jobs == 2
    lane.rest("the test is over")


def test_a_lane_without_slots_leaves_the_window_to_jobs_per_batch(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_READY_WITHIN_S", 0.1)
    session.slots.clear()
    lane = LiveLane(session, "orders")
    assert [lane.takes(planned()) for _ in range(9)] == [False] * 9
    assert session.jobs <= live._FAILURES
    session.slots.set()
    for _ in range(session.jobs):
        assert session.ended.acquire(timeout=20)


class Otherwise:
    """A runner that notes what it was given."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def run(self, task: Any, slots: int) -> Any:
        self.ran.append((task, slots))
        return ["a job of its own"]

    def run_empty(self, writer: Any, _planned: Any, slots: int) -> Any:
        self.ran.append((writer, slots))
        return ["this process"]


@dataclass(frozen=True)
class Task:
    planned: SourcePlan

    def write(self, slot: int) -> int:
        return slot


class Marks:
    def write(self, _rows: Any, slot: int) -> int:
        return -slot


def test_slots_run_in_the_live_job_and_elsewhere_once_it_cannot(session: Session) -> None:
    lane, otherwise = LiveLane(session, "orders"), Otherwise()
    slots: Any = LiveSlots(lane, otherwise, "orders")  # type: ignore[arg-type]
    assert slots.run(Task(planned()), 3) == [0, 1, 2]
    assert slots.run_empty(Marks(), planned(), 2) == [0, -1]
    assert otherwise.ran == []
    large = Task(planned(LIVE_ROWS + 1, 1))
    assert slots.run(large, 3) == ["a job of its own"]  # a backlog
    assert session.ended.acquire(timeout=20)
    assert slots.run(Task(planned()), 1) == [0]
    slots.make_room("rows in Spark")
    assert session.ended.acquire(timeout=20)
    assert (otherwise.ran, session.jobs) == ([(large, 3)], 2)


def test_a_batch_whose_task_is_lost_is_taken_up_by_another_runner(session: Session) -> None:
    lane, otherwise = LiveLane(session, "orders"), Otherwise()
    slots: Any = LiveSlots(lane, otherwise, "orders")  # type: ignore[arg-type]
    for act, answer in (
        (lambda: slots.run(Task(planned()), 2), "a job of its own"),
        (lambda: slots.run_empty(Marks(), planned(), 2), "this process"),
    ):
        assert lane.takes(planned())
        assert lane._job is not None
        assert lane._job._link is not None
        lane._job._link.close()  # the task is killed
        assert act() == [answer]
    assert len(otherwise.ran) == 2


def test_a_turn_is_given_back_after_each_batch_and_a_job_per_batch_has_none(session: Session) -> None:
    lane, given = LiveLane(session, "orders"), list[str]()
    lane.turns = SimpleNamespace(give_back=lambda: given.append("turn"))  # type: ignore[assignment]
    LiveSlots(lane, SparkJobs(session), "orders").batch_over()
    assert given == ["turn"]
    jobs = SparkJobs(None)
    jobs.batch_over()
    jobs.make_room("nothing is held")
    assert jobs.run_empty(Marks(), planned(), 2) == [0, -1]  # type: ignore[arg-type, comparison-overlap]
