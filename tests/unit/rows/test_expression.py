from __future__ import annotations

import pytest

from databus.rows.frames.expression import parse_expression


def bound(text: str) -> str:
    return parse_expression(text).bind(lambda name, image: f"<{image}:{name}>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amount > 100.5", "<row:amount> > 100.5"),
        ("`Weird col` = 'amount' AND x IN ('x')", "<row:Weird col> = 'amount' AND <row:x> IN ('x')"),
        ("before.status <> after.`status`", "<before:status> <> <after:status>"),
        ("created_at >= timestamp'2024-01-01'", "<row:created_at> >= timestamp'2024-01-01'"),
        ("exists(split(tags, ','), t -> t = wanted)", "exists(split(<row:tags>, ','), t -> t = <row:wanted>)"),
        ("_op = 'd' OR uuid = user", "<row:_op> = 'd' OR <row:uuid> = <row:user>"),
        ("first_name LIKE 'now()%'", "<row:first_name> LIKE 'now()%'"),
        ("unix_timestamp(day) > 0", "unix_timestamp(<row:day>) > 0"),
        ("дата = 1 -- why", "<row:дата> = 1 -- why"),
    ],
)
def test_only_column_names_are_replaced(text: str, expected: str) -> None:
    assert bound(text) == f"({expected}\n)"


@pytest.mark.parametrize(
    "text",
    [
        "rand() < 0.1",
        "RANDN() > 0",
        "id = uuid()",
        "now() > created_at",
        "created_at > current_timestamp",
        "created_at > current_timestamp()",
        "day = current_date",
        "day = current_date()",
        "day = curdate()",
        "owner = current_user",
        "owner = current_user()",
        "id > monotonically_increasing_id()",
        "spark_partition_id() = 0",
        "unix_timestamp() > 5",
        "day = date 'today'",
        "at = timestamp ' NOW '",
        "reflect('java.util.UUID', 'randomUUID') = id",
        "shuffle(array(id))[0] = 1",
        "localtimestamp() > at",
    ],
)
def test_what_may_differ_between_two_runs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="may differ when a batch is run again"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("sum(amount) > 1", "an aggregate"),
        ("count(*) > 1", "an aggregate"),
        ("row_number() OVER (ORDER BY id) = 1", "a window function"),
        ("explode(tags)", "a table function"),
        ("id = :limit", "a parameter"),
        ("id >", "cannot parse"),
        ("", "must be one SQL expression"),
        ("id = 1; id = 2", "must be one SQL expression"),
        ("DROP TABLE orders", "is a statement"),
        ("SELECT 1", "a subquery"),
        ("shop.orders.id = 1", "columns are named alone"),
        ("orders.id = 1", "only qualifiers are before and after"),
        ("'open", "cannot parse"),
    ],
)
def test_what_is_not_an_expression_over_one_row_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_expression(text)
