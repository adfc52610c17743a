"""The DAG files that ship are the documentation's source: they parse without connections, and a bad one says where."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from databus.bench.airflow.dag_files import write_files
from databus.core.errors import ConfigError, UnknownKindError
from databus.ops.flows.discovery import discover, find_flow
from databus.registry import flow_from_json

DAGS = Path(__file__).parents[2] / "dags"
NAMES = ["mirror_east_to_west", "orders_to_kafka", "orders_to_search", "shop_fan_out"]


def test_all_files_parse_and_name_their_flows() -> None:
    found, broken = discover(DAGS)
    assert broken == []
    assert [f.flow.name for f in found] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_flow_survives_json(name: str) -> None:
    flow = find_flow(name, DAGS).flow
    assert flow_from_json(flow.to_json()) == flow


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_about_fifteen_lines_of_code(name: str) -> None:
    lines = [line for line in (DAGS / f"{name}.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 30


def in_a_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_databus_loads_neither_pyspark_nor_airflow() -> None:
    loaded = in_a_new_process("""
        import sys
        import databus
        from databus import Flow, Kafka, KafkaTopics, Mirror, MysqlBinlog, NotNull, DropColumns
        heavy = ("pyspark", "airflow", "numba", "pyarrow", "confluent_kafka", "kazoo", "pandas", "great_expectations")
        print([m for m in heavy if m in sys.modules])
    """)
    assert loaded.strip() == "[]"


def test_parsing_loads_no_engine_and_no_client() -> None:
    loaded = in_a_new_process(f"""
        import runpy, sys
        for name in {NAMES!r}:
            dag = runpy.run_path(f"{DAGS}/{{name}}.py")["dag"]
            assert dag.dag_id == name and dag.fileloc.endswith(f"{{name}}.py"), dag.fileloc
            assert set(dag.task_dict) == {{"preflight", "transfer", "audit"}}
            assert dag.task_dict["transfer"].upstream_task_ids == {{"preflight"}}
            assert dag.task_dict["audit"].upstream_task_ids == {{"transfer"}}
        heavy = ("pyspark", "numpy", "numba", "pyarrow", "confluent_kafka", "kazoo", "databus.runtime.window")
        print([m for m in heavy if m in sys.modules])
    """)
    assert loaded.strip() == "[]"


def test_a_fork_of_a_preloaded_airflow_imports_nothing_more(tmp_path: Path) -> None:
    """Airflow's DAG processor forks for every file: with the plugin, a file costs its own lines and nothing else."""
    write_files(tmp_path, 6)
    last = (tmp_path / "flow_006.py").read_text()
    (tmp_path / "flow_006.py").write_text(last.replace('start="earliest"', 'snapshot="initial"'))
    told = in_a_new_process(f"""
        import json, os, sys, threading
        from pathlib import Path
        os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = {str(DAGS.parent / "plugins")!r}
        os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
        os.environ["AIRFLOW_HOME"] = {str(tmp_path / "home")!r}
        import warnings
        warnings.simplefilter("ignore")
        import airflow.dag_processing.manager
        from airflow.dag_processing.processor import DagFileParseRequest, _parse_file
        from airflow.jobs.job import Job
        import structlog
        Job()  # tells the listeners that it starts, as in `airflow dag-processor`
        heavy = [m for m in ("pyspark", "numpy", "pyarrow", "confluent_kafka", "kazoo") if m in sys.modules]
        print("@", heavy, threading.active_count(), flush=True)
        for file in sorted(Path({str(tmp_path)!r}).glob("*.py")):
            if (child := os.fork()) == 0:
                known = set(sys.modules)
                request = DagFileParseRequest(file=str(file), bundle_path=file.parent, bundle_name="b")
                parsed = _parse_file(request, structlog.get_logger())
                more = [m for m in sys.modules if m not in known and not m.startswith("unusual_prefix_")]
                print("@", sorted(dag.dag_id for dag in parsed.serialized_dags), parsed.import_errors, more, flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """)
    lines = [line for line in told.splitlines() if line.startswith("@")]
    flows = [f"flow_{number:03}" for number in range(1, 7)]
    assert lines == [
        "@ [] 1",
        *(f"@ {[flow, f'{flow}_backfill']} {{}} []" for flow in flows[:-1]),
        f"@ {['flow_006', 'flow_006_backfill', 'flow_006_snapshot']} {{}} []",
    ]


def test_a_bad_file_is_named_with_line_and_choices_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text((DAGS / "orders_to_kafka.py").read_text())
    (tmp_path / "bad_option.py").write_text("from databus import Kafka\n\nKafka(conn_id='x', topc='y')\n")
    (tmp_path / "bad_kind.py").write_text("import databus\ndatabus.Kafak\n")
    (tmp_path / "not_ours.py").write_text("import databus\n1 / 0\n")
    (tmp_path / "script.py").write_text("import databus\nraise SystemExit(2)\n")
    found, broken = discover(tmp_path)
    assert [f.flow.name for f in found] == ["orders_to_kafka"]
    errors = {b.file.name: b.error for b in broken}
    assert set(errors) == {"bad_option.py", "bad_kind.py", "not_ours.py", "script.py"}
    assert "SystemExit" in errors["script.py"].message
    assert isinstance(errors["bad_option.py"], ConfigError)
    assert f"{tmp_path / 'bad_option.py'}:3" in errors["bad_option.py"].message
    assert "topic" in errors["bad_option.py"].hint
    assert isinstance(errors["bad_kind.py"], UnknownKindError)
    assert f"{tmp_path / 'bad_kind.py'}:2" in errors["bad_kind.py"].message
    assert "'Kafka'" in errors["bad_kind.py"].hint
    assert "ZeroDivisionError" in errors["not_ours.py"].message


def test_what_is_no_file_or_goes_away_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text((DAGS / "orders_to_kafka.py").read_text())
    (tmp_path / ".#good.py").symlink_to("me@here.4711:1")  # as an editor locks a file
    (tmp_path / "folder.py").mkdir()
    found, broken = discover(tmp_path)
    assert ([f.flow.name for f in found], broken) == (["orders_to_kafka"], [])
    (tmp_path / "first.py").write_text(
        'import databus\nfrom pathlib import Path\nPath(__file__).with_name("going.py").unlink()\n'
    )
    (tmp_path / "going.py").write_text("import databus\n")
    found, (gone,) = discover(tmp_path)
    assert [f.flow.name for f in found] == ["orders_to_kafka"]
    assert gone.file.name == "going.py"


def test_flows_alone_are_read_without_airflow_unless_a_file_uses_its_dag(tmp_path: Path) -> None:
    text = (DAGS / "orders_to_kafka.py").read_text()
    (tmp_path / "plain.py").write_text(text)
    code = "import sys; from pathlib import Path; from databus.ops.flows.discovery import find_flow\n"
    code += "found = find_flow('orders_to_kafka', Path(sys.argv[1]), dags=False).flow\n"
    code += "print('@', found.spec_hash('1'), sorted({'airflow', 'pyspark', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    wanted = discover(DAGS)[0]
    (whole,) = (f.flow.spec_hash("1") for f in wanted if f.flow.name == "orders_to_kafka")
    assert done.stdout.splitlines()[-1] == f"@ {whole} []"
    (tmp_path / "plain.py").unlink()
    (tmp_path / "uses.py").write_text(f"{text}\nassert dag.dag_id == 'orders_to_kafka'\n")
    assert [f.flow.name for f in discover(tmp_path, dags=False)[0]] == ["orders_to_kafka"]
    (tmp_path / "uses.py").write_text(f"{text}\nassert dag.dag_id == 'other'\n")
    found, (broken,) = discover(tmp_path, dags=False)
    assert found == []
    assert "AssertionError" in broken.error.message


_SHORT = """from databus import Flow, Kafka, Mirror, Mock, Noop
from databus.airflow import flow_dag, mirror_dag

def flow(name, rows=1):
    return Flow(name=name, source=Mock(rows=rows), sinks=(Noop(),))

dag = flow_dag(flow("within"))
named = flow("named")
dags = {name: flow_dag(flow=flow(name)) for name in ("first", "second")}
again = flow_dag(named, dag_id="once_more")
changed = flow("changed")
taken = flow_dag(changed.model_copy(update={"description": "as it runs"}))
mirror = mirror_dag(
    mirror=Mirror(name="copied", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("cdc.*",))
)
"""


@pytest.mark.parametrize("dags", [False, True])
def test_a_flow_is_found_where_only_its_dag_has_a_name(tmp_path: Path, dags: bool) -> None:
    (tmp_path / "short.py").write_text(_SHORT)
    found, broken = discover(tmp_path, dags=dags)
    assert broken == []
    names = ["changed", "copied", "first", "named", "second", "within"]
    assert [f.flow.name for f in found] == names
    assert found[0].flow.description == "as it runs"
    (tmp_path / "short.py").write_text(f"{_SHORT}\nassert dag.dag_id == 'within'\n")  # cannot do without its DAG
    found, broken = discover(tmp_path, dags=dags)
    assert ([f.flow.name for f in found], broken) == (names, [])


def test_a_flow_within_its_dag_is_found_without_airflow(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(_SHORT)
    code = "import sys; from pathlib import Path; from databus.ops.flows.discovery import find_flow\n"
    code += "find_flow('within', Path(sys.argv[1]), dags=False)\n"
    code += "print('@', sorted({'airflow', 'pyspark', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "@ []"


def test_two_files_may_not_define_one_flow(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text((DAGS / "orders_to_kafka.py").read_text())
    found, broken = discover(tmp_path)
    assert len(found) == 1
    assert "already" in broken[0].error.message


_SHOP = """import databus
from databus.airflow import flow_dag

def made(name):
    return flow_dag(databus.Flow(name=name, source=databus.Mock(rows=1), sinks=(databus.Noop(),)))

shop = databus.Flow(name="shop", source=databus.Mock(rows=1), sinks=(databus.Noop(),))
flow_dag(shop)
"""


@pytest.mark.parametrize("shop", ["a_shop_{0}", "z_shop_{0}"])
@pytest.mark.parametrize("dags", [False, True])
def test_a_file_that_imports_another_keeps_its_own_flows(
    tmp_path: Path, dags: bool, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The imported file's flows are that file's; what a function of it is called for is the caller's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    shop = shop.format(dags)
    (tmp_path / f"{shop}.py").write_text(_SHOP)
    (tmp_path / "other.py").write_text(f"# databus\nfrom {shop} import made, shop\ndag = made('other')\n")
    found, broken = discover(tmp_path, dags=dags)
    assert broken == []
    assert [(f.flow.name, f.file.stem) for f in found] == [("other", "other"), ("shop", shop)]
    assert discover(tmp_path, dags=dags) == (found, [])  # it is imported already


@pytest.mark.parametrize("dags", [False, True])
def test_a_flow_that_one_file_defines_and_another_makes_a_dag_of_is_one(
    tmp_path: Path, dags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "linked"))
    (tmp_path / f"flows_{dags}.py").write_text(_SHOP.replace("flow_dag(shop)", ""))
    text = f"from databus.airflow import flow_dag\nfrom flows_{dags} import made, shop\ndag = flow_dag(shop)\n"
    (tmp_path / "made.py").write_text(f"{text}other = made('other')\n")
    found, broken = discover(tmp_path, dags=dags)
    assert broken == []
    assert [f.flow.name for f in found] == ["other", "shop"]


@pytest.mark.parametrize("dags", [False, True])
def test_what_no_dag_file_defines_is_of_the_file_that_imports_it(
    tmp_path: Path, dags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "dags").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    (tmp_path / "lib" / f"given_{dags}.py").write_text(_SHOP)
    (tmp_path / "dags" / "other.py").write_text(f"# databus\nfrom given_{dags} import made\ndag = made('other')\n")
    found, broken = discover(tmp_path / "dags", dags=dags)
    assert broken == []
    assert [(f.flow.name, f.file.stem) for f in found] == [("other", "other"), ("shop", "other")]


@pytest.mark.parametrize("dags", [False, True])
def test_a_flow_is_found_with_the_mode_in_which_its_dag_runs_it(tmp_path: Path, dags: bool) -> None:
    text = _SHORT.replace("flow_dag(named, dag_id", 'flow_dag(named, mode="live", dag_id')
    text = text.replace('flow_dag(flow("within"))', 'flow_dag(flow("within"), mode="economy")')
    text += '\ntwice = flow_dag(named, mode="economy", dag_id="twice")\n'
    text += 'mirror_dag(Mirror(name="m", source_conn_id="a", target_conn_id="b", topics=("t",)), mode="economy")\n'
    (tmp_path / "short.py").write_text(text)
    found, broken = discover(tmp_path, dags=dags)
    assert broken == []
    modes = {f.flow.name: f.flow.mode for f in found}
    assert (modes["named"], modes["within"], modes["m"], modes["first"]) == ("live", "economy", "economy", "standard")
