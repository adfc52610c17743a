"""The form of caught records stays pytest's, also while a logger of Spark's does not hand on what it is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger


@pytest.fixture(autouse=True)
def _spark_logger() -> Iterator[None]:
    """Make what an error of a Spark session makes: pytest adds its handlers to it as the test begins."""
    logger = PySparkLogger.getLogger("tests.suite.log_format")
    logger.propagate = False
    yield
    logging.Logger.manager.loggerDict.pop("tests.suite.log_format")


def test_records_are_caught_as_text(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("said").warning("in %d words", 2)
    assert "in 2 words" in caplog.text
    assert not caplog.text.startswith("{")
    assert [record.message for record in caplog.records] == ["in 2 words"]
