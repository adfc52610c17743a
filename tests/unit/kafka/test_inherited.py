"""Clients and the end of a process: a forked one leaves its parent's alone, its own go before the interpreter does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from databus.kafka.client import ClientSettings, LastError

SETTINGS = ClientSettings("kafka", "127.0.0.1:1", {"log_level": 0})
OPEN: dict[str, Callable[[], Any]] = {
    "producer": lambda: SETTINGS.producer({}, LastError()),
    "consumer": lambda: SETTINGS.consumer({"group.id": "g"}, LastError()),
    "admin": lambda: SETTINGS.admin(LastError()),
}


@pytest.mark.parametrize("kind", OPEN)
def test_a_forked_process_does_not_destroy_its_parents(kind: str) -> None:
    """It waited for threads that are not there, for ever, or died of SIGSEGV as it ended in order."""
    held = [OPEN[kind]()]
    known = weakref.ref(held[0])
    child = os.fork()
    if child == 0:
        held.clear()
        gc.collect()
        os._exit(0 if known() is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held.clear()
    assert known() is None


@pytest.mark.parametrize(
    "kept",
    [
        "from databus.sinks.kafka.session_cache import _kept as kept",
        "from databus.sinks.kafka.topics.standing import _opened as kept",
    ],
)
def test_clients_that_a_module_keeps_go_before_the_interpreter_does(kept: str) -> None:
    """A background thread of librdkafka that calls into an interpreter that ends dies there, or takes it along."""
    program = f"""
        import sys
        {kept}
        class Client:
            def __del__(self, print=print, ends=sys.is_finalizing):
                print("ended", ends())
        kept["key"] = Client()
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout == "ended False\n"
