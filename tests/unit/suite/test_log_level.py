from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.suite.inner_run import PYTEST, environment

_TESTS = """
import logging
def test_sets_it():
    logging.root.setLevel(logging.DEBUG)
def test_hears_nothing_of_it():
    assert logging.root.level == logging.WARNING
def test_by_caplog(caplog):
    caplog.set_level(logging.DEBUG)
def test_as_airflow():
    logging.root.setLevel(logging.INFO)
"""


def test_a_test_that_leaves_the_level_lower_is_named_and_the_next_hears_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_level.py").write_text(_TESTS)
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.log_level", "-p", "no:cacheprovider"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120, env=environment(),
    )  # fmt: skip
    assert "4 passed, 1 error" in done.stdout, done.stdout
    assert "ERROR at teardown of test_sets_it" in done.stdout
    assert "it leaves the root's logger at level DEBUG" in done.stdout
