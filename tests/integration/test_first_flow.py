"""The first page, followed on a real server: its account, its file and its commands, as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from databus.demo.consumers import topic_records
from databus.runtime.spark import session as engine
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcess, OneProcessWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs" / "first-flow.md"
ROWS = 120


class Page:
    """The page's code blocks, with the names of a test in place of its own."""

    def __init__(self, names: dict[str, str]):
        text = PAGE.read_text()
        for name, own in names.items():
            assert re.search(rf"\b{name}\b", text), name
            text = re.sub(rf"\b{name}\b", own, text)
        self._blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    def blocks(self, kind: str) -> list[str]:
        return [text for found, text in self._blocks if found == kind]

    def commands(self) -> list[list[str]]:
        lines = [shlex.split(line) for block in self.blocks("sh") for line in block.splitlines()]
        assert all(words[0] == "databus" for words in lines)
        return [words[1:] for words in lines]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    sandbox = started("zookeeper", "kafka", "mysql")
    return OneProcessWorld(sandbox, tmp_path_factory.mktemp("first_flow"))


def ops_of(world: OneProcessWorld, topic: str) -> Counter[str]:
    """Return the operations of a topic's records, none of which may hold what the flow drops."""
    values = [value for _, value in topic_records(world.sandbox.address("kafka"), topic) if value]
    assert not any(b"card_number" in value for value in values)
    return Counter(json.loads(value)["op"] for value in values)


def test_the_page_brings_rows_then_changes(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"first_{os.getpid()}"
    page = Page({"shop": own, "first": own, "mysql_shop": own, "choose-one": own})
    host, port = world.sandbox.address("mysql").split(":")
    with world.sql() as connection, connection.cursor() as cursor:
        (grants,) = page.blocks("sql")
        for statement in grants.replace("'databus'", f"'{own}'").split(";")[:-1]:
            cursor.execute(statement)
        cursor.execute(f"CREATE DATABASE {own} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {own}.orders (id BIGINT PRIMARY KEY, card_number CHAR(16), total DECIMAL(9,2))")
        cursor.execute(f"CREATE TABLE {own}.customers (id BIGINT PRIMARY KEY, name VARCHAR(40))")
        cursor.executemany(f"INSERT INTO {own}.orders VALUES (%s, '4711', 1.5)", [(n,) for n in range(ROWS)])
        cursor.executemany(f"INSERT INTO {own}.customers VALUES (%s, 'n')", [(n,) for n in range(ROWS)])
    dags = tmp_path / "dags"
    dags.mkdir()
    (file,) = page.blocks("python")
    flow, dag = file.split("dag = ")
    assert dag.strip() == f"flow_dag({own}, every=timedelta(minutes=1))"
    (dags / "first.py").write_text(flow.replace("from databus.airflow import flow_dag\n", ""))
    commands = Commands(world, dags, monkeypatch)
    monkeypatch.setattr(engine, "classic_session", lambda *_: OneProcess())
    login = {"conn_type": "mysql", "host": host, "port": int(port), "login": own, "password": own}
    monkeypatch.setenv(f"AIRFLOW_CONN_{own.upper()}", json.dumps(login))

    typed = page.commands()
    assert [words[0] for words in typed] == ["flows", "doctor", "run", "run", "snapshot", "lag", "ledger"]
    for words in typed[:2]:
        assert commands(*words).exit_code == 0, words
    dry = commands(*typed[2])
    assert dry.exit_code == 0
    assert commands(*typed[3]).exit_code == 0
    shown = commands(*typed[4]).output
    assert "finished after" in shown
    assert {f"{own}.{table}": ops_of(world, f"{own}.{table}") for table in ("orders", "customers")} == {
        f"{own}.orders": {"r": ROWS},
        f"{own}.customers": {"r": ROWS},
    }
    with world.sql(own) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE orders SET total = 2 WHERE id < 5")
        cursor.execute("DELETE FROM customers WHERE id < 3")
    assert commands(*typed[3]).exit_code == 0
    assert ops_of(world, f"{own}.orders") == {"r": ROWS, "u": 5}
    assert ops_of(world, f"{own}.customers") == {"r": ROWS, "d": 3}
    (lag,) = commands.json(*typed[5])
    assert lag["lag_bytes"] == 0
    assert commands(*typed[6]).exit_code == 0
