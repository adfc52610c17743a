"""MariaDB, from the distribution's package, with a data folder of its own and never as the system's service."""

from __future__ import annotations

import logging
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.os_user import own, server_user
from databus.sandbox.process import Command
from databus.sandbox.servers.protocol import Context
from databus.sandbox.servers.sql import SQL_CREDENTIALS, SqlServer, render_options

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MariaDb(SqlServer):
    """`mariadbd` with a strict GTID sequence and full row metadata."""

    def install(self, context: Context) -> Path:
        """The folder of the program, which the package manager installs."""
        program = packages.require(packages.MARIADBD)
        packages.require(packages.MARIADB_INSTALL_DB)
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if f"Ver {context.versions['MARIADB_VERSION']}." not in shown:
            logger.warning("MariaDB %s is expected, this machine has: %s", context.versions["MARIADB_VERSION"], shown)
        return program.parent

    def prepare(self, context: Context) -> None:
        """Write my.cnf; make the data folder the first time, whole or not at all."""
        self.make_folders(context)
        accounts = self.write_account_sql(context.data.parent / "accounts.sql")
        options = self._options(context) | {"init-file": accounts}
        self.option_file(context).write_text(render_options(options), encoding="utf-8")
        if (context.data / "mysql").exists():
            return
        user = server_user()
        building = context.data.with_name("data.new")
        shutil.rmtree(building, ignore_errors=True)
        own(building, user)
        argv = [str(packages.require(packages.MARIADB_INSTALL_DB)), "--no-defaults", f"--datadir={building}"]
        argv += [f"--user={user.pw_name}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(argv, cwd=self.run_folder(context), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
            raise SandboxError(f"{context.name}: making the data folder {context.data} failed:\n{tail}")
        shutil.rmtree(context.data, ignore_errors=True)
        building.rename(context.data)

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        return self.daemon(context, context.installation / "mariadbd")

    def _options(self, context: Context) -> dict[str, object]:
        return self.shared_options(context) | {
            "server-id": 1001,
            "gtid-domain-id": 0,
            "gtid-strict-mode": "ON",
            "log-bin": "mysql-bin",
            "log-slave-updates": "ON",
            "binlog_annotate_row_events": "OFF",
            "expire_logs_days": 0,
            "innodb_buffer_pool_size": "256M",
            "innodb_log_file_size": "256M",
            "innodb_doublewrite": 0,
            "collation-server": "utf8mb4_general_ci",
            # Drops plugins that the system's option files would load.
            "loose-plugin-load-add": "",
            **context.options.sql_options.get(context.name, {}),
        }


MARIADB = MariaDb("mariadb", {"sql": 13307}, credentials=SQL_CREDENTIALS, stops_within_s=30.0)
