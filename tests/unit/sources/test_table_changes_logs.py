"""What a process knows of changed tables, where the log is replaced under the same names (RESET MASTER)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from databus.binlog.log.capture import TableCapture
from databus.binlog.server.dump import DumpRequest, Events
from databus.core.errors import OffsetInvalidError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.tables import changes as mysql_table_changes
from databus.sources.mysql.tables.changes import changes_of
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.test_range_staging import made_up_rotate, number

UUID = "f7ceba1a-e55e-11f1-96ca-02fc00000001"
FORMER, NEW = 1_700_000_000, 1_700_009_000
CAPTURE, OTHER = TableCapture(("shop.*",)), TableCapture(("other.*",))
Open = Callable[[DumpRequest], AbstractContextManager[Any]]


def place(file: int, pos: int, created_s: int = 0, generation: int = 0) -> BinlogOffset:
    return BinlogOffset(f"b.{file:06}", pos, "", "mysql", UUID, generation=generation, created_s=created_s)


class Server:
    """A server's log: files that were begun at a time, each with so many changes of a table of shop."""

    def __init__(self, created_s: int, *files: int):
        self.logs = [(n, self._log(created_s + n, changes)) for n, changes in enumerate(files, 1)]

    @staticmethod
    def _log(created_s: int, changes: int) -> Log:
        log = Log(timestamp=created_s)
        for key in range(changes):
            log.transaction(9, "t", [int_col()], [[number(key)]])
        return log

    def begun(self, file: int) -> int:
        return dict(self.logs)[file].timestamp

    def end(self, file: int, generation: int = 0, *, known: bool = True) -> BinlogOffset:
        created_s = self.begun(file) if known else 0
        return place(file, dict(self.logs)[file].position, created_s, generation)

    def ask(self, after: BinlogOffset, dump: Open | None = None, capture: TableCapture = CAPTURE) -> bool:
        head = self.end(len(self.logs), known=False)
        server: Any = SimpleNamespace(identity=UUID, head=lambda: head, folds_names=False, place="here")
        return changes_of(server, "h:3306", after.generation).since(after, capture, server, dump or self.dump)

    @contextmanager
    def dump(self, request: DumpRequest) -> Iterator[Any]:
        wanted = BinlogOffset(request.file, request.pos).file_number
        found = []
        for file, log in self.logs[wanted - 1 :]:
            position = request.pos if file == wanted else 4
            if position != 4 and position not in (at + log.start for at in log.ends):
                raise OffsetInvalidError("no event begins there")
            data = made_up_rotate(f"b.{file:06}", position) + bytes(log.data[: log.ends[0]])
            data += bytes(log.data[max(position - log.start, log.ends[0]) :])
            found.append(Events(np.frombuffer(data, np.uint8).copy(), len(data)))
        yield SimpleNamespace(batches=lambda: iter(found))


def unasked(_: DumpRequest) -> Any:
    raise AssertionError("the log is not to be read")


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_table_changes, "_READ_EVERY_S", 0.0)
    monkeypatch.setattr(mysql_table_changes, "_shared", {})


@pytest.fixture
def former() -> Server:
    """The log that was there, of which the process knows the head."""
    server = Server(FORMER, 3, 3, 3)
    assert not server.ask(server.end(1), capture=OTHER)
    assert not server.ask(server.end(3), unasked)
    return server


def test_a_log_is_read_once_over_its_files() -> None:
    server = Server(FORMER, 2, 1, 1)
    assert not server.ask(server.end(1), capture=OTHER)
    assert not server.ask(server.end(2), unasked, OTHER)
    assert server.ask(server.end(2), unasked)
    assert not server.ask(server.end(3), unasked)


@pytest.mark.parametrize(
    ("generation", "known"),
    [(1, True), (1, False), (0, True)],
    ids=["a flow that went on", "its log does not say when it was begun", "a flow that is new"],
)
def test_a_flow_at_the_head_of_the_new_log_is_not_told_of_changes(former: Server, generation: int, known: bool) -> None:
    new = Server(NEW, 1)
    at_head = new.end(1, generation, known=known)
    assert [new.ask(at_head) for _ in range(3)] == [False] * 3
    new = Server(NEW, 1, 1)
    assert new.ask(at_head)


def test_a_place_that_says_when_its_file_was_begun_is_believed_where_nothing_is_known_of_that() -> None:
    former = Server(FORMER, 3, 3, 3)
    assert not former.ask(former.end(3, known=False))
    new = Server(NEW, 1)
    assert [new.ask(new.end(1)) for _ in range(2)] == [False, False]
    assert not new.ask(new.end(1), unasked)


@pytest.mark.parametrize(("generation", "known"), [(1, True), (1, False), (0, True)])
def test_a_change_of_the_new_log_is_told_where_the_former_log_was_read_further(
    former: Server, generation: int, known: bool
) -> None:
    """The process has read the former log to its file 3; nothing was changed there since."""
    changes = next(iter(mysql_table_changes._shared.values()))
    changes._begin = (1, 4)
    changes._last.clear()
    new = Server(NEW, 2)
    first = dict(new.logs)[1].ends[5] + 4  # behind the first transaction
    assert new.ask(place(1, first, new.begun(1) if known else 0, generation))


def test_flows_of_both_generations_on_one_log_do_not_make_each_other_read_it_anew(former: Server) -> None:
    new = Server(NEW, 1)
    for generation in (1, 0):
        assert not new.ask(new.end(1, generation))
    for generation in (1, 0, 1, 0):
        assert not new.ask(new.end(1, generation), unasked)


def test_a_log_that_is_found_to_be_another_while_it_is_read_is_forgotten(former: Server) -> None:
    """Of a flow whose place does not say when its file was begun, and that does not know of the new log yet."""
    new = Server(NEW, 3, 3, 3, 0)
    standing = former.end(3, known=False)
    assert new.ask(standing)
    assert next(iter(mysql_table_changes._shared.values()))._at is None
    assert not new.ask(new.end(4))


def test_a_clock_that_was_set_back_between_files_makes_flows_look_once_more_at_the_most() -> None:
    server = Server(FORMER, 1, 1, 1)
    server.logs[2] = (3, Server._log(FORMER - 500, 1))
    for file in (3, 2):
        assert not server.ask(server.end(file), capture=OTHER)
    for file in (3, 2):
        assert not server.ask(server.end(file), unasked, OTHER)
