"""Messages in the forms of Maxwell and Canal."""

from __future__ import annotations

from tests.unit.formats.encoded_messages import messages

ORDER = {"id": 1, "status": "new", "amount": 10.5, "at": "2026-05-03 10:20:30.120"}


def test_maxwell() -> None:
    found = messages("orders", envelope="maxwell")
    assert [(m["type"], m["data"]["id"], m.get("old")) for _, m in found] == [
        ("insert", 1, None), ("update", 1, {"status": "new"}), ("delete", 1, None), ("insert", 2, None),
        ("delete", 2, None),
    ]  # fmt: skip
    key, first = found[0]
    assert key == '{"database":"shop","table":"orders","pk.id":1}'
    assert first["data"] == ORDER
    assert (first["database"], first["table"], first["ts"], first["position"], first["primary_key_columns"]) == (
        "shop", "orders", 1777803630, "mysql-bin.000002:645", ["id"],
    )  # fmt: skip
    # The key changed, and with it the row: the delete has all of it.
    assert found[2][1]["data"] == {**ORDER, "status": "paid"}


def test_values_of_maxwell() -> None:
    ((_, message),) = messages("every_type", envelope="maxwell")
    data = message["data"]
    assert (data["c25"], data["c29"], data["c15"], data["c17"]) == (
        ["a", "c"], {"b": 1}, "2026-05-03 10:20:30", "2026-05-03 10:20:30",
    )  # fmt: skip
    assert (data["c6"], data["c26"], data["c14"]) == (2**64 - 1, "AAEAAA==", "2026-05-03")


def test_canal() -> None:
    found = messages("orders", envelope="canal")
    assert [(m["type"], m["data"][0]["id"], m["old"]) for _, m in found] == [
        ("INSERT", "1", None), ("UPDATE", "1", [{"status": "new"}]), ("DELETE", "1", None), ("INSERT", "2", None),
        ("DELETE", "2", None),
    ]  # fmt: skip
    _, first = found[0]
    assert first["data"] == [{"id": "1", "status": "new", "amount": "10.50", "at": "2026-05-03 10:20:30.120"}]
    assert (first["pkNames"], first["isDdl"], first["es"]) == (["id"], False, 1777803630120)
    assert first["mysqlType"] == {
        "id": "bigint",
        "status": "varchar(20)",
        "amount": "decimal(10,2)",
        "at": "datetime(3)",
    }
    assert first["sqlType"] == {"id": -5, "status": 12, "amount": 3, "at": 93}


def test_values_of_canal_are_texts() -> None:
    ((_, message),) = messages("every_type", envelope="canal")
    (data,) = message["data"]
    assert all(isinstance(value, str) for value in data.values())
    assert (data["c6"], data["c27"], data["c10"], data["c15"]) == (
        "18446744073709551615", "\x00ÿ\x80", "-2.5e-7", "2026-05-03 10:20:30",
    )  # fmt: skip
