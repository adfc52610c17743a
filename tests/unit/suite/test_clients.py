"""Kafka clients that tests leave open are named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.suite.inner_run import PYTEST, environment

_TESTS = """
from confluent_kafka import Consumer, Producer
SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
held = []
def test_one():
    held.append(Consumer({**SETTINGS, "group.id": "g"}))
    held.append(Consumer({**SETTINGS, "group.id": "g"}))
    held[-1].close()
    Producer(SETTINGS)
"""

_FREEZES = """
import gc
from confluent_kafka import Consumer
held = []
def test_other():
    held.append(Consumer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "g"}))
    gc.collect()
    gc.freeze()
"""

_FOLLOWS = """
from confluent_kafka import Consumer
held = []
def test_closed():
    Consumer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "g"}).close()
def test_open():
    held.append(Consumer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "g"}))
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "in processes"])
def test_one_that_is_left_open_is_named_with_its_file(tmp_path: Path, processes: list[str]) -> None:
    (tmp_path / "test_left.py").write_text(_TESTS)
    (tmp_path / "test_other.py").write_text(_FREEZES)
    (tmp_path / "test_third.py").write_text("def test_third(): pass\n")
    (tmp_path / "test_unlike.py").write_text(_FOLLOWS)
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.clients", "-p", "no:cacheprovider", *processes],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120,
        env=environment(),
    )  # fmt: skip
    assert [line for line in done.stdout.splitlines() if "left open" in line] == [
        "left open: 1 consumer of test_left.py",
        "left open: 1 consumer of test_other.py",
        "left open: 1 consumer of test_unlike.py",
    ], done.stdout + done.stderr
    assert "5 passed" in done.stdout
