"""What sinks refused, by sink and table, in words without row data."""

from __future__ import annotations

import pytest

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.refusals import cause_class, refusals, stopped

MALFORMED = (
    "mapper_parsing_exception: failed to parse field [note] of type [integer] in document with id 'ada@x.org'. "
    "Preview of field's value: 'secret' (For input string: \"secret\")"
)
STRICT = (
    "strict_dynamic_mapping_exception: mapping set to strict, dynamic introduction of [extra] within [_doc] is not "
    "allowed"
)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (MALFORMED, "mapper_parsing_exception: field [note] of type [integer]"),
        (STRICT, "strict_dynamic_mapping_exception: dynamic introduction of [extra]"),
        ("record_too_large: 1048999 bytes, topic cdc.shop takes 104", "record_too_large: topic cdc.shop takes 104"),
        ("illegal_argument_exception: 'secret' is bad", "illegal_argument_exception"),
        ("'secret'", "refused"),
    ],
)
def test_a_cause_names_field_and_type_and_nothing_of_the_row(cause: str, words: str) -> None:
    assert cause_class(cause) == words


def test_refusals_are_counted_by_sink_and_table_with_the_most_frequent_causes_first() -> None:
    def row(number: int, table: str, cause: str) -> RejectedRow:
        return RejectedRow(f"e{number}", table, f'{{"id":{number}}}', f"{cause}: '{number}'", "search", "bin.1:4", "{}")

    causes = ["a", "b", "b", "c", "d", "b", "d"]
    rows = [row(n, "shop.orders", cause) for n, cause in enumerate(causes)] + [row(9, "shop.items", "e")]
    receipts = [
        WriteReceipt("kafka", 0, 1, 8, {"shop.orders": 7, "shop.items": 1}),
        WriteReceipt("search", 0, 1, 0, rejected=tuple(rows[:4])),
        WriteReceipt("search", 1, 1, 0, rejected=tuple(rows[4:])),
    ]
    items, orders = refusals(receipts)
    assert (items.table, items.rows, orders.table, orders.rows) == ("shop.items", 1, "shop.orders", 7)
    assert orders.causes[:2] == (("b", 3), ("d", 2))
    assert str(orders) == "sink search refused 7 rows of shop.orders: 3 × b; 2 × d; 1 × a; and 1 other cause"
    assert refusals(receipts[:1]) == []


def test_a_batch_that_stops_says_how_many_rows_of_which_tables_why_and_where_they_are() -> None:
    def row(number: int, table: str) -> RejectedRow:
        return RejectedRow(
            f"e{number}", table, '{"email":"ada@x.org"}', MALFORMED, "search", "bin.1:4", '{"a":"secret"}'
        )

    error = stopped([*(row(n, "shop.orders") for n in range(6)), row(6, "shop.items")], "search:9200: 'orders'", "mend")
    cause = "mapper_parsing_exception: field [note] of type [integer]"
    assert error.message == (
        f"search:9200: 'orders': sink search refused 1 row of shop.items: 1 × {cause}; "
        f"sink search refused 6 rows of shop.orders: 6 × {cause} (event ids: e0, e1, e2, e3, e4, …)"
    )
    assert (error.hint, error.sink, error.retryable) == ("mend", "search", False)
