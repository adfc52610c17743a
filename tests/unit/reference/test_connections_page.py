"""Page of connections: examples are read as databus reads them, and each extra is one that the code asks for."""

from __future__ import annotations

import json
import re

import pytest

from databus.binlog.server.wire import client_options
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.connections.airflow_format import parse_connection
from databus.core.connections import Connection
from databus.kafka.client_settings import servers_of
from databus.schema_registry.settings import RegistrySettings
from databus.sinks.elasticsearch.client import addresses
from tests.reference.connections_page import types
from tests.reference.raised import PACKAGE

CODE = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if "conn_ids(self)" in path.read_text())
ASKED = {kind for kinds in re.findall(r'conn_id, "([a-z_|]+)"\)', CODE) for kind in kinds.split("|")}
"""Types that specs ask for (`conn_ids`), beside those of ZooKeeper, Spark, and of `SequenceTable`, which takes any."""


def of(name: str) -> Connection:
    return parse_connection("made_up", types()[name]["example"])


@pytest.mark.parametrize("name", types())
def test_an_example_is_read(name: str) -> None:
    made = of(name)
    assert made.conn_type in ASKED | {"zookeeper", "spark_connect", "postgres"}
    if uri := types()[name].get("uri"):
        again = parse_connection("made_up", uri)
        assert (again.conn_type, again.port) == (made.conn_type, made.port or again.port)
        assert again.host


@pytest.mark.parametrize("name", [name for name, facts in types().items() if "read_in" in facts])
def test_an_extra_is_one_that_the_code_reads(name: str) -> None:
    code = (PACKAGE / types()[name]["read_in"]).read_text()
    for extra, _ in types()[name]["extras"]:
        short = extra.removeprefix("ssl_")  # MySQL's stand without it
        assert f'"{extra}"' in code or f'"{short}"' in code or f"    {extra}: " in code, extra


def test_the_clients_take_the_examples() -> None:
    assert ZooKeeperOptions.from_connection(of("zookeeper")).hosts == "z1:2181,z2:2181,z3:2181"
    assert addresses(of("opensearch")) == [{"host": "search.example.com", "port": 9200, "use_ssl": True}]
    assert "k1:9093" in str(servers_of(of("kafka").extra))
    assert RegistrySettings.of(of("http"), 1.0).url == "https://registry.example.com:8081/apis/ccompat/v7"
    no_tls = of("mysql").model_copy(update={"extra": {}})  # its file is not here
    assert client_options(no_tls) == {"host": "db.example.com", "port": 3306, "ssl_disabled": True}


def test_every_type_that_a_spec_asks_for_is_described() -> None:
    assert {"mysql", "kafka", "opensearch", "smtp", "slackwebhook"} <= ASKED
    text = "".join(json.dumps(facts) for facts in types().values())
    assert [kind for kind in ASKED if kind not in text] == []
