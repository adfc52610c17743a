"""The wheel that users install: it holds the plugin with its built pages, and registers it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[3]
BUNDLE = "databus/web/bundle"
SECOND_WHEEL = ("bench", "demo", "sandbox")
"""What databus-sandbox brings: tests/unit/test_wheels.py."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel of this tree, built from a copy: a build leaves files beside its sources."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "include", tree / "include", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = f"import setuptools.build_meta as backend; backend.build_wheel({str(out)!r})"
    command = [sys.executable, "-W", "ignore", "-c", build]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = out.glob("databus-*.whl")
    assert not list((tree / "include").glob("*.egg-info")), "an editable install would be found twice"
    return ZipFile(built)


def test_the_wheel_holds_the_built_pages(wheel: ZipFile) -> None:
    for name in ("main.js", "built.json"):
        assert wheel.read(f"{BUNDLE}/{name}") == (ROOT / "include" / BUNDLE / name).read_bytes()


def test_the_wheel_registers_the_plugin_once(wheel: ZipFile) -> None:
    (file,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    entries = ConfigParser()
    entries.read_string(wheel.read(file).decode())
    assert dict(entries["airflow.plugins"]) == {"databus": "databus.airflow.plugin:DatabusPlugin"}
    assert "databus/airflow/plugin.py" in wheel.namelist()


def test_the_wheel_holds_every_module_and_nothing_of_its_build(wheel: ZipFile) -> None:
    files = [file.relative_to(ROOT / "include") for file in (ROOT / "include" / "databus").rglob("*.py")]
    source = {str(file) for file in files if file.parts[1] not in SECOND_WHEEL}
    packed = {name for name in wheel.namelist() if not name.startswith("databus-")}
    assert source <= packed
    assert not [name for name in packed if "egg-info" in name]
