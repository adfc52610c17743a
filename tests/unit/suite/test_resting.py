"""Processes of a run that rest and are asked again, as pytest-xdist's scheduler is told of them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.scheduler import loadscope

from tests.suite import groups
from tests.suite.groups import ByFile

LIGHT = "tests/unit/core/test_{}.py"
SERVERS = "tests/integration/test_{}.py"
AIRFLOW = "tests/e2e/test_{}.py"


class Node:
    """A process of pytest-xdist: it runs a test only while it has a further one, or once it is to end."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.ended = False
        self.waiting: list[int] = []
        self.ran: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def runs(self) -> bool:
        return not self.ended and (self.shutting_down or len(self.waiting) > 1)


class Run:
    """A run of fake processes under the real scheduler."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processes: int, tests: list[str]) -> None:
        self.gib, self.tests = 24.0, tests
        monkeypatch.setattr(loadscope, "parse_tx_spec_config", lambda _config: ["popen"] * processes)
        memory = lambda: SimpleNamespace(available=self.gib * 2**30)  # noqa: E731 - one line
        monkeypatch.setattr(groups.psutil, "virtual_memory", memory)
        config: Any = SimpleNamespace(option=SimpleNamespace(loadscopereorder=False))
        self.scheduler: Any = ByFile(config)
        self.nodes = [Node(n) for n in range(processes)]
        for node in self.nodes:
            self.scheduler.add_node(node)
        for node in self.nodes:
            self.scheduler.add_node_collection(node, tests)
        self.scheduler.schedule()

    def step(self, node: Node) -> None:
        """Let a process run its next test, or end."""
        if node.waiting:
            node.ran.append(node.waiting.pop(0))
            self.scheduler.mark_test_complete(node, node.ran[-1])
        else:
            node.ended = True
            assert self.scheduler.remove_node(node) is None
        if self.scheduler.tests_finished:
            for other in self.nodes:
                other.shutdown()

    def until_nothing_runs(self, *nodes: Node) -> None:
        """Let some processes go on for as long as they can."""
        while running := [node for node in nodes if node.runs]:
            self.step(running[0])

    def folders(self, node: Node) -> list[str]:
        """Return the folders of the tests that a process has run."""
        return [self.tests[n].split("/")[1] for n in node.ran]


def collected(**files: int) -> list[str]:
    """Return tests, five of each file; files by kind."""
    kinds = {"airflow": AIRFLOW, "servers": SERVERS, "light": LIGHT}
    named = [kinds[kind].format(file) for kind, count in files.items() for file in range(count)]
    return [f"{file}::test_{n}" for file in named for n in range(5)]


def test_a_third_process_that_memory_was_short_for_goes_on_once_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, 3, collected(airflow=1, servers=9))
    first, second, third = run.nodes
    run.gib = 3.0
    run.until_nothing_runs(third)
    assert (set(run.folders(third)), third.shutting_down) == ({"e2e"}, False)
    run.step(first)
    assert len(third.waiting) == 1  # memory is short yet
    run.gib = 24.0
    run.step(second)
    run.until_nothing_runs(third)
    assert "integration" in run.folders(third)
    run.until_nothing_runs(*run.nodes)
    assert sorted(n for node in run.nodes for n in node.ran) == list(range(len(run.tests)))


def test_where_memory_is_scarce_the_third_process_ends_and_its_servers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, 3, collected(airflow=1, servers=6))
    *others, third = run.nodes
    run.gib = 1.0
    run.until_nothing_runs(third)
    assert (len(third.ran), third.ended) == (5, True)
    run.until_nothing_runs(*others)
    assert all(node.ended for node in run.nodes)


def test_a_fourth_process_ends_once_nothing_waits_that_it_could_take(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, 4, collected(servers=9, light=1))
    fourth = run.nodes[-1]
    run.until_nothing_runs(fourth)
    assert (len(fourth.ran), fourth.ended) == (5, True)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(20))
def test_every_test_runs_once_whatever_memory_does(monkeypatch: pytest.MonkeyPatch, processes: int, seed: int) -> None:
    chance = random.Random(seed)
    files = {kind: chance.randrange(7) for kind in ("airflow", "servers", "light")}
    run = Run(monkeypatch, processes, collected(**files) or ["tests/unit/test_alone.py::test_it"])
    extra = [node for node in run.nodes if node not in run.scheduler.nodes]  # more processes than groups
    while running := [node for node in run.nodes if node.runs and node not in extra]:
        run.gib = chance.choice((1.0, 3.0, 24.0))
        run.step(chance.choice(running))
    assert sorted(n for node in run.nodes for n in node.ran) == list(range(len(run.tests)))
    assert all(node.ended for node in run.nodes if node not in extra)
    assert {folder for node in run.nodes[3:] for folder in run.folders(node)} <= {"unit"}
