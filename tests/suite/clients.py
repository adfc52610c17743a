"""Kafka clients that a run's tests leave open, named by the file that opened them.

One that is left goes when Python ends: its threads call into an interpreter that is ending, or wait for brokers that
are gone. What the product keeps for a process's life is let go of by the product (`kept_sessions`, `standing`).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Generator
from itertools import compress
from pathlib import Path
from typing import Any

import pytest

_NAME = "kafka-clients"
_OUTPUT = "kafka_clients"
_TASKS = Path("/proc/self/task")
_MAIN = "rdk:main\n"
"""Name of the thread that each client of librdkafka has while it is open."""

_KEPT = {"databus.sinks.kafka.session_cache": "_kept", "databus.sinks.kafka.topics.standing": "_opened"}


class OpenClients:
    """Notes which clients there are after each file, and looks at the end which are open still."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files: dict[int, str] = {}
        self._threads: frozenset[str] | None = frozenset()
        self._frozen = 0
        self._hidden: dict[int, str] = {}
        """Those that the collector was told to look at no more (`tests.collecting`) as a file ran."""
        self._left: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        self._frozen = gc.get_freeze_count()

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around the teardown of what the file has for itself
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        yield
        if nextitem is None or nextitem.path != item.path:
            file = item.nodeid.partition("::")[0]
            self._look_again(file)
            threads = _main_threads()
            if threads is None or threads != self._threads:  # a look at all objects takes up to half a second
                open_now = [id(client) for client in _clients() if not _is_closed(client)]
                self._files = {client: self._files.get(client, file) for client in open_now}
                self._threads = threads

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left.update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends what a process has to say
    def pytest_sessionfinish(self) -> None:
        if not self._files | self._hidden:
            return
        gc.unfreeze()
        for module, kept in _KEPT.items():
            if module in sys.modules:
                getattr(sys.modules[module], kept).clear()
        gc.collect()
        noted = self._hidden | self._files
        mine = [(client, noted[id(client)]) for client in _clients() if id(client) in noted]
        files = [(client, file) for client, file in mine if not _is_closed(client)]
        left = Counter(f"{_kind(client)} of {file}" for client, file in files)
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_OUTPUT] = dict(left)
        else:
            self._left.update(left)

    def _look_again(self, file: str) -> None:
        """Note what a file froze: what there was before it, and what is its own."""
        if gc.get_freeze_count() > self._frozen:
            gc.unfreeze()
            self._hidden |= {id(client): self._files.get(id(client), file) for client in _clients()}
            gc.freeze()
        self._frozen = gc.get_freeze_count()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for what, count in sorted(self._left.items()):
            terminalreporter.write_line(f"left open: {count} {what}", yellow=True)


def _clients() -> list[Any]:
    """Return the Kafka clients of this process, closed ones among them."""
    if "confluent_kafka.cimpl" not in sys.modules:
        return []
    from confluent_kafka import cimpl

    kinds = (cimpl.Consumer, cimpl.Producer, cimpl._AdminClientImpl)
    objects = gc.get_objects()
    found = {kind for kind in set(map(type, objects)) if issubclass(kind, kinds)}
    return list(compress(objects, map(found.__contains__, map(type, objects)))) if found else []


def _main_threads() -> frozenset[str] | None:
    """Return the threads of this process that stand for one open client each; None where the system tells no names."""
    try:
        return frozenset(task.name for task in _TASKS.iterdir() if (task / "comm").read_text() == _MAIN)
    except OSError:  # another system, or a thread that ended just now
        return None


def _is_closed(client: Any) -> bool:
    """Tell whether a consumer is closed; producers and admin clients go with their last reference."""
    if getattr(client, "_left", False):
        return True  # a GrouplessConsumer that another thread closes
    if hasattr(client, "assignment"):
        try:
            client.assignment()
        except RuntimeError:
            return True
    return False


def _kind(client: Any) -> str:
    """Return what a client is: consumer, producer or admin client."""
    return "consumer" if hasattr(client, "assignment") else "producer" if hasattr(client, "produce") else "admin client"


def pytest_configure(config: pytest.Config) -> None:
    """Look at each process that runs tests."""
    config.pluginmanager.register(OpenClients(config), _NAME)
