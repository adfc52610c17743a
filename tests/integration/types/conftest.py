"""Sessions on the MySQL and the MariaDB for all tests of column types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databus.sandbox import Sandbox
from tests.integration.test_decode_real import Server

DATABASE = "cells"


@pytest.fixture(scope="session")
def type_servers(databases: Sandbox) -> Sandbox:
    return databases


@pytest.fixture(params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest, type_servers: Sandbox) -> Iterator[Server]:
    server = Server(request.param, type_servers.address(request.param))
    server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
    server.run("SET SESSION max_error_count=0")  # what is truncated is no news
    yield server
    server.connection.close()
