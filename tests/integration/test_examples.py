"""The packages of examples/, installed by pip where nothing of this tree is: their contracts, and a flow through both.

The flow is killed at each point of a request; nothing is lost, and by event id nothing comes twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import databus
from databus.sandbox.connections import airflow_connections
from tests.integration.conftest import Started, World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ("databus-counter-source", "databus-http-sink")
NUMBERS = 600
PER_REQUEST = 40
BEFORE, KEPT, ANSWERED = "before it is kept", "kept and not answered", "answered"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of a fresh environment: both examples by pip, what they depend on by a path; no network."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=60)
    interpreter = home / "bin" / "python"
    for name in EXAMPLES:
        tree = home / name
        shutil.copytree(ROOT / "examples" / name, tree, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        build = f"import setuptools.build_meta as backend; backend.build_wheel({str(home)!r})"
        subprocess.run([sys.executable, "-W", "ignore", "-c", build], cwd=tree, check=True, timeout=60, stdout=-3)
    wheels = sorted(home.glob("*.whl"))
    assert len(wheels) == 2
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, *wheels], check=True, timeout=100)
    (packages,) = home.glob("lib/python*/site-packages")
    # A path file's lines are not searched for further path files: the tree comes by its own line, as a wheel would.
    known = [str(Path(databus.__file__).parents[1]), sysconfig.get_paths()["purelib"]]
    (packages / "dependencies.pth").write_text("\n".join(known))
    return interpreter


def run(python: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run(
        [python, *arguments], env=environment, capture_output=True, text=True, timeout=200, check=False, **options
    )


def test_their_contract_suites_pass(python: Path, tmp_path: Path) -> None:
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name / "tests", tmp_path / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = --import-mode=importlib\n")
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "20 passed" in done.stdout


def test_bars(python: Path) -> None:
    """A sink has at most 40 lines, a source 60; they come from the fresh environment, and `databus` names them."""
    places = "import databus as d, inspect; print(*map(inspect.getfile, (d.CounterSource, d.HttpSink)), sep='\\n')"
    files = [Path(line) for line in run(python, "-c", places).stdout.splitlines()]
    assert [file.parent.parent.parent.parent for file in files] == [python.parent.parent] * 2
    lines = [sum(1 for line in file.read_text().splitlines() if line.strip()) for file in files]
    assert lines[0] <= 60
    assert lines[1] <= 40


class Receiver:
    """HTTP server that keeps what it is sent, and kills the sender at some requests.

    Attributes:
        lines: each request's lines.
        kills: request number → where in it to kill.
        process: the sender.
    """

    def __init__(self, kills: dict[int, str]) -> None:
        self.lines: list[list[str]] = []
        self.kills = dict(kills)
        self.process: subprocess.Popen[str] | None = None
        self._requests = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                point = receiver.point() if body else None
                if point == BEFORE:
                    receiver.kill()
                    return
                if body:
                    receiver.lines.append(body.splitlines())
                if point == KEPT:
                    receiver.kill()
                    return
                self.send_response(204)
                self.end_headers()
                self.wfile.flush()
                if point == ANSWERED:
                    receiver.kill()

            def log_message(self, *args: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def point(self) -> str | None:
        self._requests += 1
        return self.kills.pop(self._requests, None)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver({1: BEFORE, 5: KEPT, 8: ANSWERED})  # 8 ends a batch that is not committed yet
    yield receiver
    receiver.close()


def flow_of(url: str, name: str, zookeeper: str) -> dict[str, Any]:
    """The flow as its DAG file would make it; this process has not got the kinds."""
    return {
        "name": name,
        "source": {"kind": "counter", "last": NUMBERS, "per_second": 1000.0},
        "sinks": [{"kind": "http", "url": url, "rows_per_request": PER_REQUEST}],
        "batching": {"max_rows": 100, "max_seconds": 0.2},
        "zookeeper": zookeeper,
    }


def test_a_flow_from_one_to_the_other_is_killed_and_goes_on(
    started: Started, python: Path, receiver: Receiver, tmp_path: Path
) -> None:
    world = World(started("zookeeper"), tmp_path)
    zookeeper = world.override("zookeeper_default", extra={"session_timeout_s": 3})
    connections = {**airflow_connections(world.sandbox.status()), **world.environment}
    told = {"flow": flow_of(receiver.url, f"counted_{os.getpid()}", zookeeper), "home": str(tmp_path)}
    argument = json.dumps({**told, "connections": connections})
    environment, outcomes = {**os.environ, "PYTHONPATH": str(ROOT)}, list[int]()
    command = [python, "-m", "tests.integration.counted_flow", argument]
    for _ in range(5):
        with (tmp_path / "run.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=-1, stderr=log, text=True, cwd=tmp_path, env=environment)
        receiver.process = process
        said, _ = process.communicate(timeout=100)
        outcomes.append(process.returncode)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (tmp_path / "run.log").read_text()[-3000:]
    assert outcomes == [-signal.SIGKILL] * 3 + [0]
    assert not receiver.kills
    verdict = json.loads(said)
    assert verdict["problems"] == []
    assert verdict["read"] == {"demo.numbers": NUMBERS}
    assert (verdict["offset"]["sequence"], verdict["epoch"]) == (NUMBERS, 4)
    assert any("a batch that is tried again is written again" in line for line in verdict["looked_at"])
    assert_each_number_once(receiver.lines)


def assert_each_number_once(requests: list[list[str]]) -> None:
    """Nothing is lost; by event id each number comes once and in order; what is there twice is the same."""
    lines = [line for request in requests for line in request]
    first: dict[str, str] = {}
    for line in lines:
        assert first.setdefault(json.loads(line)["event_id"], line) == line
    rows = [json.loads(line) for line in first.values()]
    assert [row["key"]["n"] for row in rows] == list(range(1, NUMBERS + 1))
    assert all(row["after"] == {"n": n, "square": str(n * n)} for n, row in enumerate(rows, 1))
    assert {row["op"] for row in rows} == {"c"}
    # At least once, as the sink says: batches that were in hand when the flow was killed are there again.
    assert len(lines) > len(first)
