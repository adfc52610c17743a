"""The schema history of a flow is its own: who reads other ranges beside it reads it, and keeps what it finds apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from databus.binlog.log.capture import TableCapture
from databus.binlog.schema_history.definition import LogPosition, TableDefinition, TableName
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.store import HistoryStore
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.tables import definitions as mysql_definitions
from databus.sources.mysql.tables.definitions import MysqlDefinitions

ORDERS = TableName("shop", "orders")
FIRST, SECOND = (TableDefinition("shop", "orders", (), (), charset) for charset in ("utf8mb4", "latin1"))
LOOK, PIECE = "orders.look_1", "orders.backfill-replay-0123456789ab-0"


def place(pos: int) -> BinlogOffset:
    return BinlogOffset("b.000001", pos, "", "mysql", "uuid")


class Server:
    """A server of MINIMAL metadata: what information_schema says now, and the statements of its log."""

    flavor, identity, place, folds_names = "mysql", "uuid", "m", False

    def __init__(self) -> None:
        self.now, self.statements = FIRST, list[tuple[LogPosition, str, frozenset[TableName]]]()

    def variables(self, *_: str) -> dict[str, str]:
        return {"binlog_row_metadata": "MINIMAL"}

    def alter(self, pos: int) -> None:
        self.statements.append((LogPosition(1, pos), f"ALTER TABLE orders (at b.000001:{pos})", frozenset({ORDERS})))
        self.now = SECOND


class Definitions(MysqlDefinitions):
    """Proves by what the server above says."""

    def _proven(self, start: BinlogOffset, only: Any) -> dict[TableName, list[Entry]]:
        server, begin = cast("Any", self._server), LogPosition(start.file_number, start.pos)
        later = [s for s in server.statements if begin < s[0]]
        return {ORDERS: mysql_definitions._entries(ORDERS, server.now, begin, later)}

    def at(self, pos: int) -> TableDefinition | str | None:
        """Return the definition at a place, or why it is not known."""
        entry = self._history.at(ORDERS, LogPosition(1, pos)) if self._history else None
        return None if entry is None else entry.definition or entry.unknown


Open = Callable[..., Definitions]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def opened(server: Server, tmp_path: Path) -> Open:
    def open_(flow: str = "orders", staged: str = "") -> Definitions:
        stores = FlowStores(cast("Any", server), str(tmp_path), flow, staged)
        return Definitions(cast("Any", server), TableCapture(("shop.*",)), stores.histories, cast("Any", None))

    return open_


def stored(root: Path) -> dict[str, bytes]:
    """Return what the flow has stored."""
    return {path.name: path.read_bytes() for path in (root / ".schema_history" / "orders" / "uuid").iterdir()}


@pytest.mark.parametrize("reader", [LOOK, PIECE])
@pytest.mark.parametrize("older", [(500, 900), (1500, 1600), (2600, 2700)], ids=["before it", "in it", "ahead of it"])
def test_the_flow_knows_its_tables_whatever_was_read_meanwhile(
    server: Server, opened: Open, tmp_path: Path, reader: str, older: tuple[int, int]
) -> None:
    live = opened()
    live.begin(place(1000))
    live.end(place(2000))
    before = stored(tmp_path)
    other = opened("orders", reader) if reader == LOOK else opened(reader)
    other.begin(place(older[0]))
    live.end(place(2100))
    other.end(place(older[1]))
    assert other.at(older[1]) == FIRST
    assert stored(tmp_path)["history.json"] == before["history.json"]
    server.alter(2500)
    following = opened()
    following.begin(place(2100))
    assert following.at(2300) == FIRST


def test_a_piece_goes_on_with_the_history_that_it_began(server: Server, opened: Open, tmp_path: Path) -> None:
    opened().begin(place(1000))
    piece = opened(PIECE)
    piece.begin(place(500))
    piece.end(place(600))
    server.alter(900)  # logged before the flow's start; the piece is killed meanwhile
    again = opened(PIECE)
    again.begin(place(600))
    assert again.at(700) == FIRST
    assert [path.name for path in tmp_path.glob(f"{PIECE}/.schema_history/uuid/*")]
    fresh = opened("orders.backfill-replay-0123456789ab-1")
    fresh.begin(place(600))
    assert "ALTER TABLE" in str(fresh.at(700))


def test_a_piece_reads_what_the_flow_knows_of_its_range(server: Server, opened: Open, tmp_path: Path) -> None:
    live = opened()
    live.begin(place(1000))
    live.end(place(2000))
    server.alter(2500)
    piece = opened(PIECE)
    piece.begin(place(1200))
    piece.end(place(1300))
    assert piece.at(1250) == FIRST
    assert not (tmp_path / PIECE).exists()


def test_a_look_goes_back_to_the_flows_history_after_a_range_before_it(server: Server, opened: Open) -> None:
    live = opened()
    live.begin(place(1000))
    live.end(place(2000))
    look = opened("orders", LOOK)
    look.begin(place(500))
    look.end(place(600))
    server.alter(2500)
    look.begin(place(1500))
    assert look.at(1500) == FIRST


HISTORY = SchemaHistory(place(1000), LogPosition(1, 1000))
HISTORY.add(ORDERS, Entry(LogPosition(1, 1000), FIRST))


def followed(to: int, *statements: int, since: int = 1000) -> SchemaHistory:
    """Return a history followed to a place, over statements."""
    history = SchemaHistory(place(since), LogPosition(1, to), {ORDERS: [Entry(LogPosition(1, since), FIRST)]})
    for pos in statements:
        history.add(ORDERS, Entry(LogPosition(1, pos), SECOND))
    return history


class TestTwoHolders:
    """One lost its lease and does not know yet; the other goes on."""

    @pytest.fixture(autouse=True)
    def _store(self, tmp_path: Path) -> None:
        self.root = str(tmp_path)
        self.zombie = self.store()
        self.zombie.save(followed(1200))
        self.successor = self.store()
        self.successor.load()

    def store(self) -> HistoryStore:
        return HistoryStore(self.root, "orders", "uuid")

    def test_how_far_the_log_was_followed_is_not_taken_back(self) -> None:
        self.successor.save(followed(2000))
        self.zombie.save(followed(1300))
        assert self.store().load() == followed(2000)

    def test_neither_are_definitions(self) -> None:
        self.successor.save(followed(2000, 1500))
        self.zombie.save(followed(1300))
        assert self.store().load() == followed(2000, 1500)

    def test_who_is_further_writes_all_again(self) -> None:
        self.zombie.save(followed(1300, 1250))
        self.successor.save(followed(2000, 1250, 1500))
        self.zombie.save(followed(1300, 1250))
        self.successor.save(followed(2100, 1250, 1500))
        assert self.store().load() == followed(2100, 1250, 1500)

    def test_one_that_begins_earlier_replaces_what_is_there(self) -> None:
        self.successor.save(followed(700, since=500))
        assert self.store().load() == followed(700, since=500)

    def test_a_kill_between_both_files_takes_nothing_back(self, tmp_path: Path) -> None:
        covered = tmp_path / ".schema_history" / "orders" / "uuid" / "covered.json"
        before = covered.read_bytes()
        self.successor.save(followed(2000, 1500))
        covered.write_bytes(before)  # as it was when only the first was written
        again = self.store()
        assert again.load() == followed(2000, 1500)
        again.save(followed(2000, 1500))
        again.save(followed(2100, 1500))
        assert self.store().load() == followed(2100, 1500)


def test_a_history_of_the_landed_version_goes_on(tmp_path: Path) -> None:
    """It wrote where the history begins into the one file, and how far it goes into the other alone."""
    home = tmp_path / ".schema_history" / "orders" / "uuid"
    home.mkdir(parents=True)
    text = json.dumps({**followed(2000, 1500).to_json(), "covered": [1, 1000]}, separators=(",", ":")).encode()
    (home / "history.json").write_bytes(text)
    digest = hashlib.sha256(text).hexdigest()
    (home / "covered.json").write_text(json.dumps({"history": digest, "covered": [1, 2000]}))
    store = HistoryStore(str(tmp_path), "orders", "uuid")
    assert store.load() == followed(2000, 1500)
    store.save(followed(2100, 1500))
    assert (home / "history.json").read_bytes() == text
    assert HistoryStore(str(tmp_path), "orders", "uuid").load() == followed(2100, 1500)


def test_a_lent_history_is_not_written(tmp_path: Path) -> None:
    HistoryStore(str(tmp_path), "orders", "uuid").save(HISTORY)
    lent = HistoryStore(str(tmp_path), "orders", "uuid", lent=True)
    assert lent.load() == HISTORY
    lent.save(followed(2000, 1500))
    assert HistoryStore(str(tmp_path), "orders", "uuid").load() == HISTORY
