"""Profile of a run: each test's seconds, each server's start, the cores' use by kind of process, memory.

A run writes it into the folder that DATABUS_TEST_PROFILE names; `python -m tests.suite.profile FOLDER` prints it as
tables, and with `--store` keeps the groups' seconds for the order of later runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from databus.sandbox import progress
from tests.suite.groups import group_of, store_seconds
from tests.suite.tiers import is_full

FOLDER = "DATABUS_TEST_PROFILE"
_SAMPLE_S = 2.0
_KINDS = (
    ("xdist", "tests' own processes"),
    ("kafka.Kafka", "Kafka"),
    ("connect.mirror", "MirrorMaker"),
    ("spark", "Spark"),
    ("elasticsearch", "Elasticsearch"),
    ("opensearch", "OpenSearch"),
    ("zookeeper", "ZooKeeper"),
    ("mysqld", "MySQL"),
    ("mariadbd", "MariaDB"),
    ("apicurio", "registry"),
    ("debezium", "Debezium"),
    ("airflow", "Airflow"),
    ("chrom", "Chromium"),
    ("java", "other Java"),
    ("python", "other Python"),
)
"""A word of the command line → what the process is; the first that fits."""


_NOTED_S = 0.2
"""Seconds of a test from which its processes are looked at, which takes some 10 ms."""


class RunProfile:
    """One process' part of a run's profile: a file of JSON lines.

    A test's `all_cpu_s` are the CPU seconds of this process and of all that it started, servers too, since the last
    test that took long enough to be looked at.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{worker}.jsonl").open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._used_s = _used_of_all()

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line."""
        line = json.dumps({"kind": kind, "at": round(time.time(), 2), **fields})
        with self._lock:
            self._file.write(line + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        began, cpu = time.monotonic(), time.process_time()
        try:
            return (yield)
        finally:
            took = time.monotonic() - began
            self.write("test", test=item.nodeid, s=took, cpu_s=time.process_time() - cpu, all_cpu_s=self._since(took))

    def _since(self, took: float) -> float | None:
        if took < _NOTED_S:
            return None
        used, self._used_s = self._used_s, _used_of_all()
        return max(0.0, self._used_s - used)


def _used_of_all() -> float:
    """Return the CPU seconds of this process and its descendants, those that have ended too."""
    here = psutil.Process()
    used = 0.0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])
    return used


class _Starts(logging.Handler):
    """Notes how long each server took from its start to its health."""

    def __init__(self, profile: RunProfile) -> None:
        super().__init__(logging.DEBUG)
        self._profile = profile
        self._began: dict[int, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if not isinstance(record.args, tuple) or len(record.args) != 3:
            return
        server, step, _ = record.args
        if step == progress.ProgressStep.INSTALL.value:
            self._began[record.thread or 0] = record.created
        elif step == progress.ProgressStep.READY.value and (began := self._began.pop(record.thread or 0, None)):
            self._profile.write("start", server=server, s=record.created - began)


def _sample(profile: RunProfile) -> None:
    before: dict[tuple[int, float], float] = {}
    psutil.cpu_times_percent()
    while True:
        time.sleep(_SAMPLE_S)
        used: Counter[str] = Counter()
        now: dict[tuple[int, float], float] = {}
        for process in psutil.process_iter(["pid", "create_time", "cpu_times", "cmdline", "name"]):
            times = process.info["cpu_times"]
            if times is None:
                continue
            key = (process.info["pid"], process.info["create_time"])
            now[key] = times.user + times.system
            used[_kind(process.info)] += max(0.0, now[key] - before.get(key, 0.0 if before else now[key]))
        before = now
        profile.write(
            "cores",
            idle=psutil.cpu_times_percent().idle,
            used={k: round(v, 2) for k, v in used.items() if v},
            gib=round(psutil.virtual_memory().available / 2**30, 1),
        )


def _kind(info: dict[str, Any]) -> str:
    command = " ".join(info["cmdline"] or [info["name"]])
    return next((kind for word, kind in _KINDS if word in command), "others")


def pytest_configure(config: pytest.Config) -> None:
    """Write a profile where the variable asks for one."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    profile = RunProfile(Path(folder), os.environ.get("PYTEST_XDIST_WORKER", "main"))
    config.pluginmanager.register(profile, "run-profile")
    logger = logging.getLogger(progress.__name__)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Starts(profile))
    if not hasattr(config, "workerinput"):
        threading.Thread(target=_sample, args=(profile,), daemon=True).start()


# --- reading it ---


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def _tables(folder: Path, slowest: int) -> Iterator[str]:
    found = list(_read(folder))
    tests = [e for e in found if e["kind"] == "test"]
    cores = [e for e in found if e["kind"] == "cores"]
    used: Counter[str] = sum((Counter(e["used"]) for e in cores), Counter())
    starts: dict[str, list[float]] = defaultdict(list)
    for e in found:
        if e["kind"] == "start":
            starts[e["server"]].append(e["s"])
    lasted = max(e["at"] for e in found) - min(e["at"] for e in found)
    idle = sum(e["idle"] for e in cores) / max(1, len(cores))
    least = min((e["gib"] for e in cores if "gib" in e), default=float("nan"))
    yield f"{len(tests)} tests, {lasted / 60:.1f} minutes, cores idle {idle:.0f} %, {least:.1f} GiB left at least\n"
    yield "| CPU of | s |\n|---|---|"
    yield from (f"| {kind} | {s:.0f} |" for kind, s in used.most_common())
    yield "\n| server | starts | s each | s in all |\n|---|---|---|---|"
    for server, took in sorted(starts.items(), key=lambda item: -sum(item[1])):
        yield f"| {server} | {len(took)} | {sum(took) / len(took):.1f} | {sum(took):.0f} |"
    yield "\n| slowest tests | s |\n|---|---|"
    for e in sorted(tests, key=lambda e: -e["s"])[:slowest]:
        yield f"| {e['test'].removeprefix('tests/')} | {e['s']:.0f} |"
    yield "\n| tests that take most of the cores, with their servers | CPU s | s |\n|---|---|---|"
    for e in sorted(tests, key=lambda e: -(e.get("all_cpu_s") or 0))[:slowest]:
        yield f"| {e['test'].removeprefix('tests/')} | {e.get('all_cpu_s') or 0:.1f} | {e['s']:.0f} |"


def main(arguments: Sequence[str]) -> int:
    """Print a profile."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.profile", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slowest", type=int, default=30)
    parser.add_argument("--store", action="store_true", help="keep the groups' seconds for the order of later runs")
    options = parser.parse_args(arguments)
    print(*_tables(options.folder, options.slowest), sep="\n")
    if options.store:
        seconds: Counter[str] = Counter()
        for e in _read(options.folder):
            if e["kind"] == "test" and not is_full(e["test"]):  # one that has gone to the full tier since
                seconds[group_of(e["test"])] += e["s"]
        store_seconds(dict(seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
