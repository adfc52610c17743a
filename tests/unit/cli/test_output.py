"""Numbers in tables keep the digits that matter."""

from __future__ import annotations

from typing import Any

import pytest

from databus.cli.output import _cell


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1348, "0.135"),
        (1.405, "1.41"),
        (0.0, "0.0"),
        (12.345, "12.3"),
        (102_460.4, "102,460.4"),
        (-0.25, "-0.25"),
        (1234, "1,234"),
        (True, "yes"),
        (None, "-"),
    ],
)
def test_a_number_in_a_table(value: Any, shown: str) -> None:
    assert _cell(value).plain == shown
