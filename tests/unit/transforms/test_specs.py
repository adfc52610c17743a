from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from databus import Flow, Mock, Noop
from databus.core.errors import ConfigError
from databus.core.flow_specs import TransformSpec
from databus.core.spec import options_of
from databus.registry import spec_class
from databus.transforms.drop import DropColumns
from databus.transforms.filter import Filter
from databus.transforms.hash import Hash
from databus.transforms.mask import Mask
from databus.transforms.project import Project
from databus.transforms.rename import RenameColumns
from databus.transforms.route import Route

SPECS = [
    Filter("amount > 1", tables=("shop.*",)),
    Filter("amount > 1", leaving="ignore"),
    Project("a", "b"),
    RenameColumns({"a": "b"}),
    DropColumns("card_number"),
    Mask("a", keep_last=4),
    Hash("a", "b", tables=("x.y",)),
    Route({"shop.*": "shop"}, default="rest"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.kind)
def test_a_spec_is_rebuilt_from_its_json(spec: TransformSpec) -> None:
    data = spec.to_json()

    assert spec_class("transforms", data["kind"]).from_stored(options_of(data)) == spec


def test_columns_by_position_and_by_name_are_the_same() -> None:
    assert DropColumns("a", "b") == DropColumns(columns=("a", "b"))
    assert Filter("a = 1") == Filter(condition="a = 1")


@pytest.mark.parametrize("kind", [DropColumns, Project, Mask, Hash, Filter, RenameColumns, Route])
def test_nothing_to_do_is_refused(kind: type[TransformSpec]) -> None:
    with pytest.raises(ConfigError):
        kind()


@pytest.mark.parametrize("condition", ["rand() > 1", "amount >", "id IN (SELECT 1)"])
def test_a_bad_condition_is_refused_with_file_and_line(condition: str) -> None:
    line = sys._getframe().f_lineno + 2
    with pytest.raises(ConfigError) as raised:
        Filter(condition)
    assert f"{__file__}:{line}: Filter: condition:" in raised.value.message
    assert "condition" in raised.value.hint


def test_what_is_done_of_rows_that_leave_is_seen_and_decides_the_output() -> None:
    deleting, ignoring = Filter("a = 1"), Filter("a = 1", leaving="ignore")
    assert deleting == Filter("a = 1", leaving="delete")
    assert (deleting.label(), ignoring.label()) == ("filter a = 1", "filter a = 1 (rows that leave it are ignored)")
    flows = [Flow(name="f", source=Mock(rows=1), transforms=(t,), sinks=(Noop(),)) for t in (deleting, ignoring)]
    assert len({flow.spec_hash("code") for flow in flows}) == 2
    with pytest.raises(ConfigError, match="leaving"):
        Filter("a = 1", leaving="keep")


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown option 'keep'") as raised:
        Mask("a", keep=4)
    assert "keep_last" in raised.value.hint


def test_building_specs_loads_no_heavy_package() -> None:
    code = (
        "import sys; from databus.transforms.filter import Filter; from databus.checks.not_null import NotNull;"
        "Filter('a > 1'); NotNull('a');"
        "bad = {'pyspark', 'numba', 'pyarrow', 'airflow', 'numpy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(__file__).parents[3] / "include")}
    )
