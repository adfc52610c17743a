"""The spark-submit lane without Spark: what the process is given, what its end means, and who gets the signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from databus.airflow.operators import submit
from databus.airflow.operators.submit import SubmitTransferOperator
from databus.airflow.operators.submit_hook import DrainingSubmitHook
from databus.ops.runs.submit import EXIT_PAUSED, EXIT_REFUSED, EXIT_RETRY
from tests.airflow.test_flow_dag import FLOW

CONTEXT = {"ti": SimpleNamespace(log_url="http://a/dags/d/runs/r/tasks/t?try_number=1"), "run_id": "r1"}

PROGRAM = """#!{python}
import json, os, sys
seen = {{"argv": sys.argv[1:], "env": dict(os.environ), "session": os.getsid(0) == os.getpid()}}
with open({seen!r}, "w") as file:
    json.dump(seen, file)
print("2026-01-01 ERROR databus what went wrong")
sys.exit({code})
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program named spark-submit that writes down what it was given and ends with a code."""
    seen = tmp_path / "seen.json"

    def install(code: int) -> Path:
        program = tmp_path / "spark-submit"
        program.write_text(PROGRAM.format(python=sys.executable, seen=str(seen), code=code))
        program.chmod(0o755)
        return seen

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("M", "K", "ZOOKEEPER_DEFAULT"):
        value = {"conn_type": "generic", "host": "h", "password": f"secret-{name.lower()}"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    monkeypatch.setenv("DATABUS_INSTALLATION", "here")
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    return install


def operator(**options: Any) -> SubmitTransferOperator:
    return SubmitTransferOperator(task_id="transfer", flow=FLOW, window=timedelta(seconds=50), **options)


def test_secrets_travel_in_the_environment_only(spark_submit: Any) -> None:
    seen_file = spark_submit(0)
    operator(env_vars={"MINE": 1}).execute(CONTEXT)
    seen = json.loads(seen_file.read_text())
    assert "secret-" not in " ".join(seen["argv"])
    assert {json.loads(seen["env"][f"AIRFLOW_CONN_{n}"])["password"] for n in ("M", "K", "ZOOKEEPER_DEFAULT")} == {
        "secret-m", "secret-k", "secret-zookeeper_default",
    }  # fmt: skip
    assert seen["env"]["DATABUS_INSTALLATION"] == "here"
    assert seen["env"]["PYSPARK_PYTHON"]
    assert seen["env"]["MINE"] == "1"
    assert "SPARK_REMOTE" not in seen["env"]
    assert seen["session"]
    flow = seen["argv"][seen["argv"].index("--flow") + 1]
    assert json.loads(flow)["name"] == "orders"
    assert seen["argv"][seen["argv"].index("--run-id") + 1] == "r1"


def test_a_paused_flow_is_skipped(spark_submit: Any) -> None:
    spark_submit(EXIT_PAUSED)
    with pytest.raises(AirflowSkipException, match="orders is paused"):
        operator().execute(CONTEXT)


@pytest.mark.parametrize(("code", "fails"), [(EXIT_REFUSED, True), (EXIT_RETRY, False), (1, False), (137, False)])
def test_exit_codes(spark_submit: Any, code: int, fails: bool) -> None:
    spark_submit(code)
    with pytest.raises(AirflowException) as raised:
        operator().execute(CONTEXT)
    assert isinstance(raised.value, AirflowFailException) is fails


def test_the_job_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with submit._job_file() as file:
        assert Path(file) == Path(submit.__file__).parents[4] / "jobs" / "micro_batch.py"
    monkeypatch.setenv("DATABUS_JOBS", "local:///opt/databus/jobs/")
    with submit._job_file() as file:
        assert file == "local:///opt/databus/jobs/micro_batch.py"
    monkeypatch.delenv("DATABUS_JOBS")
    monkeypatch.setattr(submit, "__file__", str(tmp_path / "site-packages/databus/airflow/operators/submit.py"))
    with submit._job_file() as file:
        done = subprocess.run([sys.executable, file, "--help"], capture_output=True, text=True, check=False)
        assert "Run one window of a databus flow" in done.stdout
    assert not Path(file).exists()


def test_only_the_driver_gets_the_signal() -> None:
    """A stand-in for spark-submit: a parent whose child is the driver, which ends on SIGTERM as a drained one does."""
    driver = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
    parent = (
        "import subprocess, sys;"
        f"sys.exit(subprocess.run([sys.executable, '-c', {driver!r}, '--window-seconds', '50']).returncode)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        hook = DrainingSubmitHook()
        hook._submit_sp = process
        assert hook.drain()
        assert process.wait(30) == 0
    assert not hook.drain()


def test_a_driver_elsewhere_is_not_drained_here() -> None:
    hook = DrainingSubmitHook()
    assert not hook.drain()
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        hook._submit_sp = process
        while not psutil.Process(process.pid).cmdline():
            time.sleep(0.01)
        assert not hook.drain()
        process.kill()
