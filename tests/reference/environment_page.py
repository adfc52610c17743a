"""Page of environment variables."""

from __future__ import annotations

from tests.reference.variables import AIRFLOW, COMMAND, INSTALLATION, OTHERS, SANDBOX, variables

HEAD = """# Environment variables

Read this page to set up a machine. Each process that runs or looks at flows reads them: Airflow's scheduler, workers,
triggerer and api-server, Spark's drivers, the command. Set those of the installation alike in all of them.
"""


def text() -> str:
    parts = [HEAD]
    for part in (INSTALLATION, COMMAND, AIRFLOW, SANDBOX, OTHERS):
        lines = [
            f"* **`{name}{'<CONN_ID>' if name.endswith('_') else ''}`** (default: {of.default}): {of.meaning}"
            for name, of in sorted(variables().items())
            if of.part == part
        ]
        parts.append("\n".join([f"## {part}", *lines, ""]))
    return "\n".join(parts)
