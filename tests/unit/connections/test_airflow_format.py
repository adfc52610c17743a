from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.connections.airflow_format import from_fields, parse_connection, to_json
from databus.core.connections import Connection
from databus.core.errors import ConfigError


class TestJsonForm:
    def test_all_fields(self) -> None:
        text = json.dumps(
            {
                "conn_type": "mysql",
                "description": "the shop",
                "host": "db",
                "port": 3306,
                "login": "u",
                "password": "p w",
                "schema": "shop",
                "extra": {"charset": "utf8mb4"},
            }
        )
        assert parse_connection("mysql_shop", text) == Connection(
            conn_id="mysql_shop",
            conn_type="mysql",
            host="db",
            port=3306,
            login="u",
            password="p w",
            db_schema="shop",
            extra={"charset": "utf8mb4"},
        )

    @pytest.mark.parametrize("extra", ['{"a": 1}', {"a": 1}])
    def test_extra_may_be_json_in_text(self, extra: Any) -> None:
        assert from_fields("c", {"conn_type": "kafka", "extra": extra}).extra == {"a": 1}

    def test_nulls_and_text_ports_of_an_export(self) -> None:
        fields = {"conn_type": "kafka", "host": None, "port": "9092", "login": None, "extra": None, "password": ""}
        assert from_fields("c", fields) == Connection(conn_id="c", conn_type="kafka", port=9092)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('{"conn_type": "mysql", "password": "hunter2"', "JSON"),
            ('{"conn_type": "mysql", "hst": "db", "password": "hunter2"}', "'hst'"),
            ('{"conn_type": "mysql", "port": "hunter2"}', "port"),
            ('{"conn_type": "mysql", "password": {"x": "hunter2"}}', "password"),
            ('{"conn_type": "mysql", "extra": "hunter2"}', "extra"),
            ('{"conn_type": "mysql", "extra": ["hunter2"]}', "extra"),
            ("hunter2", "neither JSON nor a URI"),
            ("mysql://u:hunter2@db:port/shop", "malformed"),
            ("mysql://u:hun/ter2:x@[db/shop", "malformed"),
        ],
    )
    def test_what_cannot_be_read_is_named_without_secrets(self, text: str, problem: str) -> None:
        with pytest.raises(ConfigError, match=problem) as caught:
            parse_connection("mysql_shop", text)
        assert "mysql_shop" in caught.value.message
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


class TestUriForm:
    @pytest.mark.parametrize(
        ("uri", "expected"),
        [
            (
                "mysql://us%40er:p%2Fw%3A%20@db.example:3307/shop?charset=utf8mb4&timeout=5&flag=true",
                {
                    "conn_type": "mysql",
                    "login": "us@er",
                    "password": "p/w: ",
                    "host": "db.example",
                    "port": 3307,
                    "db_schema": "shop",
                    "extra": {"charset": "utf8mb4", "timeout": "5", "flag": "true"},
                },
            ),
            (
                "spark-connect://http://spark:15002",
                {"conn_type": "spark_connect", "host": "http://spark", "port": 15002},
            ),
            ("postgresql://db", {"conn_type": "postgres", "host": "db"}),
            ("zookeeper://@:2181", {"conn_type": "zookeeper", "port": 2181}),
            (
                "kafka://?__extra__=" + quote('{"bootstrap.servers": "a:1,b:2"}'),
                {"conn_type": "kafka", "extra": {"bootstrap.servers": "a:1,b:2"}},
            ),
            (
                "http://host/?callback=http%3A%2F%2Fx",
                {"conn_type": "http", "host": "host", "extra": {"callback": "http://x"}},
            ),
            (
                "mysql://%2Fvar%2Frun%2FMysql.sock/shop",
                {"conn_type": "mysql", "host": "/var/run/Mysql.sock", "db_schema": "shop"},
            ),
            ("mysql://u:@[::1]:3306/", {"conn_type": "mysql", "login": "u", "host": "::1", "port": 3306}),
        ],
    )
    def test_forms_of_the_documentation(self, uri: str, expected: dict[str, Any]) -> None:
        assert parse_connection("c", uri) == Connection(conn_id="c", **expected)


words = st.text(max_size=12)


@given(
    st.builds(
        Connection,
        conn_id=st.just("c"),
        conn_type=st.sampled_from(["mysql", "spark_connect"]),
        host=words,
        port=st.none() | st.integers(1, 65535),
        login=words,
        password=words,
        db_schema=words,
        extra=st.dictionaries(words, words | st.integers() | st.booleans(), max_size=3),
    )
)
def test_the_json_form_is_read_back(connection: Connection) -> None:
    again = parse_connection("c", to_json(connection))
    assert again == connection
    assert again.password.get_secret_value() == connection.password.get_secret_value()


def test_uris_are_read_as_airflow_reads_them() -> None:
    """The oracle is Airflow's own class."""
    from airflow.sdk import Connection as AirflowConnection

    for uri in (
        "mysql://us%40er:p%2Fw%3A@db.example:3307/sh%2Fop?charset=utf8mb4",
        "mysql://db",
        "kafka://",
        "http://https://es.example:9200/path?verify=false&n=5",
        "spark-connect://spark:15002/?x=",
        "mysql://u@%2Fvar%2Frun%2FMysql.sock",
    ):
        theirs = AirflowConnection.from_uri(uri, conn_id="c")
        ours = parse_connection("c", uri)
        assert ours.model_dump(exclude={"password", "extra"}) == {
            "conn_id": "c",
            "conn_type": theirs.conn_type,
            "host": theirs.host or "",
            "port": theirs.port,
            "login": theirs.login or "",
            "db_schema": theirs.schema or "",
        }, uri
        assert ours.password.get_secret_value() == (theirs.password or "")
        assert dict(ours.extra) == (json.loads(theirs.extra) if theirs.extra else {})
