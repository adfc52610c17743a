"""What counts as a secret, and texts without them."""

from __future__ import annotations

import pickle

import pytest
from pydantic import SecretStr, ValidationError

from databus.core.connections import Connection
from databus.core.secrets import is_sensitive, masked, redacted, secret_values


def test_names_of_the_field() -> None:
    for name in (
        "password", "sasl.password", "ssl.key.password", "ssl_key_password", "keyfile_password", "api_key", "token",
        "aws_secret_access_key", "sasl.jaas.config", "ssl.key.pem", "Authorization", "passphrase",
    ):  # fmt: skip
        assert is_sensitive(name), name
    for name in ("bootstrap.servers", "ssl.ca.location", "ssl.key.location", "ssl_key", "keyfile", "sasl.mechanism"):
        assert not is_sensitive(name), name


def test_values_of_nested_settings() -> None:
    extra = {"a": 1, "headers": {"Authorization": "Bearer abc"}, "list": [{"token": "t0ken"}], "password": 12345}
    assert secret_values(extra) == {"Bearer abc", "t0ken", "12345"}
    assert secret_values({"password": None, "token": True}) == set()


def test_the_longer_secret_goes_first_and_short_ones_stay() -> None:
    assert redacted("x abcdef y abcd z", {"abcd", "abcdef"}) == "x *** y *** z"
    assert redacted("a cat", {"a", ""}) == "a cat"


def test_a_connection_hides_its_own() -> None:
    connection = Connection(
        conn_id="k", conn_type="kafka", password=SecretStr("hunter2!"), extra={"ssl.key.password": "opensesame"}
    )
    assert connection.secrets == {"hunter2!", "opensesame"}
    assert connection.redacted("no hunter2! nor opensesame") == "no *** nor ***"
    assert "hunter2" not in f"{connection!r} {connection} {connection.model_dump_json()} {connection.model_dump()}"
    assert "opensesame" not in f"{connection!r} {connection} {connection.model_dump_json()} {connection.model_dump()}"
    assert pickle.loads(pickle.dumps(connection)).extra == {"ssl.key.password": "opensesame"}
    assert masked({"a": [{"token": "t", "b": 1}], "headers": {"Authorization": "x"}}) == {
        "a": [{"token": "***", "b": 1}],
        "headers": {"Authorization": "***"},
    }


def test_a_refused_value_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        Connection.model_validate({"conn_id": "k", "conn_type": "kafka", "port": "hunter2!"})
    assert "hunter2" not in str(caught.value)
