"""A question about a consumer group that a broker answers late is its own error, not the end of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.conftest import Started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

_ASKS = """
import sys, time
from databus.core.errors import SourceUnavailableError
from databus.kafka.client import ClientSettings
from databus.kafka.groups import ClusterGroups

def committed():
    try:
        return groups.committed(["late"])
    except SourceUnavailableError:
        return "no answer"

groups = ClusterGroups(ClientSettings("kafka", sys.argv[1], timeout_s=3.0))
while True:
    try:
        groups.names()
        break
    except SourceUnavailableError:
        pass
print("connected", flush=True)
sys.stdin.readline()
print(committed(), flush=True)
sys.stdin.readline()
until = time.monotonic() + 60
while (found := committed()) == "no answer" and time.monotonic() < until:
    pass
time.sleep(1.0)  # what was asked first is answered meanwhile as well
print(found, flush=True)
"""


def test_a_coordinator_that_is_found_late_does_not_end_the_process(started: Started) -> None:
    """librdkafka aborted it (issues 3663, 4605), at any time later or as the interpreter ended."""
    sandbox = started("kafka")
    command = [sys.executable, "-c", _ASKS, sandbox.address("kafka")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdin is not None
        assert asking.stdout is not None
        try:
            assert asking.stdout.readline() == "connected\n"
            sandbox.pause("kafka")
            try:
                asking.stdin.write("ask\n")
                asking.stdin.flush()
                assert asking.stdout.readline() == "no answer\n"
            finally:
                sandbox.resume("kafka")
            out, err = asking.communicate("ask again\n", timeout=120)
        finally:
            asking.kill()
    assert (out, asking.returncode) == ("{}\n", 0), err
