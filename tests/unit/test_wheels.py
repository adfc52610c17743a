"""Wheels: databus has the product with its pages and entry points, databus-sandbox what is for trying and measuring."""

from __future__ import annotations

import configparser
import email
import importlib.util
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "include" / "databus"
OTHER = ("bench", "demo", "sandbox")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "packaging" / "wheels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheels"] = module
    spec.loader.exec_module(module)
    before = sorted((ROOT / "include").rglob("*.egg-info"))
    built = module.build(tmp_path_factory.mktemp("wheels"))
    assert sorted((ROOT / "include").rglob("*.egg-info")) == before, "the build leaves something in the tree"
    return {path.name.partition("-")[0]: zipfile.ZipFile(path) for path in built}


def files(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_string(wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))).decode())


def test_together_they_hold_the_tree_and_no_file_twice(wheels: dict[str, zipfile.ZipFile]) -> None:
    assert set(wheels) == {"databus", "databus_sandbox"}
    product, sandbox = files(wheels["databus"]), files(wheels["databus_sandbox"])
    assert not product & sandbox
    tree = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not any("egg-info" in p for p in path.parts)
    }
    assert product | sandbox == tree
    assert {name.split("/")[1] for name in sandbox} == set(OTHER)
    assert not {name.split("/")[1] for name in product} & set(OTHER)


def test_pages_types_and_files_beside_the_code_are_there(wheels: dict[str, zipfile.ZipFile]) -> None:
    product = files(wheels["databus"])
    assert {"databus/web/bundle/main.js", "databus/py.typed", "databus/sinks/schemas/row_envelope.json"} <= product
    assert {"databus/airflow/plugin.py", "databus/airflow/provider_info.py"} <= product
    assert wheels["databus"].getinfo("databus/web/bundle/main.js").file_size > 1_000
    assert "databus/sandbox/versions.env" in files(wheels["databus_sandbox"])


def test_entry_points_name_the_command_the_plugin_and_the_provider(wheels: dict[str, zipfile.ZipFile]) -> None:
    name = next(n for n in wheels["databus"].namelist() if n.endswith("entry_points.txt"))
    points = configparser.ConfigParser()
    points.read_string(wheels["databus"].read(name).decode())
    assert {section: dict(points[section]) for section in points.sections()} == {
        "console_scripts": {"databus": "databus.cli.main:main"},
        "apache_airflow_provider": {"provider_info": "databus.airflow.provider_info:get_provider_info"},
        "airflow.plugins": {"databus": "databus.airflow.plugin:DatabusPlugin"},
    }
    assert not any(n.endswith("entry_points.txt") for n in wheels["databus_sandbox"].namelist())


def test_both_have_one_version_and_the_second_needs_the_first(wheels: dict[str, zipfile.ZipFile]) -> None:
    product, sandbox = metadata(wheels["databus"]), metadata(wheels["databus_sandbox"])
    assert product["Version"] == sandbox["Version"]
    assert product["Requires-Python"] == sandbox["Requires-Python"]
    assert f"databus[all]=={product['Version']}" in sandbox.get_all("Requires-Dist", [])
    extra = 'databus-sandbox=={}; extra == "sandbox"'.format(product["Version"])
    assert extra in product.get_all("Requires-Dist", [])
    unconditional = [text for text in product.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert len(unconditional) < 12
    for wheel in wheels.values():
        assert [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
