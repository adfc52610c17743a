"""RDB files and payloads of a real Redis 7.0: what is read of them is what its clients see."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import RdbError
from databus.redis import read_dump, read_rdb
from databus.redis.rdb.values import Stream
from tests.integration.redis_commands import fill
from tests.integration.redis_server import Client, RedisServer, RefusedError, State, state, value_of
from tests.unit.redis import rdb_writer as w
from tests.unit.redis.drawn_values import BY_CODE

pytestmark = pytest.mark.integration
FORMS_OF_7 = {
    "string", "hashtable", "skiplist", "intset", "listpack", "quicklist-2", "stream-listpacks-2",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"), {"sanitize-dump-payload": "yes"}).start()
    yield server
    server.kill()


@pytest.fixture
def client(server: RedisServer) -> Client:
    client = server.client()
    client("FLUSHALL")
    return client


def read_state(path: Path) -> tuple[State, set[str]]:
    found: State = {}
    with read_rdb(path) as rdb:
        keys = list(rdb)
        assert rdb.checked
        assert rdb.fields["redis-ver"].startswith(b"7.0.")
        assert [b"name=shop" in library for library in rdb.functions] == [True]
    for key in keys:
        found[key.database, key.name] = (key.kind, key.value, key.expires_at_ms)
    assert len(found) == len(keys)
    return found, {key.encoding for key in keys}


def test_a_saved_file_is_what_clients_see(server: RedisServer, client: Client) -> None:
    fill(client)
    client("SAVE")
    found, forms = read_state(server.folder / "dump.rdb")
    assert found == state(client)
    assert len(found) > 150
    assert forms == FORMS_OF_7


def test_each_dump_is_what_clients_see(client: Client) -> None:
    fill(client)
    for (database, name), (kind, value, _) in state(client).items():
        if database == 0:
            dumped = read_dump(client("DUMP", name), repr(name))
            assert (dumped.kind, dumped.value) == (kind, value)


def shown(client: Client, kind: str, name: str) -> Any:
    return value_of(client, kind, name.encode())


def comparable(value: Any, code: int) -> Any:
    """A value without what its form does not have, and groups in the server's order."""
    if not isinstance(value, Stream):
        return value
    groups = sorted(
        (
            group.name,
            group.last_id,
            None if code == 15 else group.entries_read,
            group.pending,
            sorted(group.consumers, key=lambda consumer: consumer.name),
        )
        for group in value.groups
    )
    later = () if code == 15 else (value.first_id, value.max_deleted_id, value.entries_added)
    return (value.entries, value.last_id, later, groups)


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_forms_of_older_versions_as_the_server_understands_them(client: Client, code: int) -> None:
    """The oracle of forms that 7.0 reads and no longer writes."""
    draw = random.Random(code)
    for number in range(12):
        value = _example(code, draw.randrange(1 << 30))
        payload = w.payload(bytes([code]) + w.value(code, value, compressed=number % 2 == 1))
        dumped = read_dump(payload, "k")
        client("RESTORE", "k", 0, payload, "REPLACE")
        assert comparable(dumped.value, code) == comparable(shown(client, dumped.kind, "k"), code)
        assert dumped.value == value


@pytest.mark.parametrize("seed", range(3))
def test_damaged_payloads_that_both_take_mean_the_same(client: Client, seed: int) -> None:
    """The server checks payloads whole (sanitize-dump-payload), and stays up."""
    draw = random.Random(seed)
    both = refused = 0
    for _ in range(250):
        code = draw.choice(sorted(BY_CODE))
        body = bytearray(bytes([code]) + w.value(code, _example(code, draw.randrange(1 << 30))))
        for _ in range(draw.choice([1, 1, 2, 4])):
            body[draw.randrange(len(body))] ^= 1 << draw.randrange(8)
        payload = w.payload(bytes(body))
        try:
            dumped = read_dump(payload, "k")
        except RdbError:
            refused += 1
            continue
        try:
            client("RESTORE", "k", 0, payload, "REPLACE")
        except RefusedError:
            continue
        both += 1
        assert comparable(dumped.value, body[0]) == comparable(shown(client, dumped.kind, "k"), body[0]), payload
    assert both > 20
    assert refused > 20


def _example(code: int, seed: int) -> Any:
    """Return one drawn value of a form; the same for the same seed."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    found: list[Any] = []

    @seeded(seed)
    @settings(max_examples=6, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(BY_CODE[code])
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found[-1]
