"""How a connection says where a schema registry is, and what of it is never shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors import RegistryUnavailableError, SourceSettingError
from databus.schema_registry.client import registered
from databus.schema_registry.settings import RegistrySettings


def settings_of(**of: Any) -> RegistrySettings:
    return RegistrySettings.of(Connection(conn_id="reg", conn_type="http", **of), 5.0)


@pytest.mark.parametrize(
    ("of", "url"),
    [
        ({"host": "reg", "port": 8081}, "http://reg:8081"),
        ({"host": "reg", "db_schema": "https"}, "https://reg"),
        ({"host": "https://reg/api/", "port": 8081}, "https://reg:8081/api"),
        ({"host": "reg", "port": 1, "extra": {"path": "/apis/ccompat/v7"}}, "http://reg:1/apis/ccompat/v7"),
        ({"extra": {"url": "http://a:1,http://b:2"}}, "http://a:1,http://b:2"),
    ],
)
def test_addresses(of: dict[str, Any], url: str) -> None:
    assert settings_of(**of).url == url


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({}, "names no address"),
        ({"host": "ftp://reg"}, "names no address"),
        ({"extra": {"url": "http://user:secret@reg"}}, "credentials inside its url"),
        ({"host": "reg", "extra": {"basic.auth.user.info": "user:secret"}}, "credentials"),
        ({"host": "reg", "extra": {"proxy": "http://user:secret@proxy"}}, "credentials"),
        ({"host": "reg", "extra": {"proxy": ["a"]}}, "proxy of its extra"),
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(of: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceSettingError, match=said) as refused:
        settings_of(**of)
    assert "secret" not in str(refused.value)


def test_secrets_reach_the_client_and_nothing_else() -> None:
    found = settings_of(
        host="reg", login="u", password=SecretStr("p4ss"), extra={"ssl.key.password": "k3y9", "proxy": "http://p"}
    )
    assert "p4ss" not in repr(found)
    assert "k3y9" not in repr(found)
    settings = pickle.loads(pickle.dumps(found)).client_settings()
    assert (settings["basic.auth.user.info"], settings["ssl.key.password"]) == ("u:p4ss", "k3y9")
    assert found.redacted("with p4ss and k3y9") == "with *** and ***"


def test_a_setting_that_the_client_does_not_know_is_named() -> None:
    with pytest.raises(SourceSettingError, match=r"refuses the settings.*nonsense"):
        registered(settings_of(host="reg", extra={"nonsense": "1"}), 1)


def test_a_registry_that_is_away_may_be_there_later() -> None:
    away = settings_of(host="127.0.0.1", port=9, extra={"max.retries": 0})
    with pytest.raises(RegistryUnavailableError, match=r"reg \(http://127.0.0.1:9\)") as error:
        registered(away, 1)
    assert error.value.retryable
