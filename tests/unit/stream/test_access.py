"""Tokens and rates of clients."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import ConfigError, StreamAccessError, StreamFullError, StreamTokenError
from databus.stream.access import Rates, Tokens
from databus.stream.options import StreamOptions
from databus.stream.server import Listener
from databus.stream.service import StreamService

SECRET = "s3cret-token"


def file_of(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"tokens": entries}))
    return path


def entry(**fields: Any) -> dict[str, Any]:
    return {"client": "shop", "sha256": hashlib.sha256(SECRET.encode()).hexdigest(), **fields}


def test_a_token_is_for_the_topics_of_its_entry(tmp_path: Path) -> None:
    tokens = Tokens.of_file(file_of(tmp_path / "t.json", entry(write=["events.*"], read=["state"])))
    client = tokens.client(f"Bearer {SECRET}", "10.0.0.1")
    assert client.name == "shop"
    client.check("write", "events.a")
    client.check("read", "state")
    with pytest.raises(StreamAccessError, match="client shop may not read topic events"):
        client.check("read", "events.a")
    for wrong in ("", f"Basic {SECRET}", "Bearer other", "Bearer é"):
        with pytest.raises(StreamTokenError):
            tokens.client(wrong, "10.0.0.1")
    assert SECRET not in repr(client)


def test_without_tokens_a_client_is_its_address() -> None:
    assert Tokens().client("", "10.0.0.1").name == "10.0.0.1"


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"client": "a"}],
        [entry(sha256="abc")],
        [entry(topics=["x"])],
        [entry(sha256="g" * 64)],
        [entry(write="events.*")],
        [entry(read={"events.*": True})],
        [entry(read=[7])],
        [entry(write=["a"]), entry(client="other")],
    ],
)
def test_files_that_are_refused(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    with pytest.raises(ConfigError, match=r"t\.json"):
        Tokens.of_file(file_of(tmp_path / "t.json", *entries))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Tokens.of_file(tmp_path / "none.json")


def test_a_rate_says_when_the_next_records_pass() -> None:
    rates = Rates(100)
    rates.take("a", 60, now_s=0.0)
    with pytest.raises(StreamFullError) as caught:
        rates.take("a", 60, now_s=0.0)
    assert caught.value.retry_after_s == pytest.approx(0.2)
    rates.take("b", 60, now_s=0.0)
    rates.take("a", 60, now_s=0.21)
    rates.take("c", 1_000, now_s=0.0)
    with pytest.raises(StreamFullError):
        rates.take("c", 1, now_s=5.0)
    rates.take("c", 1, now_s=10.0)
    Rates(0).take("a", 10**9)
    rates.note("reader", 300)
    with pytest.raises(StreamFullError) as caught:
        rates.take("reader", 0)
    assert 1.5 < caught.value.retry_after_s <= 2.0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "a b"}, "no name"),
        ({"record_bytes": 5 * 1024 * 1024}, "--batch-bytes"),
        ({"batch_bytes": 65 * 1024 * 1024}, "--waiting-bytes"),
    ],
)
def test_options_that_do_not_fit_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StreamOptions(**fields)
    assert said in str(caught.value)


def test_topics_that_are_served() -> None:
    options = StreamOptions(topics=("events.*",))
    assert options.serves("events.a")
    others = ("__consumer_offsets", "databus.stream." + "stream.producers", "a/b", "")
    assert not any(map(StreamOptions().serves, others))
    assert not options.serves("other")


@pytest.mark.parametrize("address", ["8470", ":8470", "host:", "host:x", "host:70000"])
def test_addresses_that_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="no address"):
        Listener.of(address)


def test_nobody_is_let_in_from_outside_by_accident() -> None:
    service = StreamService.__new__(StreamService)
    service.tokens = Tokens()
    Listener.of("127.0.0.1:0").check_open(service, allowed=False)
    Listener.of("0.0.0.0:1", "c", "k", "ca").check_open(service, allowed=False)
    Listener.of("0.0.0.0:1").check_open(service, allowed=True)
    with pytest.raises(ConfigError, match="asks for no token"):
        Listener.of("0.0.0.0:1").check_open(service, allowed=False)
    with pytest.raises(ConfigError, match="certificate"):
        Listener.of("h:1", client_ca="ca")
