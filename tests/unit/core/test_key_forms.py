"""Forms of keys: changes of a key's type that change the text of its values."""

from __future__ import annotations

import pytest

from databus.core.tables.key_forms import keeps_text, key_forms
from databus.testing.table_batches import table


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int", "enum"),  # 1 becomes 'small': a number is the place of a value
        ("int", "set"),  # 3 becomes 'a,b'
        ("bit(8)", "varchar(9)"),  # 65 becomes 'A': its bytes are the text
    ],
)
def test_a_type_that_gives_the_values_another_text_is_another_key(before: str, now: str) -> None:
    forms = [key_forms(table("shop.pk", {"id": kind})) for kind in (before, now)]
    assert not keeps_text(*forms)
