"""A second API server on the same Airflow, where people log in and have roles; the sandbox's takes all for admins."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from databus.sandbox import Sandbox
from databus.sandbox.ports import LOOPBACK, free_ports
from databus.sandbox.progress import log_progress
from databus.sandbox.servers.airflow import AIRFLOW
from tests.ports import ports_from


@dataclass(frozen=True)
class LoginServer:
    """The server and its users.

    Attributes:
        root: its address.
        passwords: user → password.
    """

    root: str
    passwords: Mapping[str, str]

    def token(self, user: str) -> str:
        """Log in, and return what shows it."""
        login = {"username": user, "password": self.passwords[user]}
        answer = httpx.post(f"{self.root}/auth/token", json=login, timeout=120).raise_for_status()
        return str(answer.json()["access_token"])

    def ask(self, method: str, path: str, token: str | None = None) -> httpx.Response:
        """Send a request, with or without a token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.request(method, f"{self.root}{path}", headers=headers, timeout=120)


@contextmanager
def login_server(sandbox: Sandbox, manager: str, roles: Mapping[str, str], folder: Path) -> Iterator[LoginServer]:
    """Start it, and end it.

    Args:
        sandbox: where Airflow runs.
        manager: class of its auth manager, one of Airflow's simple kind.
        roles: user → role, "" for none.
        folder: for its passwords and its log.
    """
    context = sandbox._context(AIRFLOW, sandbox._stored("airflow"), log_progress)
    port = free_ports({"api": 0}, ports_from(26_400), ())["api"]
    passwords = {user: secrets.token_hex(8) for user in roles}
    (folder / "passwords.json").write_text(json.dumps(passwords))
    settings = {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{port}",
        "AIRFLOW__CORE__AUTH_MANAGER": manager,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in roles.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
    }
    with (folder / "api-server.log").open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, "-m", "airflow", "api-server", "--host", LOOPBACK, "--port", str(port), "--apps", "core"),
            cwd=folder, stdout=log, stderr=log, env={**os.environ, **AIRFLOW.environment(context), **settings},
        )  # fmt: skip
        try:
            _wait(f"http://{LOOPBACK}:{port}", process, folder / "api-server.log")
            yield LoginServer(f"http://{LOOPBACK}:{port}", passwords)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(root: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while True:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{root}/api/v2/version", timeout=20).is_success:
                return
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.5)
