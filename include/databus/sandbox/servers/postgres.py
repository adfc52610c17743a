"""PostgreSQL for the records store, from the distribution's package, with a data folder of its own."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.accounts import RECORDS, RECORDS_DATABASE
from databus.sandbox.os_user import clear_foreign_data, own, reachable_folder, server_user
from databus.sandbox.process import Command
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults

logger = logging.getLogger(__name__)

_SOCKET_PATH_BYTES = 107


@dataclass(frozen=True)
class Postgres(ServerDefaults):
    """`postgres` with one role and one database; listens on the loopback address."""

    def data_folder(self, folder: Path) -> Path:
        """`data` below its own folder, or a system folder when the server's user cannot reach that one."""
        return reachable_folder(folder, server_user()) / "data"

    def install(self, context: Context) -> Path:
        """The folder of the programs, which the package manager installs."""
        program = packages.require(packages.POSTGRES)
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        wanted = context.versions["POSTGRES_VERSION"]
        if f" {wanted}." not in shown:
            logger.warning("PostgreSQL %s is expected, this machine has: %s", wanted, shown)
        return program.parent

    def prepare(self, context: Context) -> None:
        """Make the data folder with role and database the first time, whole or not at all."""
        user = server_user()
        clear_foreign_data(context.folder, context.data.parent)
        own(context.data.parent, user)
        if (context.data / "PG_VERSION").exists():
            (context.data / "postmaster.pid").unlink(missing_ok=True)  # left by a kill
            return
        building = context.data.with_name("data.new")
        shutil.rmtree(building, ignore_errors=True)
        shutil.rmtree(context.data, ignore_errors=True)
        own(building, user)
        secret = context.data.with_name("password")
        secret.write_text(RECORDS.password.get_secret_value(), encoding="utf-8")
        init = ["initdb", "-D", str(building), "-U", RECORDS.user, "-A", "scram-sha-256", f"--pwfile={secret}"]
        self._run(context, [*init, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
        secret.unlink()
        single = ["postgres", "--single", "-D", str(building), "-j", "postgres"]
        self._run(context, single, f"CREATE DATABASE {RECORDS_DATABASE}\n")
        building.rename(context.data)

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of the process that starts the others."""
        options = {
            "fsync": "off",
            "max_connections": "200",
            "unix_socket_directories": self._socket_folder(context),
        }
        argv = [str(context.installation / "postgres"), "-D", str(context.data), "-h", context.host]
        argv += ["-p", str(context.ports["sql"]), *(f"--{name}={value}" for name, value in options.items())]
        return (Command("server", self._as_user(argv), context.data.parent, context.logs / "server.log"),)

    def check_health(self, context: Context) -> None:
        """`SELECT 1` over TCP as the records' role."""
        import psycopg

        try:
            with psycopg.connect(
                host=context.host,
                port=context.ports["sql"],
                user=RECORDS.user,
                password=RECORDS.password.get_secret_value(),
                dbname=RECORDS_DATABASE,
                connect_timeout=3,
            ) as connection:
                found = connection.execute("SELECT 1").fetchone()
        except psycopg.Error as error:
            raise NotHealthyError(str(error)) from None
        if found != (1,):
            raise NotHealthyError("SELECT 1 has another answer")

    def _socket_folder(self, context: Context) -> str:
        """Return the unix socket's folder; its path is limited to 107 bytes (unix(7)). Empty: clients use TCP."""
        folder = str(context.data.parent)
        return folder if len(f"{folder}/.s.PGSQL.{context.ports['sql']}.lock".encode()) <= _SOCKET_PATH_BYTES else ""

    def _run(self, context: Context, command: Sequence[str], text: str = "") -> None:
        argv = self._as_user([str(context.installation / command[0]), *command[1:]])
        done = subprocess.run(argv, cwd=context.data.parent, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "ERROR:" in done.stderr:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
            raise SandboxError(f"{context.name}: making the data folder {context.data} failed:\n{tail}")

    @staticmethod
    def _as_user(argv: Sequence[str]) -> tuple[str, ...]:
        """The command as the server's user: PostgreSQL refuses root, and cannot give it up by itself as mysqld does."""
        if os.geteuid() != 0:
            return tuple(argv)
        user = server_user()
        return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--", *argv)


# SIGTERM lets clients finish: after this long theirs is sent to each backend too.
POSTGRES = Postgres("postgres", {"sql": 15432}, credentials=(RECORDS.user,), stops_within_s=3.0)
