"""One MySQL and one MariaDB for all tests of column types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databus.sandbox import Sandbox
from tests.integration.test_decode_real import Server

DATABASE = "cells"


@pytest.fixture(scope="session")
def type_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("types"), ports_from=23_000)
    try:
        sandbox.up(["mysql", "mariadb"])
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.fixture(params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest, type_servers: Sandbox) -> Iterator[Server]:
    server = Server(request.param, type_servers.address(request.param))
    server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
    server.run("SET SESSION max_error_count=0")  # what is truncated is no news
    yield server
    server.connection.close()
