"""A shop whose own transactions are logged compressed, and its rows folded by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.decoding.decode import DecodedEvents, decode_events
from databus.binlog.decoding.table_batch import DELETE, TableBatch
from databus.sandbox import Sandbox
from tests.integration.binlog_shop import Shop

FLAVORS = ("mysql", "mariadb")

COMPRESS = {"mysql": "SET SESSION binlog_transaction_compression = {}", "mariadb": "SET GLOBAL log_bin_compress = {}"}


class CompressedShop(Shop):
    """A shop whose own transactions are logged compressed, down to the smallest event."""

    def __init__(self, flavor: str, address: str, folder: Path, decoder: str):
        super().__init__(flavor, address, folder, decoder)
        if flavor == "mariadb":
            self.sql("SET GLOBAL log_bin_compress_min_len = 10")
        self.compress(on=True)

    def compress(self, *, on: bool) -> None:
        self.sql(COMPRESS[self.flavor].format("ON" if on else "OFF"))

    def log(self) -> tuple[str, bytes]:
        """Return name and events of the newest log file, from the disk."""
        ((_, base),) = self.sql("SHOW VARIABLES LIKE 'log_bin_basename'")
        name = str(self.sql("SHOW BINARY LOGS")[-1][0])
        return name, Path(base).with_name(name).read_bytes()[4:]

    def decode(self) -> DecodedEvents:
        name, data = self.log()
        return decode_events(data, file=name, tables=lambda database, _: database == self.name)

    def drop(self) -> None:
        self.sql("ROLLBACK")
        self.compress(on=False)
        super().drop()


@pytest.fixture
def make_shop(databases: Sandbox, tmp_path: Path) -> Iterator[Callable[[str, str], CompressedShop]]:
    made: list[CompressedShop] = []

    def make(flavor: str, decoder: str = "numba") -> CompressedShop:
        made.append(CompressedShop(flavor, databases.address(flavor), tmp_path, decoder))
        return made[-1]

    yield make
    for shop in made:
        shop.drop()


def fold(events: DecodedEvents) -> dict[str, dict[int, dict[str, Any]]]:
    """Apply the decoded changes in log order; each before-image must be the row as it stood."""
    todo = []
    for batch in events:
        if not isinstance(batch, TableBatch):
            continue
        images = batch.images.to_pylist()
        for n, op in enumerate(batch.op.tolist()):
            before, after = int(batch.before_row[n]), int(batch.after_row[n])
            place = (int(batch.transaction[n]), int(batch.ordinal[n]))
            todo.append((place, batch.schema.table, op, images[before], images[after], before, after))
    tables: dict[str, dict[int, dict[str, Any]]] = {}
    for _, name, op, old, new, before, _ in sorted(todo, key=lambda x: x[0]):
        rows = tables.setdefault(name, {})
        if before >= 0:
            assert rows.pop(old["id"]) == old
        if op != DELETE:
            rows[new["id"]] = new
    return tables
