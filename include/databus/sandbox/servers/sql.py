"""MySQL's and MariaDB's common base: option files, a private run folder, health through the client protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.accounts import ROOT, SQL_ACCOUNTS, account_statements
from databus.sandbox.os_user import clear_foreign_data, own, reachable_folder, server_user
from databus.sandbox.process import Command
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults

SQL_CREDENTIALS = tuple(account.user for account in SQL_ACCOUNTS)
_SOCKET_PATH_BYTES = 107


def render_options(options: Mapping[str, object]) -> str:
    """An option file with one `[mysqld]` section; a value of None is an option without a value."""
    lines = [name if value is None else f"{name}={value}" for name, value in options.items()]
    return "\n".join(["[mysqld]", *lines, ""])


@dataclass(frozen=True)
class SqlServer(ServerDefaults):
    """Base of the two: everything the server writes lies below its data folder's parent, owned by the server's user."""

    def data_folder(self, folder: Path) -> Path:
        """`data` below its own folder, or a system folder when the server's user cannot reach that one."""
        return reachable_folder(folder, server_user()) / "data"

    def run_folder(self, context: Context) -> Path:
        """Socket, pid file, error log and temporary files."""
        return context.data.parent / "run"

    def option_file(self, context: Context) -> Path:
        """my.cnf of this server."""
        return context.data.parent / "my.cnf"

    def shared_options(self, context: Context) -> dict[str, object]:
        """Options of both: paths, binlog with everything a reader needs, durability traded for speed."""
        run = self.run_folder(context)
        return {
            "datadir": context.data,
            "socket": self.socket_name(context),
            "pid-file": run / "server.pid",
            "tmpdir": run,
            "user": server_user().pw_name,
            "bind-address": context.host,
            "port": context.ports["sql"],
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "binlog_row_metadata": "FULL",
            "binlog_checksum": "CRC32",
            "max_binlog_size": "256M",
            "sync_binlog": 0,
            "innodb_flush_log_at_trx_commit": 2,
            "character-set-server": "utf8mb4",
            "default-time-zone": "+00:00",
            "max_allowed_packet": "64M",
            "skip-name-resolve": None,
            "performance_schema": "OFF",
        }

    def socket_name(self, context: Context) -> Path:
        """The unix socket; its path is limited to 107 bytes (unix(7)), so a deep home gets a short one elsewhere."""
        path = self.run_folder(context) / "server.sock"
        if len(str(path).encode()) <= _SOCKET_PATH_BYTES:
            return path
        return Path("/tmp") / f"databus-{context.ports['sql']}.sock"  # noqa: S108  (named by port: one owner at a time)

    def make_folders(self, context: Context) -> None:
        """Make the folders that the server writes to, its user's own."""
        user = server_user()
        clear_foreign_data(context.folder, context.data.parent)
        own(context.data.parent, user)
        own(self.run_folder(context), user)
        # Left by a kill: a new server refuses to start while the pid in the lock answers, be it a zombie or another's.
        socket = self.socket_name(context)
        for stale in (socket, socket.with_name(f"{socket.name}.lock")):
            stale.unlink(missing_ok=True)

    def write_account_sql(self, path: Path) -> Path:
        """The statements that make the accounts, one per line as an init file wants them."""
        path.write_text("".join(f"{statement};\n" for statement in account_statements()), encoding="utf-8")
        return path

    def daemon(self, context: Context, program: Path) -> tuple[Command, ...]:
        """The one process."""
        argv = (str(program), f"--defaults-file={self.option_file(context)}")
        return (Command("server", argv, self.run_folder(context), context.logs / "server.log"),)

    def check_health(self, context: Context) -> None:
        """`SELECT 1` over TCP as root."""
        import pymysql

        try:
            connection = pymysql.connect(
                host=context.host,
                port=context.ports["sql"],
                user=ROOT.user,
                password=ROOT.password.get_secret_value(),
                connect_timeout=3,
                read_timeout=5,
            )
        except (pymysql.MySQLError, OSError) as error:
            raise NotHealthyError(str(error)) from None
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            if cursor.fetchone() != (1,):
                raise NotHealthyError("SELECT 1 has another answer")
