"""Replication of a real Redis 7.0: snapshot, commands as effects, places, acknowledgements, TLS, refusals."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import (
    SourceAccessError,
    SourceError,
    SourceUnavailableError,
)
from databus.redis import Place, Replica, read_server
from databus.sandbox.certificates import Authority
from tests.integration.redis_commands import FAMILIES, fill, random_commands
from tests.integration.redis_server import data, state
from tests.integration.redis_stream import Started, apply, carry_out, mark, start, until, until_true

pytestmark = pytest.mark.integration
assert start  # a fixture


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_snapshot_is_what_clients_see(start: Started, diskless: str) -> None:
    server = start(repl_diskless_sync=diskless)
    client = server.client()
    fill(client)
    with server.follow() as replica:
        found = {(key.database, key.name): (key.kind, key.value, key.expires_at_ms) for key in replica.snapshot}
        assert found == state(client)
        assert replica.place.offset <= server.offset()
        assert [len(transaction.commands) for transaction in until(replica, mark(client))] == [1]
        assert replica.place.offset == server.offset()


@pytest.mark.parametrize("family", FAMILIES)
def test_commands_as_effects_make_an_equal_server(start: Started, family: str) -> None:
    origin, copy = start(), start()
    client = origin.client()
    with origin.follow() as replica:
        until_true(origin.saved)
        for command in FAMILIES[family]:
            client(*command)
        until_true(origin.settled)
        target = copy.client()
        apply(target, until(replica, mark(client)))
        assert replica.place.offset == origin.offset()
        assert data(target) == data(client)
        assert target("DEBUG", "DIGEST") == client("DEBUG", "DIGEST")
        assert target("FUNCTION", "DUMP") == client("FUNCTION", "DUMP")


def test_transactions_are_whole_and_name_their_database(start: Started) -> None:
    server = start()
    client = server.client()
    with server.follow() as replica:
        commands = [("SET", "a", 1), ("INCRBYFLOAT", "f", "1.5"), ("EXPIRE", "a", 100)]
        client.pipeline([("SELECT", 3), ("MULTI",), *commands, ("EXEC",)])
        found = next(replica.transactions())
        assert found.place.offset == server.offset()
    names = [(command.database, command.name, command.arguments[1]) for command in found.commands]
    assert names == [(3, "SET", b"a"), (3, "SET", b"f"), (3, "PEXPIREAT", b"a")]
    assert found.commands[1].arguments[2:] == (b"1.5", b"KEEPTTL")
    assert found.place.database == 3
    assert found.commands[0].end == found.commands[1].start


def test_reading_goes_on_where_it_ended(start: Started) -> None:
    origin, copy = start(), start()
    client, target = origin.client(), copy.client()
    place: Place | None = None
    for part in range(6):
        with origin.follow(place=place) as replica:
            assert (replica.snapshot is None) == (part > 0)
            place = place or replica.place
            carry_out(client, [("SELECT", part % 3), *random_commands(part, 200)])
            middle = mark(client)
            carry_out(client, random_commands(100 + part, 50))
            place = apply(target, until(replica, middle)) or place
        carry_out(client, [("SELECT", 1), ("SET", "meanwhile", part)])
        place = Place.parse(str(place))
    until_true(origin.settled)
    with origin.follow(place=place) as replica:
        apply(target, until(replica, mark(client)))
        assert replica.place.offset == origin.offset()
    assert data(target) == data(client)
    assert target("DEBUG", "DIGEST") == client("DEBUG", "DIGEST")


@pytest.mark.parametrize("rounds", [6, 100])
def test_cuts_while_a_program_writes(start: Started, rounds: int) -> None:
    """The server ends the connection again and again, in the middle of whatever it is."""
    origin, copy = start(), start()
    target, killer = copy.client(), origin.client()
    stopped = threading.Event()

    def write() -> None:
        client, number = origin.client(), 0
        while not stopped.is_set():
            carry_out(client, random_commands(number, 40))
            number += 1

    with origin.follow() as replica:
        place = replica.place
    writer = threading.Thread(target=write)
    writer.start()
    draw = random.Random(rounds)
    try:
        for _ in range(rounds):
            most = draw.randrange(1, 200)
            with origin.follow(place=place) as replica:
                for count, transaction in enumerate(replica.transactions()):
                    place = apply(target, [transaction]) or place
                    if count == most:
                        killer("CLIENT", "KILL", "TYPE", "REPLICA")
                        break
                with suppress(SourceUnavailableError):
                    for transaction in replica.transactions():
                        place = apply(target, [transaction]) or place
    finally:
        stopped.set()
        writer.join()
    until_true(origin.settled)
    with origin.follow(place=place) as replica:
        apply(target, until(replica, mark(killer)))
    assert data(target) == data(killer)
    assert target("DEBUG", "DIGEST") == killer("DEBUG", "DIGEST")


def test_a_replica_of_the_server_is_read_like_the_server(start: Started) -> None:
    first, second = start(), start()
    client = first.client()
    client("SELECT", 6)
    client("SET", "before", 1)
    second.client()("REPLICAOF", "127.0.0.1", first.port)
    client("SET", "between", 1)
    assert client("WAIT", 1, 60_000) == 1
    with second.follow() as replica:
        assert {key.name for key in replica.snapshot} == {b"before", b"between"}
        client("SET", "behind", 2)
        transaction = next(replica.transactions())
        assert [(c.database, c.arguments[1]) for c in transaction.commands] == [(6, b"behind")]


def test_a_server_that_is_killed_in_mid_snapshot(start: Started, tmp_path: Path) -> None:
    server = start(rdb_key_save_delay="100000")
    client = server.client()
    client.pipeline([("SET", f"key{number}", "x" * 1000) for number in range(500)])
    failed: list[SourceError] = []

    def follow() -> None:
        try:
            server.follow(folder=tmp_path)
        except SourceError as error:
            failed.append(error)

    following = threading.Thread(target=follow)
    following.start()
    until_true(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "1")
    assert not list(tmp_path.glob("databus-redis-*"))
    server.kill()
    following.join(60)
    assert [type(error) for error in failed] == [SourceUnavailableError]
    assert not list(tmp_path.glob("databus-redis-*"))


def test_what_is_acknowledged_is_what_was_handled(start: Started) -> None:
    server = start(repl_timeout="4", repl_ping_replica_period="1")
    client = server.client()
    with server.follow() as replica:
        stream = replica.transactions()
        client("SET", "a", 1)
        client("SET", "b", 1)
        next(stream)
        # WAIT asks at once (REPLCONF GETACK): nothing is answered as long as nobody reads on.
        assert client("WAIT", 1, 300) == 0
        next(stream)
        client("SET", "c", 1)
        reading = threading.Thread(target=lambda: next(stream))
        reading.start()
        reading.join()
        client("SET", "d", 1)
        reading = threading.Thread(target=lambda: [next(stream), next(stream)])
        reading.start()
        assert client("WAIT", 1, 30_000) == 1
        # Longer than the server waits for a replica that says nothing: the acknowledgements are of the seconds.
        begun = server.offset()
        until_true(lambda: server.offset() > begun + 80)
        client("SET", "e", 1)
        reading.join()
        assert server.info("replication")["connected_slaves"] == "1"


def test_a_loop_that_was_left_is_gone_on_with_in_another(start: Started) -> None:
    server = start()
    client = server.client()
    with server.follow() as replica:
        client("SET", "a", 1)
        for _ in replica.transactions():
            break
        assert client("WAIT", 1, 300) == 0
        reading = threading.Thread(target=lambda: next(replica.transactions()))
        reading.start()
        assert client("WAIT", 1, 30_000) == 1
        client("SET", "b", 1)
        reading.join()


def test_a_reader_ends_when_it_is_closed_by_another_thread(start: Started) -> None:
    server = start()
    replica = server.follow()
    errors: list[SourceError] = []

    def read() -> None:
        try:
            list(replica.transactions())
        except SourceError as error:
            errors.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    replica.close()
    replica.close()
    reading.join(30)
    assert not reading.is_alive()
    assert [error.retryable for error in errors] == [True]


def test_tls_an_acl_user_and_who_is_refused(start: Started, tmp_path: Path) -> None:
    pair = Authority(tmp_path / "ca").issue("redis")
    authority = Authority(tmp_path / "ca").certificate
    files = {"tls_cert_file": str(pair.certificate), "tls_key_file": str(pair.key), "tls_ca_cert_file": str(authority)}
    probe = start()
    tls_port = probe.port
    probe.kill()
    server = start(tls_port=str(tls_port), **files)
    client = server.client()
    client("ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "-@all", "+psync", "+replconf")
    client("ACL", "SETUSER", "weak", "on", ">secret", "+get")
    files_of_client = {"ssl_certfile": str(pair.certificate), "ssl_keyfile": str(pair.key)}
    trusted = {"ssl": True, "ssl_ca_certs": str(authority), "socket_connect_timeout": 3, **files_of_client}

    def follow(port: int = tls_port, **arguments: Any) -> Replica:
        return read_server("localhost", port, **{"user": "reader", "password": "secret", "extra": trusted, **arguments})

    with follow() as replica:
        client.pipeline([("SET", "a", "x" * 300_000)] * 20)
        assert len(list(until(replica, mark(client)))) == 21
        place = replica.place
    with follow(place=place) as replica:
        client("SET", "b", 1)
        assert next(replica.transactions()).commands[0].arguments == (b"SET", b"b", b"1")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"password": "wrong"}, "source_access_denied"),
        ({"user": "weak"}, "source_access_denied"),
        ({"extra": {**trusted, "ssl_ca_certs": ""}}, "tls_ca_unknown"),
        ({"extra": {"ssl": True, "ssl_ca_certs": str(authority)}}, "tls_client_certificate"),
        ({"port": server.port, "password": "wrong", "extra": {}}, "source_access_denied"),
    ]
    for arguments, code in refused:
        with pytest.raises(SourceAccessError) as caught:
            follow(**arguments)
        assert caught.value.code == code, arguments
        assert "secret" not in str(caught.value)
    with pytest.raises((SourceAccessError, SourceUnavailableError), match="TLS"):
        follow(port=server.port)
    with pytest.raises((SourceAccessError, SourceUnavailableError)):
        follow(extra={})
    server.kill()
    with pytest.raises(SourceUnavailableError):
        follow()


def test_a_server_that_is_not_ready_is_tried_again(start: Started) -> None:
    server = start()
    server.client()("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(SourceUnavailableError, match="NOMASTERLINK") as caught:
        server.follow()
    assert caught.value.retryable


def test_a_folder_that_cannot_be_written_is_named(start: Started, tmp_path: Path) -> None:
    server = start()
    with pytest.raises(SourceError, match="nowhere") as caught:
        server.follow(folder=tmp_path / "nowhere")
    assert caught.value.code == "redis_snapshot_file"
    assert server.info("stats")["sync_full"] == "0"
