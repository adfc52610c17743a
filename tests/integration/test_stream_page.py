"""Examples of docs/howto/stream-over-http.md, run by a shell as they stand, with the answers that stand below them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.changes_writer import make_topics
from tests.integration.stream_client import Served

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "stream-over-http.md"
_TOPIC, _AT = "events.shop", "localhost:8470"


@pytest.fixture
def served(servers: str) -> Iterator[Served]:
    service = Served(servers, f"page{os.getpid()}", lanes=1)
    yield service
    service.close()


def examples() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the page's commands, each with the lines of JSON that it prints."""
    found = re.findall(r"```bash\n(.*?)```\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [(command, [json.loads(line) for line in shown.splitlines()]) for command, shown in found]


def test_examples_print_what_the_page_shows(served: Served, servers: str) -> None:
    topic = f"{_TOPIC}.{os.getpid()}"
    make_topics(servers, (topic, 1))
    address = str(served.http.base_url).removeprefix("http://").rstrip("/")
    delivery = "ID"
    assert len(examples()) >= 8
    for command, shown in examples():
        run = command.replace(_AT, address).replace(_TOPIC, topic).replace('"ID"', f'"{delivery}"')
        shell = ["bash", "-euo", "pipefail", "-c", run]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = [json.loads(line) for line in done.stdout.splitlines() if line]
        assert len(printed) == len(shown), command
        for answer, expected in zip(printed, shown, strict=True):
            delivery = answer.get("delivery", delivery)
            kept = {name: answer.get(name) for name in expected}
            text = json.dumps(kept).replace(topic, _TOPIC).replace(delivery, "ID")
            assert json.loads(re.sub(r'"timestamp_ms": \d+', '"timestamp_ms": 0', text)) == expected, command
