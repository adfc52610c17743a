"""Commands are imported when they are asked for, and all of them are there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli.main import Commands, app

ROOT = Path(__file__).parents[3]
HEAVY = ("airflow", "alembic", "great_expectations", "numba", "numpy", "pyarrow", "pyspark")


def test_a_command_pays_for_its_own_imports_only() -> None:
    code = "import sys; sys.argv = ['databus', 'trace', '--help']\n"
    code += "from databus.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit: pass\n"
    code += "import databus.ops.trace.follow, databus.sinks.kafka.sink, databus.records.store\n"
    code += f"print('@', sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "TOPIC:PARTITION:OFFSET" in done.stdout
    assert done.stdout.splitlines()[-1] == "@ []"


@pytest.mark.parametrize("words", [[], ["backfill"]])
def test_help_loads_nothing_that_decodes_or_moves_rows(words: list[str]) -> None:
    """It lists all commands, and so loads each of their modules: what they do is imported when they do it."""
    code = f"import sys; sys.argv = ['databus', *{words!r}, '--help']\n"
    code += "from databus.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit: pass\n"
    code += (
        f"print('@', sorted({{*{HEAVY!r}, 'confluent_kafka', 'pandas', 'databus.runtime.window'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stdout.splitlines()[-1] == "@ []"


@pytest.mark.parametrize(
    "words", [["flows", "list"], ["checkpoint", "show", "orders_to_kafka"], ["lag"], ["plan", "orders_to_kafka"]]
)
def test_a_look_at_a_flow_builds_no_dag_and_loads_no_engine(words: list[str], tmp_path: Path) -> None:
    """Airflow alone costs such a command two seconds of CPU, SQLAlchemy a third of one."""
    code = f"import sys; sys.argv = ['databus', *{words!r}, '--dags', {str(ROOT / 'dags')!r}]\n"
    code += "from databus.cli.main import main\n"
    code += "try: main()\nexcept SystemExit as ended: print('@', ended.code)\n"
    code += f"print('@', sorted({{*{HEAVY!r}, 'confluent_kafka', 'sqlalchemy'}} & set(sys.modules)))"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_CONN_")}
    environment |= {"DATABUS_SANDBOX": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    ended, loaded = [line for line in done.stdout.splitlines() if line.startswith("@")]
    assert loaded == "@ []", loaded
    # Without servers they end at the first connection, with everything before it loaded.
    assert ended == ("@ 0" if words == ["flows", "list"] else "@ 2"), done.stderr


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
