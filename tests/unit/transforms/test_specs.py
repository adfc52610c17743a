from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from databus import Flow, Mock, Noop
from databus.core.errors import ConfigError
from databus.core.flow_specs import TransformSpec
from databus.core.spec import options_of
from databus.registry import spec_class
from databus.transforms.add_column import AddColumn
from databus.transforms.cast import Cast
from databus.transforms.drop import DropColumns
from databus.transforms.extract import Extract
from databus.transforms.filter import Filter
from databus.transforms.flatten import Flatten
from databus.transforms.hash import Hash
from databus.transforms.key_by import KeyBy
from databus.transforms.lookup import Lookup
from databus.transforms.mask import Mask
from databus.transforms.project import Project
from databus.transforms.python_function import PythonFunction
from databus.transforms.rename import RenameColumns
from databus.transforms.route import Route
from databus.transforms.split import Split
from databus.transforms.truncate import Truncate

SPECS = [
    Filter("amount > 1", tables=("shop.*",)),
    Filter("amount > 1", leaving="ignore"),
    Project("a", "b"),
    RenameColumns({"a": "b"}),
    DropColumns("card_number"),
    Mask("a", keep_last=4),
    Hash("a", "b", tables=("x.y",)),
    Route({"shop.*": "shop"}, default="rest"),
    Route(by="upper(region)", routes=("EU", "US"), moving="follow", tables=("shop.*",)),
    KeyBy("a", "b", unique=True),
    Split({"big": "a > 1", "all": "true"}, tables=("shop.*",)),
    Flatten("doc", {"b.c": "INTEGER", "a": "string"}, prefix="doc_", delimiter=".", on_failure="null"),
    AddColumn({"tables": "upper(a)"}, b="a > 1", tables=("shop.*",)),
    Cast(a="INTEGER", b="Decimal(12, 2)", on_failure="null"),
    Truncate({"a": 100, "b": 4}),
    Extract("doc", path="$.a['b c'][0]", into="c", type="bigint"),
    PythonFunction("a.b:c", inputs=("a", "b"), into="c", type="decimal(4, 2)"),
    Lookup("a", {7: Decimal("2.50"), True: 3, "x": 4.5}, into="c", type="decimal(4,2)", missing="hold"),
]
KINDS = [type(spec) for spec in SPECS]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.kind)
def test_a_spec_is_rebuilt_from_its_json(spec: TransformSpec) -> None:
    data = spec.to_json()

    assert spec_class("transforms", data["kind"]).from_stored(options_of(data)) == spec


def test_columns_by_position_and_by_name_are_the_same() -> None:
    assert DropColumns("a", "b") == DropColumns(columns=("a", "b"))
    assert Filter("a = 1") == Filter(condition="a = 1")
    assert AddColumn(b="a") == AddColumn({"b": "a"}) == AddColumn(columns={"b": "a"})
    assert Cast(a="short") == Cast({"a": "smallint"})
    assert Truncate("a", 5) == Truncate({"a": 5})
    assert Lookup("a", {True: "x", 7: "y\nz"}, into="b") == Lookup.of_csv(
        "a", 'k,x,v\n7,,"y\nz"\ntrue,,x\n', key="k", value="v", into="b"
    )
    assert Extract("a", path="$.b", into="c") == Extract(column="a", path="$.b", into="c", type="STRING")


@pytest.mark.parametrize("kind", list(dict.fromkeys(KINDS)))
def test_nothing_to_do_is_refused(kind: type[TransformSpec]) -> None:
    with pytest.raises(ConfigError):
        kind()


@pytest.mark.parametrize("condition", ["rand() > 1", "amount >", "id IN (SELECT 1)", "(" * 200 + "id = 1" + ")" * 200])
def test_a_bad_condition_is_refused_with_file_and_line(condition: str) -> None:
    line = sys._getframe().f_lineno + 2
    with pytest.raises(ConfigError) as raised:
        Filter(condition)
    assert f"{__file__}:{line}: Filter: condition:" in raised.value.message
    assert "condition" in raised.value.hint


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: AddColumn(x="before.a"), "before.a: it is computed in each image from that image"),
        (lambda: AddColumn(x="_op"), "_op is the row's"),
        (lambda: AddColumn(x="uuid()"), "uuid"),
        (lambda: AddColumn(x="CAST(a AS array<int>)"), "is no type of a column"),
        (lambda: AddColumn({" ": "a"}), "is no name of a column"),
        (lambda: AddColumn({"'?.": "a"}), "cannot be said"),
        (lambda: AddColumn(table=("shop.o",)), "columns.table"),
        (lambda: Cast(a="varchar"), "'varchar' is no type of a column: tinyint"),
        (lambda: Cast(a="decimal(39,2)"), "is no type"),
        (lambda: Cast(a="decimal(4,5)"), "is no type"),
        (lambda: Truncate("a", 0), "greater than or equal to 1"),
        (lambda: Truncate("a"), "no length is given for 'a'"),
        (lambda: Extract("d", path="a.b", into="c"), "is no path to one value"),
        (lambda: Extract("d", path="$.a[*]", into="c"), "is no path to one value"),
        (lambda: Extract("d", path="$.a", into="c", type="json"), "is no type"),
        (lambda: Extract("d", path="$.a", into=""), "into"),
        (lambda: Lookup("a", {}, into="b"), "values"),
        (lambda: Lookup("a", {"x": None}, into="b"), "values.x"),
        (lambda: Lookup("a", {1: "a", "1": "b"}, into="b"), "two keys are the same text"),
        (lambda: Lookup("a", {"x": "y" * 70_000}, into="b"), "bytes as JSON"),
        (lambda: Lookup("a", {"x": "1"}, into="b", type="timestamp"), "are no timestamp"),
        (lambda: Lookup("a", {"x": 128}, into="b", type="tinyint"), "128 under 'x' is no tinyint"),
        (lambda: Lookup("a", {"x": "1_0"}, into="b", type="int"), "is no int"),
        (lambda: Lookup("a", {"x": "1.234"}, into="b", type="decimal(4,2)"), "is no decimal(4,2)"),
        (lambda: Lookup("a", {"x": 100}, into="b", type="decimal(4,2)"), "is no decimal(4,2)"),
        (lambda: Lookup("a", {"x": "20240131"}, into="b", type="date"), "is no date"),
        (lambda: Lookup("a", {"x": "yes"}, into="b", type="boolean"), "is no boolean"),
        (lambda: Lookup.of_csv("a", "k,v\n1,2\n", key="key", value="v", into="b"), "has no column key"),
        (lambda: Lookup("a", {7.0: "x"}, into="b"), "7.0 is no key"),
        (lambda: Lookup("a", {None: "x"}, into="b"), "None is no key"),
        (lambda: Lookup.of_csv("a", "k,v\n1,2\n3\n", key="k", value="v", into="b"), "line 3 of the CSV text has not"),
        (lambda: Lookup.of_csv("a", "k,v\n1,2,3", key="k", value="v", into="b"), "line 2 of the CSV text has not"),
        (lambda: Lookup.of_csv("a", "k,v\n1,2\n1,3", key="k", value="v", into="b"), "has the key '1' twice"),
    ],
)
def test_what_no_value_can_be_computed_by_is_refused(build: Callable[[], TransformSpec], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build()
    assert said in raised.value.message


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


@pytest.mark.parametrize(
    "made",
    [
        lambda: Route({"a": "b"}, by="region", routes=("eu",)),
        lambda: Route(by="region"),
        lambda: Route(by="region", routes=("eu", "eu")),
        lambda: Route(by="region", routes=("eu",), default="rest"),
        lambda: Route({"a": "b"}, moving="follow"),
        lambda: Route(by="region", routes=tuple(map(str, range(17)))),
        lambda: Route(by="after.region", routes=("eu",)),
        lambda: Route(by="if(_op = 'd', 'eu', 'us')", routes=("eu", "us")),
        lambda: Route(by="if(_ts_ms > 5, 'eu', 'us')", routes=("eu", "us")),
        lambda: Split({"a": "before.v > 5"}),
        lambda: Split({"": "true"}),
        lambda: KeyBy("a", "A"),
        lambda: Split({"a": "_ts_ms > 5"}),
        lambda: Flatten("doc", {"a[0]": "int"}),
        lambda: Flatten("doc", {"a": "list"}),
        lambda: Flatten("doc", {"a.b": "int", "a_B": "int"}),
    ],
)
def test_what_says_no_place_or_column_is_refused(made: Callable[[], TransformSpec]) -> None:
    with pytest.raises(ConfigError):
        made()


def test_a_route_by_value_is_stored_beside_former_ones() -> None:
    assert Route({"a": "b"}).to_json() == {"kind": "route", "tables": ["*"], "mapping": {"a": "b"}, "default": None}
    by = Route(by="a", routes=("b",))
    assert (by.by_table, Route({"a": "b"}).by_table) == (False, True)
    assert by.all_routes("shop.t", "shop.t") == ("b",)
    assert Split({"b": "true", "a": "true"}, tables=("shop.*",)).all_routes("other.t", "x") == ("x",)
