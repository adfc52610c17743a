"""Runs of pytest that a test starts, on tests of its own."""

from __future__ import annotations

import os
import sys

from tests.suite.steady import ROOT

PYTEST = (sys.executable, "-m", "pytest", "-p", "xdist")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a run that names the plugins it uses.

    Which of the outer run's processes this one is says nothing there. Without the naming each process of a run would
    import all plugins that are installed: half of its CPU time.
    """
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return outer | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | more
