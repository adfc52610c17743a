"""Extras: every import belongs to the base or to one; without one's packages the rest works and the lack is named."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from databus.core.errors import PackageMissingError, PackageVersionError
from databus.core.packages import EXTRAS, lacking, naming_packages, of_import, require, require_one_version

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "include" / "databus"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {name for name in PROJECT["optional-dependencies"] if name not in ("all", "dev", "docs")}
OF_WHO_TESTS = {"pytest"}
"""What the shipped contract suites need, and name themselves (databus/testing/contract)."""

OTHER_WHEEL = ("bench", "demo", "sandbox")

FOLDERS: dict[str, tuple[str, ...]] = {
    "airflow": ("airflow", "lineage", "spark"),
    "binlog": ("mysql",),
    "checks": ("spark",),
    "consumer": ("consumer",),
    "core": ("spark",),
    "expressions": ("spark",),
    "formats": ("spark",),
    "kafka": ("kafka",),
    "ops": ("lineage", "quality", "spark"),
    "records": ("lineage", "postgres", "quality"),
    "rows": ("spark",),
    "runtime": ("spark",),
    "schema_registry": ("registry",),
    "sinks": ("elasticsearch", "kafka", "spark"),
    "sources": ("kafka", "mysql", "spark"),
    "stream": ("stream",),
    "testing": ("spark",),
    "transforms": ("spark",),
    "web": ("airflow",),
}
"""Folder → extras whose packages its modules import; the others import only the base's."""


_NOT_OF_OTHERS = frozenset((*sys.stdlib_module_names, "databus", *OF_WHO_TESTS))


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield (module, line) of what a file imports of others, what only type checkers read left out."""

    def below(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue  # no import stands in one
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield child
            yield from below(child)

    for node in below(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] not in _NOT_OF_OTHERS:
                yield name, node.lineno  # type: ignore[attr-defined]


def distributions(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


BASE = distributions(PROJECT["dependencies"])
BY_EXTRA = {extra: distributions(PROJECT["optional-dependencies"][extra]) for extra in OURS}


@cache
def installed() -> dict[str, set[str]]:
    """Return the distributions of each module that is installed; reads all their lists of files."""
    return {module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()}


def of_module(module: str) -> set[str]:
    """Return the distributions that a module may come from; llvmlite is what numba is made of."""
    top = "numba" if module.partition(".")[0] == "llvmlite" else module.partition(".")[0]
    return {"protobuf"} if module.startswith("google.protobuf") else set(installed()[top])


def test_every_import_belongs_to_the_base_or_to_an_extra_of_its_folder() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] not in OTHER_WHEEL]
    assert len(files) > 500
    strange = []
    for file in files:
        folder = file.relative_to(PACKAGE).parts[0]
        allowed = BASE.union(*(BY_EXTRA[extra] for extra in FOLDERS.get(folder, ())))
        for module, line in imports(file):
            if not of_module(module) & allowed:
                strange.append(f"{file.relative_to(PACKAGE)}:{line}: {module}")
    assert not strange


def test_the_table_of_extras_is_the_one_of_pyproject() -> None:
    assert set(EXTRAS) == OURS
    for extra, modules in EXTRAS.items():
        brought = BY_EXTRA[extra]
        if extra == "sandbox":
            continue
        for module in modules:
            assert of_module(module) & brought, f"{extra} brings nothing that has {module}"
    everything = Requirement(PROJECT["optional-dependencies"]["all"][0])
    assert everything.name == "databus"
    assert everything.extras == OURS - {"sandbox"}


def test_packages_that_write_the_same_files_are_asked_for_in_one_range() -> None:
    asked = [Requirement(each) for extra in ("spark", "airflow") for each in PROJECT["optional-dependencies"][extra]]
    ranges = {each.name: str(each.specifier) for each in asked if each.name in ("pyspark", "pyspark-client")}
    assert len(ranges) == 2
    assert len(set(ranges.values())) == 1


def test_the_base_brings_no_client_and_nothing_that_is_compiled_for_rows() -> None:
    assert not BASE & {"numpy", "pyarrow", "numba", "pandas", "pyspark", "confluent-kafka", "great-expectations"}
    assert len(BASE) < 12


def test_what_is_installed_is_not_missed() -> None:
    assert {extra: lacking(extra) for extra in EXTRAS} == dict.fromkeys(EXTRAS, ())
    require(EXTRAS, "all of it")


def test_a_module_of_no_extra_is_nobody_s() -> None:
    assert of_import(ModuleNotFoundError("No module named 'nothing'", name="nothing.at.all"), "x") is None
    assert of_import(ModuleNotFoundError("No module named 'databus.nothing'", name="databus.nothing"), "x") is None
    with pytest.raises(ModuleNotFoundError, match="nothing"), naming_packages("x"):
        raise ModuleNotFoundError("nothing", name="nothing")
    with pytest.raises(PackageMissingError) as caught, naming_packages("x"):
        raise ModuleNotFoundError("no", name="grpc_tools.protoc")
    assert caught.value.message == "x needs grpcio-tools, which is not installed"
    assert "pip install 'databus[registry]'" in caught.value.hint


def test_packages_that_write_the_same_files_have_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_one_version("pyspark", "pyspark-client")
    for name, version in (("one", "4.1.1"), ("other", "4.0.10")):
        (tmp_path / f"{name}-{version}.dist-info").mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / f"{name}-{version}.dist-info" / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    require_one_version("one", "nothing-of-that-name")
    with pytest.raises(PackageVersionError, match=r"one 4\.1\.1, other 4\.0\.10") as caught:
        require_one_version("one", "other")
    assert caught.value.code == "package_version"
    assert "pip install --force-reinstall --no-deps one==4.1.1 other==4.1.1" in caught.value.hint


BASE_ALONE = """
import json, sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == m or name.startswith(m + ".") for m in MODULES):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MODULES = sys.argv[1].split(",")
sys.meta_path.insert(0, Blocked())

from typer.testing import CliRunner
from databus.cli.main import app
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import DatabusError
from databus.core.flow_specs import FlowContext
from databus.core.packages import naming_packages
from databus.core.settings import Settings
from databus.ops.flows.discovery import discover

dags = Path(sys.argv[2])
flows = {f.flow.name: f.flow for f in discover(dags, dags=False)[0]}
kinds = {"M": "mysql", "K": "kafka", "E": "opensearch", "R": "http"}
connections = EnvironmentConnections(
    {f"AIRFLOW_CONN_{name}": json.dumps({"conn_type": kind, "host": "h"}) for name, kind in kinds.items()}
)
context = FlowContext("x", Settings.from_environment())

def quality():
    from databus.records.quality.great_expectations_context import great_expectations
    great_expectations()

def postgres():
    from databus.records.store import RecordStore
    RecordStore(context.settings.records_url)

def lineage():
    import databus.records.lineage.run_facet

def spark():
    from databus.runtime.spark.session import connect_session
    connect_session("sc://h:1/;token=secret", "x")

def airflow():
    from databus.airflow import flow_dag

def consumer():
    from databus.consumer import Changes
    Changes("k:9092", "t")

def stream():
    CliRunner().invoke(app, ["stream", "k:9092"], catch_exceptions=False)

def sandbox():
    CliRunner().invoke(app, ["sandbox", "status"], catch_exceptions=False)

topic, index = flows["all_kinds"].sinks
asking = {
    "mysql": lambda: flows["all_kinds"].source.open(connections, context),
    "kafka": lambda: topic.open(connections, context),
    "elasticsearch": lambda: index.open(connections, context),
    "registry": lambda: flows["of_registry"].source.open(connections, context),
    **{f.__name__: f for f in (quality, postgres, lineage, spark, airflow, consumer, stream, sandbox)},
}

def refusal(ask):
    try:
        with naming_packages("it"):
            ask()
    except DatabusError as error:
        return {"code": error.code, "message": error.message, "hint": error.hint}

run = lambda *words, env=None: CliRunner().invoke(app, words, env=env)
print("@" + json.dumps({
    "help": run("--help").output,
    "listed": json.loads(run("flows", "list", "--dags", str(dags), "-o", "json").stdout),
    "validated": json.loads((told := run("flows", "validate", "--dags", str(dags), "-o", "json")).stdout),
    "exit": told.exit_code,
    "of_dag": [
        (one := run("flows", "validate", "--dags", str(dags / "dag"), env={"DATABUS_RECORDS_URL": None})).exit_code,
        one.stdout, one.stderr,
    ],
    "refused": {extra: refusal(ask) for extra, ask in asking.items()},
    "loaded": [m for m in MODULES if m in sys.modules],
}))
"""

FLOWS = """
from databus import Elasticsearch, Flow, Kafka, KafkaTopics, MysqlBinlog, NotNull

all_kinds = Flow(
    name="all_kinds",
    source=MysqlBinlog(conn_id="m", tables=("shop.orders",)),
    checks=(NotNull("id"),),
    sinks=(Kafka(conn_id="k", topic="t"), Elasticsearch(conn_id="e", index="i")),
)
of_registry = Flow(
    name="of_registry",
    source=KafkaTopics(conn_id="k", topics=("t",), value_format="avro", registry_conn_id="r"),
    sinks=(Kafka(conn_id="k", topic="u"),),
)
"""

DAG = """
from databus import Console, Flow, Mock
from databus.airflow import flow_dag

of_dag = Flow(name="of_dag", source=Mock(rows=1), sinks=(Console(),))
dag = flow_dag(of_dag)
"""


def command(extra: str) -> str:
    return "pip install databus-sandbox" if extra == "sandbox" else f"pip install 'databus[{extra}]'"


@pytest.fixture(scope="module")
def base_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a process says that can import nothing of any extra."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "flows.py").write_text(FLOWS)
    (dags / "dag").mkdir()
    (dags / "dag" / "with_dag.py").write_text(DAG)
    environment = {
        "HOME": str(dags),
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "200",
        "DATABUS_RECORDS_URL": "postgresql://u:secret@h/d",
    }
    blocked = sorted({module for modules in EXTRAS.values() for module in modules})
    done = subprocess.run(
        [sys.executable, "-c", BASE_ALONE, ",".join(blocked), str(dags)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.rpartition("@")[2])
    return found


def test_the_base_alone_defines_and_lists_flows(base_alone: dict[str, Any]) -> None:
    assert [row["flow"] for row in base_alone["listed"]] == ["all_kinds", "of_dag", "of_registry"]
    assert " doctor " in base_alone["help"]
    assert " sandbox" not in base_alone["help"]
    assert " bench " not in base_alone["help"]
    assert base_alone["loaded"] == []


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_what_an_extra_brings_is_named_where_it_is_asked_for(base_alone: dict[str, Any], extra: str) -> None:
    refused = base_alone["refused"][extra]
    assert refused is not None, "nothing was refused"
    assert refused["code"] == "package_missing"
    named = "kafka,registry" if extra == "registry" else extra
    assert refused["hint"].startswith(command(named))
    assert re.search(r" needs [\w.-]+(, [\w.-]+)*, which (is|are) not installed$", refused["message"])
    assert "secret" not in json.dumps(refused)


def test_validate_names_the_extras_of_each_flow(base_alone: dict[str, Any]) -> None:
    named: dict[str, set[str]] = {}
    for row in base_alone["validated"]:
        extras = re.match(r"pip install 'databus\[([a-z,]+)\]'", row["hint"])
        assert extras is not None, row
        named.setdefault(row["flow"] or Path(row["file"]).name, set()).update(extras[1].split(","))
    assert named == {
        "all_kinds": {"mysql", "kafka", "elasticsearch", "quality", "postgres"},
        "of_registry": {"kafka", "registry", "postgres"},
        "of_dag": {"postgres"},
    }
    assert base_alone["exit"] == 2


def test_without_airflow_validate_takes_a_file_with_a_dag_as_other_commands_do(base_alone: dict[str, Any]) -> None:
    code, shown, told = base_alone["of_dag"]
    assert (code, shown.split()[:2]) == (0, ["ok", "of_dag"]), shown
    assert told == (
        "Airflow is not installed here: flows are validated without their DAGs\n1 flow: 1 well, 0 with faults\n"
    )


CONSUMER_ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == m or name.startswith(m + ".") for m in MODULES):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MODULES = sys.argv[1].split(",")
sys.meta_path.insert(0, Blocked())

import databus.consumer
from databus.consumer import *
import databus.consumer.places, databus.consumer.feed, databus.consumer.regrouping, databus.consumer.typed_rows
import databus.consumer.look_backs

changes = Changes("k:9092", "t", group="g")
databus.consumer.places.client_settings("k:9092")
others = (*MODULES, "sqlalchemy", "kazoo", "typer", "sqlglot")
print([m for m in others if m in sys.modules], len(databus.consumer.__all__))
"""


def test_a_consumer_needs_its_own_extra_alone() -> None:
    blocked = sorted({m for modules in EXTRAS.values() for m in modules} - set(EXTRAS["consumer"]))
    done = subprocess.run(
        [sys.executable, "-c", CONSUMER_ALONE, ",".join(blocked)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[] 8\n"), done.stderr
