from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

import databus
from databus import registry
from databus.core.batching import Batching
from databus.core.errors import ConfigError, UnknownKindError
from databus.core.flow_specs import SinkSpec
from databus.registry import GROUPS, flow_from_json, kinds, load_public, public_names, spec_class

ALL = [(group, kind) for group in GROUPS for kind in GROUPS[group][0]]


class Elsewhere(SinkSpec):
    kind: ClassVar[str] = "elsewhere"
    where: str = "there"


@pytest.mark.parametrize(("group", "kind"), ALL)
def test_every_kind_loads_and_knows_its_name(group: str, kind: str) -> None:
    found = spec_class(group, kind)
    assert found.kind == kind
    assert issubclass(found, GROUPS[group][1])
    assert found.__doc__


def test_every_kind_is_public() -> None:
    for name in public_names():
        assert getattr(databus, name).__name__ == name


def test_an_unknown_kind_names_the_line_and_the_choices() -> None:
    with pytest.raises(UnknownKindError) as caught:
        spec_class("sinks", "kafak")
    assert f"{Path(__file__)}:" in caught.value.message
    assert "Did you mean 'kafka'?" in caught.value.hint
    assert "elasticsearch" in caught.value.hint


def test_an_unknown_class() -> None:
    with pytest.raises(UnknownKindError) as caught:
        load_public("MysqlBinlgo")
    assert "Did you mean 'MysqlBinlog'?" in caught.value.hint
    with pytest.raises(AttributeError):
        _ = databus.nothing_such


@pytest.fixture
def other_package(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(kind: str) -> None:
        point = EntryPoint(kind, "elsewhere_package:Elsewhere", "databus.sinks")
        monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "databus.sinks" else [])
        monkeypatch.setitem(sys.modules, "elsewhere_package", sys.modules[__name__])

    return install


def test_other_packages_add_kinds(other_package: Callable[[str], None]) -> None:
    other_package("elsewhere")
    assert spec_class("sinks", "elsewhere") is Elsewhere
    assert "elsewhere" not in kinds("sources")
    assert public_names()["Elsewhere"] == "elsewhere_package:Elsewhere"


def test_other_packages_cannot_replace_ours(other_package: Callable[[str], None]) -> None:
    other_package("console")
    assert kinds("sinks")["console"] == GROUPS["sinks"][0]["console"]


class TestFlowFromJson:
    def flow(self) -> databus.Flow:
        return databus.Flow(
            name="orders",
            source=spec_class("sources", "mock")(rows=5),
            sinks=(spec_class("sinks", "noop")(), spec_class("sinks", "noop")(name="second")),
            batching=Batching(max_rows=5),
            zookeeper_conn_id="zk",
            description="text",
        )

    def test_an_equal_flow_comes_back(self) -> None:
        flow = self.flow()
        again = flow_from_json(flow.to_json())
        assert again == flow
        assert again.spec_hash("1") == flow.spec_hash("1")

    def test_bad_json_is_a_config_error(self) -> None:
        data = self.flow().to_json()
        with pytest.raises(UnknownKindError):
            flow_from_json({**data, "sinks": [{"kind": "nowhere"}]})
        with pytest.raises(ConfigError, match="unknown option 'colour'"):
            flow_from_json({**data, "sinks": [{"kind": "noop", "colour": 1}]})


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, databus\n"
        "heavy = {'pyspark', 'airflow', 'numba', 'pyarrow', 'pandas', 'kazoo', 'confluent_kafka', 'sqlalchemy'}\n"
        "found = sorted(heavy & set(sys.modules))\n"
        "sys.exit(f'loaded: {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
