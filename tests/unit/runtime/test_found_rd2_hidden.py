"""Found by reading: a column that was shown once and is hidden again."""

from __future__ import annotations

import pytest

from databus import DropColumns
from databus.core.errors import TransformError
from tests.unit.runtime.test_hidden_columns import Kept, Told, moved


def test_found_a_column_that_is_hidden_again_is_not_shown_by_a_transform_of_its_new_name_alone() -> None:
    """Shown for a while (by mistake, say), hidden again, and renamed: rows of before the ALTER go out in clear, where
    they are refused had it never been shown."""
    kept, source = Kept(orders={"email"}), Told("id", "email", "mail")
    assert moved(kept, "email", DropColumns("mail"), view={"source": source})  # shown, knowingly
    assert moved(kept, "email", DropColumns("email"), view={"source": source})  # and hidden again
    source.columns = ("id", "mail")
    with pytest.raises(TransformError, match="has a column email in these rows"):
        moved(kept, "email", DropColumns("mail"), view={"source": source})
