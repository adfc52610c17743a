"""The wheel in an Airflow that has nothing else: installed under constraints, found as provider and plugin, moves rows.

Constraints are locked from Airflow and its providers alone, as Airflow's own are; databus gets what they leave it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections
from tests.integration.kafka_target import consume
from tests.ports import ports_from
from tests.state_fixtures.server_state import sql_of

ROOT = Path(__file__).parents[2]
RELEASES = ("3.1", "3.2", "3.3")
EXTRAS = ("airflow", "kafka", "mysql", "spark")


FLOW = """
from datetime import timedelta

from databus import DropColumns, Flow, Kafka, MysqlBinlog
from databus.airflow import flow_dag

installed = Flow(
    name="installed",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("{database}.*",), snapshot="initial"),
    transforms=(DropColumns("card", tables=("{database}.people",)),),
    sinks=(Kafka(conn_id="kafka_east", topic="{database}.{{table}}"),),
)
dag = flow_dag(installed, every=timedelta(minutes=1))
"""


@dataclass
class Installed:
    """An environment with one release of Airflow and the wheel.

    Attributes:
        folder: its folder, which is `AIRFLOW_HOME` too.
        python: its interpreter.
    """

    folder: Path
    python: Path

    def asked(self, *words: str, more: Mapping[str, str] | None = None) -> str:
        """Run `airflow` or `databus` in a home of its own; return what it prints."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATABUS"))}
        environment |= {"AIRFLOW_HOME": str(self.folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "COLUMNS": "300"}
        environment |= {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", **(more or {})}
        command = [str(self.python.with_name(words[0])), *words[1:]]
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout

    def versions(self, name: str) -> dict[str, str]:
        """Return package → version of a file of requirements."""
        return dict(line.split("==") for line in (self.folder / name).read_text().split() if "==" in line)


def read_json(text: str) -> Any:
    """Return the list of a command's output, behind lines of its log."""
    return json.loads(text[text.index("[{") :])


@pytest.fixture(scope="module")
def trial() -> Any:
    spec = importlib.util.spec_from_file_location("trial", ROOT / "packaging" / "trial.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["trial"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=RELEASES)
def installed(trial: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Installed:
    folder = tmp_path_factory.mktemp(f"airflow-{request.param}")
    here = trial.Trial(folder, airflow=request.param, extras=EXTRAS, sandbox=False)
    here.install()
    found = Installed(folder, here.interpreter)
    assert found.versions("constraints.txt")["apache-airflow"].startswith(f"{request.param}.")
    return found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("servers"), ports_from=ports_from(24_800))
    try:
        sandbox.up(("zookeeper", "kafka", "mysql", "spark"))
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.mark.timeout(2400)
def test_an_empty_airflow_shows_provider_and_plugin(installed: Installed) -> None:
    constraints, packages = installed.versions("constraints.txt"), installed.versions("requirements.txt")
    assert {name: packages[name] for name in constraints if name in packages} == {
        name: version for name, version in constraints.items() if name in packages
    }
    providers = read_json(installed.asked("airflow", "providers", "list", "-o", "json"))
    assert "databus" in {provider["package_name"] for provider in providers}
    plugins = read_json(installed.asked("airflow", "plugins", "-o", "json"))
    (ours,) = (plugin for plugin in plugins if plugin["name"] == "databus")
    assert "databus" in str(ours["source"])
    shown = installed.asked("databus", "--help")
    assert " flows " in shown
    assert " sandbox " not in shown


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_rows_and_changes_go_through_its_command_and_its_dag(installed: Installed, servers: Sandbox) -> None:
    database = f"of_{installed.versions('requirements.txt')['apache-airflow'].replace('.', '_')}"
    dags = installed.folder / "dags"
    dags.mkdir()
    (dags / "installed.py").write_text(FLOW.format(database=database))
    environment = {
        **airflow_connections(servers.status()),
        "DATABUS_HOME": str(installed.folder / "databus"), "DATABUS_INSTALLATION": database,
    }  # fmt: skip
    with closing(sql_of(servers)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"CREATE TABLE {database}.people (id INT PRIMARY KEY, name VARCHAR(20), card VARCHAR(20))")
        cursor.executemany(
            f"INSERT INTO {database}.people VALUES (%s, %s, 'secret')", [(n, f"person {n}") for n in range(1, 51)]
        )
        installed.asked("databus", "run", "installed", "--until-caught-up", more=environment)
        cursor.execute(f"UPDATE {database}.people SET name = 'changed' WHERE id = 7")
        cursor.execute(f"DELETE FROM {database}.people WHERE id = 9")
    installed.asked("airflow", "db", "migrate", more=environment)
    installed.asked("airflow", "dags", "reserialize", more=environment)
    shown = installed.asked("airflow", "dags", "test", "installed", more=environment)
    assert "secret" not in shown
    seen: dict[int, list[str]] = {}
    for message in consume(servers.address("kafka"), f"{database}.people"):
        if message.value() is not None:
            value = json.loads(message.value())
            row = value["after"] or value["before"]
            assert set(row) == {"id", "name"}
            seen.setdefault(row["id"], []).append(value["op"])
    assert seen == {n: ["r"] for n in range(1, 51)} | {7: ["r", "u"], 9: ["r", "d"]}
    assert installed.asked("databus", "ledger", "installed", "--verify", more=environment)
