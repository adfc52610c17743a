"""Commands are imported when they are asked for, and all of them are there."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from databus.cli.main import Commands, app

HEAVY = ("airflow", "alembic", "great_expectations", "numba", "numpy", "pyarrow", "pyspark")


def test_a_command_pays_for_its_own_imports_only() -> None:
    code = "import sys; sys.argv = ['databus', 'trace', '--help']\n"
    code += "from databus.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit: pass\n"
    code += "import databus.ops.trace, databus.sinks.kafka.sink, databus.records.store\n"
    code += f"print('@', sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "TOPIC:PARTITION:OFFSET" in done.stdout
    assert done.stdout.splitlines()[-1] == "@ []"


def test_help_lists_all_commands_and_each_has_its_own() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0, shown.output
    for name in Commands.places:
        assert f" {name} " in shown.output
    for words in (["trace"], ["checkpoint"], ["checkpoint", "adopt"], ["bench", "e2e"], ["records", "prune"]):
        found = CliRunner().invoke(app, [*words, "--help"])
        assert found.exit_code == 0, found.output
        assert "Usage" in found.output


def test_an_unknown_command_is_answered_with_one_like_it() -> None:
    found = CliRunner().invoke(app, ["trac"])
    assert found.exit_code == 2
    assert "trace" in found.output
