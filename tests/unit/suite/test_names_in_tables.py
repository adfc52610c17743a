"""Names of modules that stand in tables as text: each is a module, and has what is asked of it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

from databus import extend
from databus.airflow import preload
from databus.cli.main import Commands
from databus.core.positions.offset_kinds import KINDS
from databus.registry import GROUPS, PARTS
from databus.runtime.live import worker
from databus.runtime.spark import worker_daemon
from tests.suite import clients
from tests.suite.steady import ROOT

MOST = 25
"""Modules of a folder, `__init__` not counted."""

_TARGET = re.compile(r"\w+(?:\.\w+)+(?::\w+)?")
_DOTTED = re.compile(r"databus(?:\.\w+)+")
_BEGINS = re.compile(r"""["'}]databus\.\w""")
"""What stands in a file where a text begins so, also behind a value in an f-string."""
_ENTRY = re.compile(r'^\w+ = "(databus[\w.]*:\w+)"$', re.MULTILINE)

_STORED = (
    "databus.airflow.links:DataDocsLink",
    "databus.airflow.notifiers:AlertNotifier",
    "databus.airflow.timetable:StaggeredTimetable",
    "databus.airflow.triggers:ChangesTrigger",
    "databus.airflow.triggers:LagTrigger",
    "databus.airflow.assets:output_asset",
    "databus.airflow.backfill_alerts:BackfillNotifier",
    "databus.binlog.claims:read_claim",
    "databus.ops.submit:main",
)
"""Paths that Airflow keeps in its database or finds by name, and that people's files name by the documents."""


def _tables() -> dict[str, tuple[str, ...]]:
    named = sorted(target for known, _ in GROUPS.values() for target in known.values())
    return {
        "registry": (*named, *PARTS.values()),
        "core/positions/offset_kinds.py": tuple(KINDS.values()),
        "extend.py": tuple(f"{module}:{name}" for module, names in extend._PLACES.items() for name in names),
        "cli/main.py": tuple(Commands.places.values()),
        "airflow/preload.py": (*preload._MODULES, *preload._OF_TASKS),
        "runtime/live/worker.py": tuple(worker._NEEDED),
        "runtime/spark/worker_daemon.py": worker_daemon.NEEDED,
        "tests/faults/zygote.py": _constant(ROOT / "tests" / "faults" / "zygote.py", "_IMPORTS"),
        "tests/suite/clients.py": tuple(f"{module}:{name}" for module, name in clients._KEPT.items()),
        "pyproject.toml": tuple(_ENTRY.findall((ROOT / "pyproject.toml").read_text())),
        "stored by Airflow": _STORED,
    }


def _constant(path: Path, name: str) -> tuple[str, ...]:
    """Return a tuple of texts that a module holds, without importing it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no {name}")


TABLES = _tables()


@pytest.mark.parametrize("table", TABLES)
def test_what_tables_name_is_there(table: str) -> None:
    assert TABLES[table]
    for target in TABLES[table]:
        module, _, name = target.partition(":")
        assert _TARGET.fullmatch(target) or module in ("opensearchpy", "pandas", "pymysql")
        if not module.startswith(("databus.", "tests.")):
            assert importlib.util.find_spec(module.partition(".")[0]) is not None, target
            continue
        found = importlib.import_module(module)
        assert not name or hasattr(found, name), target


def test_dotted_names_in_the_code_are_there() -> None:
    wrong = []
    for folder in ("include/databus", "tests", "jobs", "plugins", "dags"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if _BEGINS.search(text) else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
                    wrong += [f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"] * (not _is_there(node.value))
    assert wrong == []


def _is_there(dotted: str) -> bool:
    """Tell whether a name is a module, or something in one; what begins as no package of ours is no such name."""
    parts = dotted.split(".")
    if not (ROOT / "include" / "databus" / parts[1]).is_dir() or dotted in _OTHERWISE:
        return True
    for end in range(len(parts), 1, -1):
        module = ".".join(parts[:end])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


_OTHERWISE = {
    "databus.checkpoints.kazoo",  # a logger
    "databus.ops.run",  # as a former commit calls it, where its state is made
    "databus.core.a",  # modules of a graph that a test of the suite makes up
}


def test_no_folder_is_a_drawer() -> None:
    package = ROOT / "include" / "databus"
    sizes = Counter(str(p.parent.relative_to(package)) for p in package.rglob("*.py") if p.name != "__init__.py")
    assert {folder: size for folder, size in sizes.items() if size > MOST} == {}
