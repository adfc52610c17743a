"""Functions of texts, bytes, patterns and hashes beside Spark, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.expressions.differ import differ, session
from tests.spark.expressions.texts import EXPRESSIONS, texts

OF_CODE_POINTS = (
    "upper(s)",
    "lower(s)",
    "initcap(s)",
    "lower(f)",
    "lower(g)",
    "lower(h)",
    "initcap(f)",
)
_COMPARED = 1_150


@pytest.fixture(scope="module")
def ours(spark: Any) -> Any:
    return session(spark, codegen=False)


def test_every_150th_expression_gives_sparks_values(ours: Any) -> None:
    found = differ(ours, EXPRESSIONS[::150], texts())
    assert found.differences == []
    assert len(found.compared) > _COMPARED // 150


def test_every_expression_gives_sparks_values(spark: Any) -> None:
    found = differ(session(spark), EXPRESSIONS, texts())
    assert found.differences == []
    assert len(found.compared) > _COMPARED


def test_a_text_that_names_a_variable_is_the_text(ours: Any) -> None:
    (row,) = ours.sql("SELECT '${spark.sql.ansi.enabled}' AS text").collect()
    assert row.text == "${spark.sql.ansi.enabled}"


def test_scripts_with_cases_are_mapped_as_spark_does(ours: Any) -> None:
    cased = [*range(0x80, 0x600), *range(0x10A0, 0x1400), *range(0x1C80, 0x2190), *range(0xA640, 0xABC0)]
    assert differ(ours, OF_CODE_POINTS, _rows([*cased, *range(0x10400, 0x10600)])).differences == []


def test_every_character_is_mapped_as_spark_does(ours: Any) -> None:
    assert differ(ours, OF_CODE_POINTS, _rows(range(1, 0x110000))).differences == []


def _rows(codes: Any) -> pa.Table:
    """Return characters apart from one another (`s`), behind a sigma (`f`, `g`) and before it (`h`)."""
    chosen = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    rows = [chosen[k : k + 128] for k in range(0, len(chosen), 128)]

    def made(form: str) -> Iterator[str]:
        return ("".join(form.replace("_", each) for each in row) for row in rows)

    forms = {"s": "! _", "f": "aΣ_!", "g": "aΣ_b!", "h": "_Σ!a_Σ!"}
    return pa.table({name: pa.array(list(made(form)), pa.string()) for name, form in forms.items()})
