"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def classic_spark_unless_connected() -> Iterator[None]:
    """Undo what a Spark Connect session sets for the whole process, so that later tests may use a classic session."""
    yield
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
