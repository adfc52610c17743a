"""Checkpoints in a file and in a database's transaction."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from databus.consumer import DatabaseCheckpoint, FileCheckpoint
from databus.core.errors import ConfigError, StoredPlaceBusyError, StoredPlaceError, StoredPlaceMovedError

PLACE, OTHER = ("cdc.orders", 0), ("cdc.orders", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "places.json"


def test_a_file_keeps_places_of_all_partitions(path: Path) -> None:
    with closing(FileCheckpoint(path)) as checkpoint:
        assert checkpoint.load() == {}
        checkpoint.store({PLACE: 5})
        checkpoint.store({OTHER: 2**40, PLACE: 6})
    with closing(FileCheckpoint(path)) as checkpoint:
        assert checkpoint.load() == {PLACE: 6, OTHER: 2**40}
    assert json.loads(path.read_text()) == {"v": 1, "next_offsets": {"cdc.orders": {"0": 6, "1": 2**40}}}
    assert sorted(file.name for file in path.parent.iterdir()) == ["places.json", "places.json.lock"]


def test_a_file_has_one_process(path: Path) -> None:
    with closing(FileCheckpoint(path)) as checkpoint:
        checkpoint.open()
        program = f"from databus.consumer import FileCheckpoint; FileCheckpoint({str(path)!r}).load()"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "consumer_checkpoint_busy" in done.stderr
        with pytest.raises(StoredPlaceBusyError, match="in use by another process"):
            FileCheckpoint(path).open()
    with closing(FileCheckpoint(path)) as checkpoint:
        assert checkpoint.load() == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v": 2, "next_offsets": {}}', '{"v": 1}', '{"v": 1, "next_offsets": {"t": {"x": 1}}}']
)
def test_a_damaged_file_is_named_and_not_taken_for_none(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StoredPlaceError, match="is no checkpoint of a consumer"):
        FileCheckpoint(path).load()
    assert path.read_text() == text


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoredPlaceError, match="cannot be locked: No such file"):
        FileCheckpoint(tmp_path / "no" / "places").load()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        checkpoint(path).create(connection.cursor())
        checkpoint(path).create(connection.cursor())
        connection.commit()
    return path


def checkpoint(path: Path) -> DatabaseCheckpoint:
    return DatabaseCheckpoint("billing", lambda: sqlite3.connect(path))


class Consumer:
    """What `Changes` does with a checkpoint: partitions that are taken up, delivered and given up."""

    def __init__(self, path: Path):
        self.checkpoint, self.delivered = checkpoint(path), dict[tuple[str, int], int]()
        self.connection = sqlite3.connect(path)
        self.checkpoint.bind(lambda: self.delivered)

    def take_up(self, *places: tuple[str, int]) -> None:
        loaded = self.checkpoint.load_anew()
        for place in places:
            self.checkpoint.take_up(place)
            if place in loaded:
                self.delivered[place] = loaded[place]

    def give_up(self, place: tuple[str, int]) -> None:
        self.checkpoint.give_up(place, self.delivered.pop(place, -1))

    def save(self) -> None:
        with self.connection:
            self.checkpoint.save(self.connection.cursor())

    def rewind(self) -> None:
        self.delivered.clear()
        self.checkpoint.reset()
        self.take_up(PLACE)


@pytest.fixture
def consumers(database: Path) -> Iterator[tuple[Consumer, Consumer]]:
    two = Consumer(database), Consumer(database)
    yield two
    for one in two:
        one.connection.close()


def stored(consumer: Consumer) -> dict[tuple[str, int], int]:
    return consumer.checkpoint.load(consumer.connection.cursor())


def test_places_are_saved_with_the_transaction_or_not_at_all(consumers: tuple[Consumer, Consumer]) -> None:
    one, _ = consumers
    one.take_up(PLACE, OTHER)
    one.delivered = {PLACE: 7}
    one.save()
    one.delivered = {PLACE: 9, OTHER: 1}
    one.checkpoint.save(one.connection.cursor())
    one.connection.rollback()
    assert stored(one) == {PLACE: 7}
    one.delivered = {PLACE: 10, OTHER: 1}
    with pytest.raises(StoredPlaceMovedError, match="is not 9, at which this consumer goes on"):
        one.save()
    assert stored(one) == {PLACE: 7}
    one.rewind()
    assert one.delivered == {PLACE: 7}
    one.delivered = {PLACE: 9}
    one.save()
    assert stored(one) == {PLACE: 9}


@pytest.mark.parametrize("first", [True, False])
def test_two_consumers_of_one_name_do_not_both_apply(consumers: tuple[Consumer, Consumer], first: bool) -> None:
    one, other = consumers
    if not first:
        one.take_up(PLACE)
        one.delivered = {PLACE: 3}
        one.save()
    one.take_up(PLACE)
    other.take_up(PLACE)
    one.delivered = {PLACE: 5}
    other.delivered = {PLACE: 6}
    one.save()
    with pytest.raises(StoredPlaceMovedError):
        other.save()
    assert stored(one) == {PLACE: 5}


def test_what_is_unsaved_of_a_partition_that_went_elsewhere_belongs_to_the_next_save(
    consumers: tuple[Consumer, Consumer],
) -> None:
    """Effects of its changes are in the open transaction: they and the place are stored, or the new owner's."""
    one, other = consumers
    one.take_up(PLACE)
    one.delivered = {PLACE: 4}
    one.give_up(PLACE)
    other.take_up(PLACE)
    one.save()
    assert stored(one) == {PLACE: 4}
    other.delivered = {PLACE: 2}
    with pytest.raises(StoredPlaceMovedError):
        other.save()
    other.rewind()
    assert other.delivered == {PLACE: 4}
    other.delivered = {PLACE: 8}
    other.save()

    one.take_up(PLACE)
    assert one.delivered == {PLACE: 8}
    one.delivered = {PLACE: 11}
    one.give_up(PLACE)
    one.take_up(PLACE)
    assert one.delivered == {PLACE: 11}, "it goes on behind what the open transaction has"
    one.delivered = {PLACE: 12}
    one.save()
    assert stored(one) == {PLACE: 12}
    one.give_up(PLACE)
    other.take_up(PLACE)
    other.delivered = {PLACE: 20}
    other.save()
    one.save()
    assert stored(one) == {PLACE: 20}


def test_a_table_that_is_not_there_and_unknown_drivers_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoredPlaceError, match="databus_consumer_places cannot be read: no such table") as told:
        checkpoint(tmp_path / "empty.db").load_anew()
    assert "checkpoint.create(cursor)" in told.value.hint
    with pytest.raises(ConfigError, match="belongs to no consumer"):
        checkpoint(tmp_path / "empty.db").save(None)
    with pytest.raises(ConfigError, match="is no name of a table"):
        DatabaseCheckpoint("x", lambda: None, table="a; b")
    with pytest.raises(ConfigError, match="paramstyle is one of"):
        DatabaseCheckpoint("x", lambda: None, paramstyle="?")
    with pytest.raises(ConfigError, match="paramstyle of builtins is not known"):
        DatabaseCheckpoint("x", lambda: None).load(object())
