"""Stream service of the sandbox: over its Kafka, on the loopback address alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from databus.core.errors import SandboxError
from databus.sandbox.servers import stream
from databus.sandbox.servers.stream import STREAM
from tests.unit.sandbox.test_debezium import Kafka
from tests.unit.sandbox.test_servers import context_of


def test_it_needs_a_kafka_in_the_same_sandbox(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="Kafka, which was not started here") as refused:
        STREAM.prepare(context_of(STREAM, tmp_path))
    assert "databus sandbox up kafka stream" in refused.value.hint


def test_it_serves_the_topics_of_that_kafka(tmp_path: Path) -> None:
    context = replace(context_of(STREAM, tmp_path), others={"kafka": Kafka()})
    STREAM.prepare(context)
    (command,) = STREAM.commands(context)
    assert command.argv[3:] == ("stream", Kafka.address, "--listen", "127.0.0.1:18470", "--name", "sandbox")


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(SandboxError, match="stream needs uvicorn") as refused:
        STREAM.install(context_of(STREAM, tmp_path))
    assert "databus[stream]" in refused.value.hint
