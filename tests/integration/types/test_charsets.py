"""Every character set of both servers: text as the server converts it, and bytes kept where it has no text to show."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.charsets import charset_named
from databus.rows.emit import emit
from tests.integration.test_decode_real import Server

pytestmark = pytest.mark.integration

UNKNOWN = 0x3F  # "?", what a server shows for what it cannot convert


def codes(longest: int, r: random.Random) -> Iterator[bytes]:
    """Yield bytes that may be characters: every single byte, and samples of longer ones, none of them "?" or zero."""
    usable = [b for b in range(1, 256) if b != UNKNOWN]
    yield from (bytes([b]) for b in usable)
    for size in range(2, longest + 1):
        for _ in range(400):
            head = [r.choice([0x8E, 0x8F, r.randrange(0x81, 0xFF), r.randrange(0, 0x40)])]
            yield bytes([*head, *(r.choice(usable) for _ in range(size - 1))])
    yield b"plain"
    # Halves of surrogate pairs, a pair, and what lies past Unicode, in each width and order.
    for text in ("d800", "dc00", "00d8", "d83dde00", "3dd800de", "0000d800", "00110000", "eda080", "f4908080"):
        yield bytes.fromhex(text)


def charsets(server: Server) -> list[tuple[str, int]]:
    return [(str(row[0]), int(row[-1])) for row in server.run("SHOW CHARACTER SET") if row[0] != "binary"]


def fill(server: Server, table: str, names: list[tuple[str, int]], r: random.Random) -> None:
    """Store bytes as they are, in as far as the server lets them in."""
    columns = ",".join(f"`{name}` VARCHAR(20) CHARACTER SET {name}" for name, _ in names)
    server.run(f"DROP TABLE IF EXISTS {table}")
    server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, {columns})")
    server.new_log()
    server.run("SET SESSION sql_mode='ALLOW_INVALID_DATES'")
    for name, longest in names:
        values = [f"(x'{code.hex()}')" for code in codes(longest, r)]
        server.run("BEGIN")
        for start in range(0, len(values), 500):
            server.run(f"INSERT IGNORE INTO {table} (`{name}`) VALUES {','.join(values[start : start + 500])}")
        server.run("COMMIT")


def shown(server: Server, table: str, name: str) -> dict[int, tuple[bytes, bytes, bytes]]:
    """Return of each row the stored bytes, the server's own conversion to UTF-8, and that converted back."""
    text = f"CONVERT(`{name}` USING utf8mb4)"
    rows = server.run(
        f"SELECT id, HEX(`{name}`), HEX({text}), HEX(CONVERT({text} USING {name})) FROM {table} "
        f"WHERE `{name}` IS NOT NULL"
    )
    return {int(row[0]): tuple(map(from_hex, row[1:])) for row in rows}  # type: ignore[misc]


def is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def from_hex(value: Any) -> bytes:
    return bytes.fromhex(value.decode() if isinstance(value, bytes) else str(value))


def found(batches: list[TableBatch], name: str) -> dict[int, str | bytes]:
    values: dict[int, str | bytes] = {}
    for batch in batches:
        column = batch.images.schema.get_field_index(name)
        kept = batch.exceptions.get(column, {})
        for row, (key, text) in enumerate(
            zip(batch.images.column("id").to_pylist(), batch.images.column(column).to_pylist(), strict=True)
        ):
            if row in kept or text is not None:
                values[key] = kept.get(row, text)
    return values


def test_every_charset_is_text_or_kept_bytes(server: Server) -> None:
    names = charsets(server)
    assert len(names) == {"mysql": 40, "mariadb": 39}[server.name]
    table = "cells.charsets"
    fill(server, table, names, random.Random(2026))
    batches = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    undecodable: dict[str, int] = {}
    for name, _ in names:
        right, ours = shown(server, table, name), found(batches, name)
        assert ours.keys() == right.keys(), name
        wrong = []
        for key, (stored, text, back) in right.items():
            value = ours[key]
            if isinstance(value, bytes):
                undecodable[name] = undecodable.get(name, 0) + 1
                # The server shows "?" or nothing for it, from which the bytes cannot come back; or, for halves of
                # surrogate pairs in utf8mb3, bytes that are no UTF-8 for anyone else.
                good = value == stored and (back != stored or not is_utf8(text))
            else:
                # A "?" is text only where the server itself stored one for what it refused.
                good = value.encode("utf-8") == text and (UNKNOWN not in text or UNKNOWN in stored)
            if not good:
                wrong.append((name, stored.hex(), text.hex(), back.hex(), value))
        assert wrong[:5] == []
    # That the test reaches what it is for: a set of single bytes, one of several, and UCS-2.
    assert {"greek", "sjis", "ucs2"} <= undecodable.keys()


def test_every_character_of_gb18030_is_the_servers(server: Server) -> None:
    if server.name != "mysql":
        pytest.skip("MariaDB has no gb18030")
    basic = [*range(1, 0xD800), *range(0xE000, 0x10000)]
    text = "".join(map(chr, [*basic, *range(0x10000, 0x110000, 31)]))
    ((stored,),) = server.run(f"SELECT HEX(CONVERT(CONVERT(x'{text.encode().hex()}' USING utf8mb4) USING gb18030))")
    ours = charset_named("gb18030").decode(from_hex(stored))
    assert [(f"{ord(a):x}", f"{ord(b):x}") for a, b in zip(text, ours, strict=True) if a != b] == []


def test_a_row_with_undecodable_text_is_delivered_and_flagged(server: Server) -> None:
    server.run("DROP TABLE IF EXISTS cells.greek")
    server.run("CREATE TABLE cells.greek (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET greek, b INT)")
    server.new_log()
    server.run("INSERT INTO cells.greek VALUES (1, x'E1AA', 1), (2, x'E1', 2)")
    server.run("UPDATE cells.greek SET a = x'E2', b = 3 WHERE id = 1")
    events = server.decode_log()
    (batch,) = [x for x in events if isinstance(x, TableBatch)]
    (rows,) = emit(batch, events.transactions, "s")
    assert rows["flags"].to_pylist() == [["after.a:undecodable"], None, ["before.a:undecodable"]]
    assert batch.images.column("a").to_pylist() == [None, "α", None, "β"]
    assert batch.exceptions == {1: {0: b"\xe1\xaa", 2: b"\xe1\xaa"}}


def test_members_without_text_are_kept(server: Server) -> None:
    server.run("DROP TABLE IF EXISTS cells.members")
    server.run(
        "CREATE TABLE cells.members (id INT PRIMARY KEY, e ENUM(x'AA','a') CHARACTER SET greek, "
        "s SET(x'81AD','a') CHARACTER SET sjis)"
    )
    server.new_log()
    server.run("INSERT INTO cells.members VALUES (1, 1, 3), (2, 2, 2), (3, 1, 1), (4, NULL, '')")
    shown = server.run("SELECT HEX(e), HEX(s) FROM cells.members ORDER BY id")
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    for number, name in ((1, "e"), (2, "s")):
        kept = batch.exceptions[number]
        texts = batch.images.column(name).to_pylist()
        ours = [kept.get(row, None if text is None else text.encode()) for row, text in enumerate(texts)]
        assert ours == [None if row[number - 1] is None else from_hex(row[number - 1]) for row in shown]
        assert sorted(kept) == [0, 2]
