from __future__ import annotations

import pytest

from databus.core.errors import TransformError
from databus.rows.frames.fields import fields_of, sql_string, variant_path
from databus.testing.table_batches import table


def test_typed_access_uses_the_schemas_type() -> None:
    field = fields_of(table("shop.t", {"amount": "decimal(12,2)"}, ()))[0]

    assert field.typed("after") == "try_variant_get(`after`, '$[\\'amount\\']', 'decimal(12,2)')"
    assert field.renamed("x").typed("before").startswith("try_variant_get(`before`, '$[\\'amount\\']'")


def test_a_rewrite_makes_text_and_leaves_null_alone() -> None:
    field = fields_of(table("shop.t", {"b": "blob"}, ()))[0].rewritten(lambda v: f"sha2({v}, 256)").rewritten(str.upper)

    assert (field.column.spark_type, field.stored_binary) == ("string", True)
    assert "SHA2(VARIANT_GET(" in field.typed("after")
    assert field.typed("after").startswith("CASE WHEN")
    assert field.column.name == "b"


@pytest.mark.parametrize(
    ("name", "path"), [("a b", "$['a b']"), ("it's", '$["it\'s"]'), ("why?", "$.why?"), ("'\"", "$.'\"")]
)
def test_a_path_can_say_odd_names(name: str, path: str) -> None:
    assert variant_path(name) == path


def test_a_name_that_no_path_can_say_is_refused() -> None:
    with pytest.raises(TransformError, match="cannot be said"):
        variant_path("a.b?")


def test_string_literals_are_escaped() -> None:
    assert sql_string("a'b\\c") == "'a\\'b\\\\c'"
