"""Kafka clients that a run's tests leave open, named by the file that opened them.

One that is left goes when Python ends: its threads call into an interpreter that is ending, or wait for brokers that
are gone. What the product keeps for a process's life is let go of by the product (`kept_sessions`, `standing`).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

_NAME = "kafka-clients"
_OUTPUT = "kafka_clients"
_KEPT = {"databus.sinks.kafka.session_cache": "_kept", "databus.sinks.kafka.topics.standing": "_opened"}


class OpenClients:
    """Notes which clients there are after each file, and looks at the end which are open still."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files: dict[int, str] = {}
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
            self._files = {id(client): self._files.get(id(client), file) for client in _clients()}

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
    return [found for found in gc.get_objects() if issubclass(type(found), kinds)]


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
