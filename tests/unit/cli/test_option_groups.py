"""Option groups: a dataclass parameter is one option for each field, and the command gets it filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from databus.cli.terminal.option_groups import grouped


@dataclass(frozen=True)
class Sizes:
    """Sizes.

    Attributes:
        rows: rows of the run,
            in one table.
        seconds: not an option.
        checks: run checks too.
    """

    rows: Annotated[int, typer.Option(min=5)] = 50
    seconds: float = 1.5
    checks: Annotated[bool, typer.Option("--checks", help="Run checks.")] = False


found: list[tuple[str, Sizes, int]] = []


@grouped
def command(
    flow: Annotated[str, typer.Argument(help="Name.")],
    sizes: Sizes,
    more: Annotated[int, typer.Option(help="More.")] = 3,
) -> None:
    """Do it."""
    found.append((flow, sizes, more))


app = typer.Typer()
app.command()(command)


def test_fields_are_options_with_the_text_of_the_docstring() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout.split())
    assert "Rows of the run, in one table. [default: 50]" in shown
    assert "--checks" in shown
    assert "--seconds" not in shown
    done = CliRunner().invoke(app, ["orders", "--rows", "7", "--checks", "--more", "4"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["orders"]).exit_code == 0
    assert found == [("orders", Sizes(7, 1.5, True), 4), ("orders", Sizes(), 3)]
    assert CliRunner().invoke(app, ["orders", "--rows", "4"]).exit_code == 2


def test_two_options_of_one_name_are_refused() -> None:
    def twice(sizes: Sizes, rows: int = 1) -> None:
        """Do it."""

    with pytest.raises(TypeError, match="two options are called 'rows'"):
        grouped(twice)
