from __future__ import annotations

import json
import os
import pickle
import runpy
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from databus import Elasticsearch, Kafka, MysqlBinlog
from databus.core.batching import Batching
from databus.core.errors import ConfigError
from databus.core.flow import Flow
from databus.core.flow_specs import CheckSpec, SinkSpec, SourceSpec, TransformSpec
from databus.core.spec import Spec


class Lines(SourceSpec):
    kind: ClassVar[str] = "lines"
    path: str
    every: int = 1


class Upper(TransformSpec):
    kind: ClassVar[str] = "upper"
    column: str


class Short(CheckSpec):
    kind: ClassVar[str] = "short"
    column: str

    @property
    def check_name(self) -> str:
        return f"short({self.column})"


class Screen(SinkSpec):
    kind: ClassVar[str] = "screen"
    color: str = "white"


def flow(**changes: Any) -> Flow:
    parts: dict[str, Any] = {
        "name": "orders",
        "source": Lines(path="a"),
        "transforms": (Upper(column="x"),),
        "checks": (Short(column="x"),),
        "sinks": (Screen(),),
    }
    return Flow(**{**parts, **changes})


def here(offset: int = 0) -> str:
    import sys

    return f"{Path(__file__)}:{sys._getframe(1).f_lineno + offset}"


class TestBadOptions:
    def test_an_unknown_option_names_file_line_and_choices(self) -> None:
        with pytest.raises(ConfigError) as caught:
            Lines(path="a", evry=2)
        assert caught.value.message.startswith(here(-1) + ": Lines: unknown option 'evry'")
        assert caught.value.hint == "Lines takes: every, path."
        assert not caught.value.retryable

    def test_a_missing_option(self) -> None:
        with pytest.raises(ConfigError, match="missing option 'path'"):
            Lines()

    def test_a_wrong_type_is_named_by_its_option(self) -> None:
        with pytest.raises(ConfigError, match=r"every: .*integer"):
            Lines(path="a", every="often")

    def test_one_text_where_several_are_wanted_is_told_how_to_write_it(self) -> None:
        with pytest.raises(ConfigError, match=r'tables is one text, and .*: tables=\("shop\.orders",\) '):
            MysqlBinlog(conn_id="m", tables="shop.orders")
        with pytest.raises(ConfigError, match="tables: Input should be a valid tuple"):
            MysqlBinlog(conn_id="m", tables=7)

    def test_bounds_of_a_batch(self) -> None:
        for wrong in ({"max_rows": 0}, {"max_bytes": -1}, {"max_wait": timedelta(0)}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                Batching(**wrong)

    @pytest.mark.parametrize("name", ["", "Orders", "1st", "a-b", "a/b", "a" * 101, "ä", "orders\n"])
    def test_a_flow_needs_an_identifier(self, name: str) -> None:
        with pytest.raises(ConfigError, match="lower-case"):
            flow(name=name)

    def test_a_flow_needs_a_sink(self) -> None:
        with pytest.raises(ConfigError, match="sinks"):
            flow(sinks=())

    def test_sinks_and_checks_are_told_apart_by_name(self) -> None:
        with pytest.raises(ConfigError, match="sink names must be unique, repeated: screen"):
            flow(sinks=(Screen(), Screen(color="red")))
        with pytest.raises(ConfigError, match=r"check names must be unique, repeated: short\(x\)"):
            flow(checks=(Short(column="x"), Short(column="x", severity="warn")))
        assert len(flow(sinks=(Screen(), Screen(name="second"))).sinks) == 2

    def test_severity_is_one_of_three(self) -> None:
        with pytest.raises(ConfigError, match="severity"):
            Short(column="x", severity="ignore")

    def test_another_package_that_begins_alike_is_the_callers_code(self, tmp_path: Path) -> None:
        """`databus_extra` beside `databus` is not `databus`."""
        import databus.core.former_names as module

        neighbour = f"{module._PACKAGE.rstrip('/')}_extra/flows.py"
        code = compile("\n\nLines(nope=1)", neighbour, "exec")
        with pytest.raises(ConfigError) as caught:
            exec(code, {"Lines": Lines})
        assert caught.value.message.startswith(f"{neighbour}:3: ")


class TestFrozen:
    def test_specs_do_not_change(self) -> None:
        with pytest.raises(Exception, match="frozen"):
            flow().name = "other"  # type: ignore[misc]

    def test_specs_pickle(self) -> None:
        assert pickle.loads(pickle.dumps(flow())) == flow()


class TestJson:
    def test_a_spec_names_its_kind_and_options(self) -> None:
        assert Lines(path="a").to_json() == {"kind": "lines", "path": "a", "every": 1}

    def test_a_flow_is_plain_json(self) -> None:
        data = flow().to_json()
        assert json.loads(json.dumps(data)) == data
        assert data["sinks"][0] == {"kind": "screen", "name": "", "routes": ["*"], "color": "white"}

    def test_names_default_to_the_kind(self) -> None:
        assert (Screen().sink_name, Screen(name="wall").sink_name) == ("screen", "wall")
        assert Screen().label() == "screen"


class TestSpecHash:
    @pytest.mark.parametrize(
        "change",
        [
            {"name": "payments"},
            {"source": Lines(path="b")},
            {"transforms": ()},
            {"transforms": (Upper(column="y"),)},
            {"checks": (Short(column="x", severity="fail"),)},
            {"sinks": (Screen(color="red"),)},
            {"sinks": (Screen(routes=("shop.*",)),)},
        ],
    )
    def test_what_decides_the_output_changes_it(self, change: dict[str, Any]) -> None:
        assert flow(**change).spec_hash("1") != flow().spec_hash("1")

    @pytest.mark.parametrize(
        "change", [{"batching": Batching(max_rows=5)}, {"zookeeper_conn_id": "other"}, {"description": "text"}]
    )
    def test_what_does_not_leaves_it(self, change: dict[str, Any]) -> None:
        assert flow(**change).spec_hash("1") == flow().spec_hash("1")

    def test_whether_refused_rows_stop_a_batch_leaves_it(self) -> None:
        def of(on_reject: Any) -> str:
            sinks = (Elasticsearch(conn_id="s", on_reject=on_reject), Kafka(conn_id="k", on_reject=on_reject or "fail"))
            return flow(sinks=sinks).spec_hash("1")

        assert of("fail") == of("quarantine") == of(None)

    def test_the_order_of_transforms_and_the_code_count(self) -> None:
        one, two = Upper(column="x"), Upper(column="y")
        assert flow(transforms=(one, two)).spec_hash("1") != flow(transforms=(two, one)).spec_hash("1")
        assert flow().spec_hash("1") != flow().spec_hash("2")


def test_building_a_flow_opens_nothing() -> None:
    built = flow()
    assert built.source.conn_ids() == ()
    assert built.sinks[0].datasets() == ()
    assert issubclass(Flow, Spec)


def test_the_line_of_a_bad_option_is_one_of_a_flow_file_and_none_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, program = tmp_path / "lib", tmp_path / "bin"
    made = "from databus import Mock\ndef make():\n    Mock(rows=1, bad=1)\n"
    for folder in (library, program):
        folder.mkdir()
    (library / "typer_like.py").write_text(made)
    (library / "installed_flows.py").write_text("from databus import Mock\nMock(rows=1, bad=1)\n")
    (tmp_path / "flow.py").write_text("from typer_like import make\n\nmake()\n")
    monkeypatch.syspath_prepend(str(library))
    paths = {"purelib": str(library), "platlib": str(library), "stdlib": str(library), "scripts": str(program)}
    monkeypatch.setattr("sysconfig.get_paths", lambda *_, **__: paths)
    with pytest.raises(ConfigError) as by_a_library:
        runpy.run_path(str(tmp_path / "flow.py"))
    assert by_a_library.value.message == f"{tmp_path / 'flow.py'}:3: Mock: unknown option 'bad'"
    with pytest.raises(ConfigError) as installed:
        runpy.run_path(str(library / "installed_flows.py"))
    assert installed.value.message.startswith(f"{library / 'installed_flows.py'}:2: ")
    command = program / "command"
    patched = f"import sysconfig\nsysconfig.get_paths = lambda *_, **__: {paths!r}\n"
    command.write_text(f"{patched}from typer_like import make\nmake()\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), *sys.path])}
    done = subprocess.run([sys.executable, str(command)], env=environment, capture_output=True, text=True, check=False)
    assert "ConfigError: [config_invalid] Mock: unknown option 'bad' Hint" in done.stderr


def test_a_value_that_is_none_of_a_few_is_named() -> None:
    with pytest.raises(ConfigError, match=r"MysqlBinlog: snapshot='yes': Input should be 'never', 'initial' or 'only'"):
        MysqlBinlog(conn_id="m", tables=("a.b",), snapshot="yes")
