from __future__ import annotations

import json
from pathlib import Path

import pytest

from databus.connections.environment import ChainedConnections, EnvironmentConnections, environment_of
from databus.connections.file import FileConnections
from databus.core.errors import ConfigError, ConnectionMissingError


class TestEnvironment:
    def test_both_forms(self) -> None:
        source = EnvironmentConnections(
            {"AIRFLOW_CONN_MYSQL_SHOP": '{"conn_type": "mysql", "host": "db"}', "AIRFLOW_CONN_ZK": "zookeeper://z:2181"}
        )
        assert source.get("mysql_shop").host == "db"
        assert (source.get("zk").conn_id, source.get("zk").port) == ("zk", 2181)

    def test_a_missing_one_names_its_variable_and_the_known(self) -> None:
        source = EnvironmentConnections({"AIRFLOW_CONN_B": "x://", "AIRFLOW_CONN_A": "x://", "AIRFLOW_CONN_EMPTY": ""})
        for conn_id in ("mysql_shop", "empty"):
            with pytest.raises(ConnectionMissingError) as caught:
                source.get(conn_id)
            assert caught.value.code == "connection_missing"
            assert caught.value.hint == f"Set AIRFLOW_CONN_{conn_id.upper()} to JSON or a URI. Known: a, b."

    def test_the_process_environment_is_looked_at_when_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        source = EnvironmentConnections()
        monkeypatch.setenv("AIRFLOW_CONN_LATE", "mysql://db")
        assert source.get("late").host == "db"

    def test_handed_to_another_process(self) -> None:
        text = '{"conn_type": "mysql", "host": "db", "port": 1, "login": "u", "password": "s", "extra": {"a": [1]}}'
        one = EnvironmentConnections({"AIRFLOW_CONN_ONE": text}).get("one")
        handed = environment_of([one])
        assert list(handed) == ["AIRFLOW_CONN_ONE"]
        assert EnvironmentConnections(handed).get("one") == one


EXPORTED = {
    "mysql_shop": {
        "conn_type": "mysql",
        "description": "",
        "login": "u",
        "password": "s3cret",
        "host": "db",
        "port": 3306,
        "schema": "shop",
        "extra": '{"charset": "utf8mb4"}',
    },
    "zk": "zookeeper://z:2181",
}


class TestFile:
    def test_json_as_airflow_exports_it(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.json"
        path.write_text(json.dumps(EXPORTED))
        source = FileConnections(path)
        assert source.get("mysql_shop").extra == {"charset": "utf8mb4"}
        assert source.get("zk").port == 2181
        assert source.known() == ("mysql_shop", "zk")

    def test_yaml(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text("kafka_east:\n  conn_type: kafka\n  extra:\n    bootstrap.servers: a:9092\n")
        assert FileConnections(path).get("kafka_east").extra == {"bootstrap.servers": "a:9092"}

    def test_a_missing_one_names_the_file_and_the_known(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text("a: x://\n")
        with pytest.raises(ConnectionMissingError, match=r"connections\.yaml") as caught:
            FileConnections(path).get("b")
        assert "Known: a." in caught.value.hint
        path.write_text("")
        with pytest.raises(ConnectionMissingError):
            FileConnections(path).get("b")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ('a: "s3cret\nb: c: d', "line"),
            ("- s3cret\n", "must hold"),
            ("a: [s3cret]\n", "'a' must hold"),
            ("a:\n  pasword: s3cret\n", "'pasword'"),
        ],
    )
    def test_a_bad_file_is_named_without_its_content(self, tmp_path: Path, content: str, problem: str) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text(content)
        with pytest.raises(ConfigError, match=problem) as caught:
            FileConnections(path).get("a")
        assert "s3cret" not in str(caught.value)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="No such file") as caught:
            FileConnections(tmp_path / "none.yaml").get("a")
        assert "DATABUS_CONNECTIONS" in caught.value.hint


class TestChain:
    def test_the_first_that_knows_wins(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text("both: mysql://from-file\nonly_file: mysql://file\n")
        environ = {"AIRFLOW_CONN_BOTH": "mysql://from-environment", "DATABUS_CONNECTIONS": str(path)}
        chain = ChainedConnections.from_environment(environ)
        assert chain.get("both").host == "from-environment"
        assert chain.get("only_file").host == "file"

    def test_nobody_knows(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text("a: mysql://db\n")
        with pytest.raises(ConnectionMissingError) as caught:
            ChainedConnections.from_environment({"DATABUS_CONNECTIONS": str(path)}).get("b")
        assert "AIRFLOW_CONN_B" in caught.value.hint
        assert "Known: a." in caught.value.hint
        with pytest.raises(ConnectionMissingError, match="no source") as caught:
            ChainedConnections([]).get("b")
        assert caught.value.hint

    def test_a_bad_entry_is_not_passed_over(self, tmp_path: Path) -> None:
        path = tmp_path / "connections.yaml"
        path.write_text("a: mysql://db\n")
        chain = ChainedConnections.from_environment({"AIRFLOW_CONN_A": "{", "DATABUS_CONNECTIONS": str(path)})
        with pytest.raises(ConfigError):
            chain.get("a")
