"""Former names of row columns: refused with the name of today, printed as before."""

from __future__ import annotations

import pytest

from databus.core.errors import ConfigError
from databus.core.events import ROW_COLUMNS
from databus.rows.former_columns import FORMER_COLUMNS, as_printed, former_columns_named
from databus.rows.variant.images import arrow_schema

NAMES = [name for name, _ in ROW_COLUMNS]
ROWS = arrow_schema().empty_table()


class AnalysisException(Exception):  # noqa: N818 - Spark's name
    """Spark's, whose package this test does not load."""


@pytest.mark.parametrize(("former", "name"), FORMER_COLUMNS.items())
def test_a_former_name_is_refused_with_the_name_of_today(former: str, name: str) -> None:
    assert former not in NAMES
    assert name in NAMES
    said = f"sink mine uses the column '{former}' of rows, which is '{name}' now"
    with pytest.raises(ConfigError, match=said) as no, former_columns_named("sink mine"):
        ROWS[former]
    assert no.value.code == "row_column_renamed"
    assert f"{former} → {name}" in no.value.hint
    spark = AnalysisException(
        f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `{former}` cannot be "
        "resolved. Did you mean one of the following? [`log`, `op`]."
    )
    with pytest.raises(ConfigError, match=f"is '{name}' now"), former_columns_named("transform own"):
        raise spark


@pytest.mark.parametrize(
    "error",
    [
        KeyError("file"),
        KeyError('Field "filet" does not exist in schema'),
        KeyError(),
        AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] … name `status` … Did you mean [`file`]."),
        AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] `file`"),
        ValueError('Field "file" does not exist in schema'),
    ],
)
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, former_columns_named("sink mine"):
        raise error
    assert raised.value is error


def test_lines_for_people_keep_their_names() -> None:
    row = dict.fromkeys(NAMES, 1)
    assert list(as_printed(row)) == [
        *("op", "database", "table", "schema_id", "key", "key_hash", "before", "after", "file", "position", "gtid"),
        *("ordinal", "part", "event_id", "ts_ms", "server_id", "statement", "flags", "absent", "other_key"),
    ]
