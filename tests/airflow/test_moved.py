"""Names that moved between releases of Airflow are found where the installed one has them."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from databus.airflow import moved
from databus.airflow.moved import PLACES

FOLDER = Path(moved.__file__).parent


@pytest.mark.parametrize("name", sorted(PLACES))
def test_each_is_found_in_the_newest_place_that_has_it(name: str) -> None:
    found = getattr(moved, name)
    for place in PLACES[name]:
        module, _, own = place.partition(":")
        if find_spec(module.rpartition(".")[0]) is None or find_spec(module) is None:
            continue
        code = f"from {module} import {own or name} as there"
        names: dict[str, object] = {}
        try:
            exec(code, names)
        except ImportError:
            continue
        assert found is names["there"]
        return
    pytest.fail(f"{name} is nowhere")


def test_an_older_place_is_taken_and_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "DAG", ("airflow.no_such_module", "airflow.sdk:NoSuchName", "airflow.sdk"))
    monkeypatch.setitem(PLACES, "Gone", ("airflow.no_such_module",))
    assert moved.DAG is import_module("airflow.sdk").DAG
    with pytest.raises(ImportError, match=r"no Gone: looked in airflow\.no_such_module"):
        _ = moved.Gone
    with pytest.raises(AttributeError, match="NotInTheTable"):
        _ = moved.NotInTheTable


def test_a_place_that_is_broken_is_told_and_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, code in (
        ("broken_by_a_name", "from os import no_such_name"),
        ("broken_by_a_module", "import no_such_module"),
        ("broken_by_an_attribute", "import os; os.no_such_name"),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.setitem(PLACES, "Broken", (name, "os:getcwd"))
        with pytest.raises((ImportError, AttributeError), match=r"no.such"):
            _ = moved.Broken
    monkeypatch.setitem(PLACES, "Gone", ("airflow.no_such_module",))
    with pytest.raises(ImportError, match="no Gone") as caught:
        _ = moved.Gone
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_no_module_takes_a_name_past_the_table() -> None:
    wrong = []
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow."):
                wrong += [
                    f"{file.relative_to(FOLDER)}:{node.lineno}: {alias.name}"
                    for alias in node.names
                    if alias.name in PLACES and (file.name, alias.name) not in CORE
                ]
    assert wrong == []


CORE = {("timetable.py", "DeltaDataIntervalTimetable"), ("preload.py", "conf"), ("lineage.py", "conf")}
"""What the scheduler's process takes from its own modules, which every release has, and the provider's settings."""
