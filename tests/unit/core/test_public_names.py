"""Public names: all are told without loading anything, and each option of what they name is described."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import databus
import databus.airflow
import databus.binlog
import databus.extend
from databus.registry import GROUPS, PARTS, load_public

PACKAGES = (databus, databus.airflow, databus.binlog, databus.extend)
_HEAVY = "{'pyspark', 'airflow', 'numba', 'pyarrow', 'kazoo', 'confluent_kafka', 'sqlalchemy'}"
_ENTRY = re.compile(r"^    \*{0,2}(?P<name>\w+): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)
_NAMED_OPTIONS = [name for name in databus.__all__ if name != "__version__"]


def imported_for_type_checkers(package: Any) -> set[str]:
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {name.asname or name.name for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}


def described(kind: type) -> dict[str, str]:
    """Return option → what the docstrings of a class and its bases say of it."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        found |= {match["name"]: " ".join(match["text"].split()) for match in _ENTRY.finditer(text)}
    return found


def options(kind: Any) -> dict[str, bool]:
    """Return option → whether it has a default."""
    if kind.__init__ is not databus.Flow.__init__ and issubclass(kind, databus.Flow):
        parameters = inspect.signature(kind.__init__).parameters.values()
        return {one.name: one.default is not one.empty for one in parameters if one.name != "self"}
    if is_dataclass(kind):
        return {f.name: f.default is not MISSING or f.default_factory is not MISSING for f in fields(kind)}
    return {name: not field.is_required() for name, field in getattr(kind, "model_fields", {}).items()}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_tells_all_its_names(package: Any) -> None:
    names = set(package.__all__)
    assert names - {"__version__"} == imported_for_type_checkers(package)
    assert names <= set(dir(package))
    for name in names:
        assert getattr(package, name) is not None


def test_names_are_those_of_the_registry() -> None:
    ours = {target.partition(":")[2] for known, _ in GROUPS.values() for target in known.values()}
    assert {*ours, *PARTS, *databus._OWN, "__version__"} == set(databus.__all__)


def test_telling_names_loads_nothing_heavy() -> None:
    code = (
        "import sys, databus\n"
        "assert {'Flow', 'Kafka', 'Mirror'} <= set(dir(databus)) & set(databus.__all__)\n"
        f"sys.exit(', '.join(sorted({_HEAVY} & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", _NAMED_OPTIONS)
def test_every_option_says_what_it_is_and_its_default(name: str) -> None:
    kind = getattr(databus, name) if name in databus._OWN else load_public(name)
    told = described(kind)
    assert not [option for option in options(kind) if not told.get(option)]
    assert not [
        option for option, optional in options(kind).items() if optional and "default" not in told[option].lower()
    ]


@pytest.mark.parametrize(
    "path",
    [
        "dags:flow_dag", "dags:mirror_dag", "sensors:ChangesSensor", "sensors:LagSensor",
        "notifiers:AlertNotifier", "operators.transfer:TransferOperator", "operators.submit:SubmitTransferOperator",
        "operators.audit:AuditOperator", "operators.preflight:PreflightOperator",
        "operators.single_task_run:WholeRunOperator", "backfills.operator:BackfillOperator",
        "triggers:ChangesTrigger", "triggers:LagTrigger",
    ],
)  # fmt: skip
def test_every_argument_in_airflow_is_described(path: str) -> None:
    module, _, name = path.partition(":")
    found = getattr(__import__(f"databus.airflow.{module}", fromlist=[name]), name)
    call = found.__init__ if isinstance(found, type) else found
    told = {m["name"] for m in _ENTRY.finditer(inspect.cleandoc(found.__doc__))}
    assert not [one for one in inspect.signature(call).parameters if one not in told | {"self"}]
