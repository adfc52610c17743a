"""Whether Spark compiles plans to Java: in the full tier, as in production; in `make test` it interprets them.

A plan is compiled anew for each test, and moves some rows: that is most of what a batch in Spark costs here.
"""

from __future__ import annotations

import os

from tests.suite.steady import REPORT

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own defaults."""


def spark_conf() -> dict[str, str]:
    """Return the settings of a run's Spark sessions and servers, whose pages nobody looks at.

    `make test-full` is the one that names a report.
    """
    return (COMPILED if os.environ.get(REPORT) else INTERPRETED) | {"spark.ui.enabled": "false"}
