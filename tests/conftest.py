"""What holds for every test."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

# No example is timed: on a loaded machine any of them takes longer than a bound.
hypothesis.settings.register_profile("databus", deadline=None)
hypothesis.settings.register_profile("make test", parent=hypothesis.settings.get_profile("databus"), max_examples=25)
hypothesis.settings.load_profile("databus")

# Contracts are no test modules: without this a failed assertion of theirs says nothing.
pytest.register_assert_rewrite("tests.contract")

pytest_plugins = [
    "tests.suite.tiers",
    "tests.suite.groups",
    "tests.suite.progress",
    "tests.suite.clients",
    "tests.suite.log_format",
    "tests.suite.log_level",
    "tests.suite.whole",
    "tests.suite.records_tables",
    "tests.suite.steady",
    "tests.suite.profile",
    "tests.suite.report",
]

# No server lives long enough for optimised code to pay: a third of the CPU time of a start goes into making it.
# Nor are the classes of servers' releases looked at once more as they are loaded.
_UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("JAVA_TOOL_OPTIONS", f"-XX:TieredStopAtLevel=1 {_UNVERIFIED}")
# One thread collects a heap this small in less time than several that take turns; the sandbox's own servers do so too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    """Draw a quarter as many examples in `make test` as in the full tier, also where that runs in two halves."""
    from tests.suite.steady import REPORT

    if config.option.markexpr == "not full" and not os.environ.get(REPORT):
        hypothesis.settings.load_profile("make test")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect tests without collecting garbage: what modules and tests are made of stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Classic PySpark moves data between Python and the JVM over sockets that it leaves to the garbage collector
    # (pyspark.util._create_local_socket, Spark 4.1): an upstream warning, ignored for these tests alone.
    for item in items:
        if _uses_classic_spark(item):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Half a million objects of modules and tests, which stay: without them a collection takes a tenth of the time, and
    # the tests ask for one after each run of a flow.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    if _uses_classic_spark(item) and not (nextitem and _uses_classic_spark(nextitem)):
        gc.collect()  # now, while the filter above holds: later it would fail any test that happens to run


def _uses_classic_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def classic_spark_unless_connected() -> Iterator[None]:
    """Undo what a Spark Connect session sets for the whole process, so that later tests may use a classic session."""
    yield
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
