"""Result of `databus validate` in words."""

from __future__ import annotations

from itertools import repeat

import pytest

from databus.cli.terminal.output import Format
from databus.cli.validate import _show
from databus.ops.validation.result import FIGURES, SinkComparison, Validation


@pytest.mark.parametrize(
    ("unjudged", "said"),
    [
        ({}, "equal; 3 rows read"),
        ({"without_key": 3}, "equal as far as rows were judged; 3 rows read"),
        ({"moving": 1}, "equal as far as rows were judged; 3 rows read"),
    ],
)
def test_rows_that_were_not_judged_are_not_told_as_equal(
    capsys: pytest.CaptureFixture[str], unjudged: dict[str, int], said: str
) -> None:
    figures = {**dict(zip(FIGURES, repeat(0), strict=False)), **unjudged}
    _show(Validation("f", (SinkComparison("kafka", {"shop.t": figures}, ()),), 3, 0.1), 20, Format.TABLE)
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith(said)
    assert ("3 rows of tables without a key, not judged" in told) == ("without_key" in unjudged)
