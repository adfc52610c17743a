"""Random cells of every type, in every row image, compared one by one with what SELECT gives.

`DATABUS_TEST_CELLS` is the number of cells per server (50,000 by default); `DATABUS_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, TableBatch
from tests.integration.test_decode_real import Server
from tests.integration.types.cells import Column, expression, families, normal, shown
from tests.integration.types.zones import ZONES, load

pytestmark = pytest.mark.integration

CELLS = int(os.environ.get("DATABUS_TEST_CELLS", "50000"))
ROWS = 40
IMAGES = ("FULL", "MINIMAL", "NOBLOB")
Rows = dict[int, list[str | None]]


@dataclass
class Verdict:
    """What was compared.

    Attributes:
        seed: of all random values.
        cells: compared with SELECT.
        absent: not in their image, as its kind allows.
        wrong: the first differences.
    """

    seed: int
    cells: int = 0
    absent: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def select(server: Server, table: str, columns: Sequence[Column]) -> Rows:
    rows = server.run(f"SELECT id,{','.join(c.select.format(f'`{c.name}`') for c in columns)} FROM {table}")
    texts = [[v.decode() if isinstance(v, bytes) else v for v in row[1:]] for row in rows]
    return {
        int(row[0]): [normal(c, v) for c, v in zip(columns, values, strict=True)]
        for row, values in zip(rows, texts, strict=True)
    }


def compare(
    verdict: Verdict, batch: TableBatch, columns: Sequence[Column], where: Mapping[Any, Rows], zone: str
) -> None:
    """Compare each cell of a batch: `where` says by (op, image) which rows SELECT showed at that time."""
    ids = batch.images.column("id").to_pylist()
    present = [sets.tolist() for sets in batch.presence_sets]
    lookup = [
        (int(op), b, a) for op, b, a in zip(batch.op, batch.before_row.tolist(), batch.after_row.tolist(), strict=True)
    ]
    texts = []
    for number, column in enumerate(columns, start=1):
        kept = batch.exceptions.get(number, {})
        values = batch.images.column(number).to_pylist()
        texts.append([shown(column, kept.get(row, value), zone) for row, value in enumerate(values)])
    for op, before, after in lookup:
        key = ids[before if before >= 0 else after]
        for image, row in (("before", before), ("after", after)):
            if row < 0:
                continue
            right = where[op, image][key]
            carried = present[int(batch.presence[row])]
            for number, column in enumerate(columns):
                if not carried[number + 1]:
                    verdict.absent += 1
                    assert texts[number][row] is None
                    if op == UPDATE and image == "after":  # absent because it did not change
                        assert where[op, "before"][key][number] == right[number]
                    continue
                verdict.cells += 1
                verdict.kinds[column.ddl.split("(")[0]] += 1
                if texts[number][row] != right[number] and len(verdict.wrong) < 5:
                    verdict.wrong.append(
                        {"seed": verdict.seed, "column": column.name, "type": column.ddl, "id": key, "op": op,
                         "image": image, "zone": zone, "ours": texts[number][row], "select": right[number]}
                    )  # fmt: skip


def stored_bytes(server: Server, table: str, fault: Mapping[str, Any]) -> str:
    rows = server.run(f"SELECT HEX(CAST(`{fault['column']}` AS BINARY)) FROM {table} WHERE id={fault['id']}")
    return str(rows[0][0]) if rows else "deleted"


def one_round(
    server: Server, verdict: Verdict, name: str, columns: Sequence[Column], image: str, zone: str, r: random.Random
) -> None:
    """Insert rows, overwrite each with another's values, delete half of them; each image against SELECT at its time."""
    source, target = f"cells.{name}_source", f"cells.{name}"
    names = ",".join(f"`{c.name}`" for c in columns)
    server.run(f"TRUNCATE {source}")
    server.run(f"TRUNCATE {target}")
    server.run(f"SET SESSION time_zone='{zone}', binlog_row_image={image}")
    server.new_log()
    for start in range(1, ROWS + 2, 20):
        lines, values = [], []
        for key in range(start, min(start + 20, ROWS + 2)):
            made = [expression(c, r, server.name) for c in columns]
            lines.append(f"({key},{','.join(sql for sql, _ in made)})")
            values += [value for _, some in made for value in some]
        server.run(f"INSERT INTO {source} (id,{names}) VALUES {','.join(lines)}", values)
    server.run(f"INSERT INTO {target} SELECT * FROM {source} WHERE id <= {ROWS}")
    first = select(server, source, columns)
    inserted = select(server, target, columns)
    assignments = ",".join(f"t.`{c.name}`=s.`{c.name}`" for c in columns)
    server.run(f"UPDATE {target} t JOIN {source} s ON s.id=t.id+1 SET {assignments}")
    updated = select(server, target, columns)
    server.run(f"DELETE FROM {target} WHERE id % 2")
    for batch in server.decode_log():
        if not isinstance(batch, TableBatch):
            continue
        where = (
            {(INSERT, "after"): first}
            if batch.schema.table.endswith("_source")
            else {
                (INSERT, "after"): inserted,
                (UPDATE, "before"): inserted,
                (UPDATE, "after"): updated,
                (DELETE, "before"): updated,
            }
        )
        had = len(verdict.wrong)
        compare(verdict, batch, columns, where, zone)
        for fault in verdict.wrong[had:]:
            fault["stored"] = stored_bytes(server, source, fault)


def create(server: Server, name: str, columns: Sequence[Column]) -> None:
    body = ",".join(f"`{c.name}` {c.ddl}" for c in columns)
    for table in (f"cells.{name}_source", f"cells.{name}"):
        server.run(f"DROP TABLE IF EXISTS {table}")
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, {body}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC")


def test_every_cell_of_every_image_is_what_select_gives(
    server: Server, record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("DATABUS_TEST_SEED", random.SystemRandom().getrandbits(32)))
    r, verdict = random.Random(f"{seed}-{server.name}"), Verdict(seed)
    load(server)
    server.run("SET NAMES utf8mb4")
    charsets = [str(row[0]) for row in server.run("SHOW CHARACTER SET") if row[0] != "binary"]
    tables = families(server.name, charsets)
    for name, columns in tables.items():
        create(server, name, columns)
    turn = 0
    while verdict.cells < CELLS or turn < len(IMAGES) * len(tables):
        image = IMAGES[turn // len(tables) % len(IMAGES)]
        name = list(tables)[turn % len(tables)]
        one_round(server, verdict, name, tables[name], image, ZONES[turn // 2 % len(ZONES)], r)
        turn += 1
        if verdict.wrong:
            break
    assert verdict.wrong == [], f"seed {seed}"
    assert verdict.absent > 0
    record_property("cells", verdict.cells)
    with capsys.disabled():
        if CELLS > 100_000:
            print(f"\n{server.name}: 0 differences in {verdict.cells} cells, {turn} rounds, seed {seed}")  # noqa: T201
