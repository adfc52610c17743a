"""Bringing a database to the tables of this code: made new, migrated, adopted, or refused when it is newer.

The caller holds the lock under which only one process does so, and the transaction in which all of it happens: SQLite
and PostgreSQL both roll the definition of tables back.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from databus.core.errors.batch import RecordingError
from databus.records.database import SCHEMA_VERSION, VERSION_TABLE, revision
from databus.records.tables import schema_version

if TYPE_CHECKING:
    from alembic.config import Config

log = logging.getLogger(__name__)

_FIRST = "0001"
_one_at_a_time = threading.Lock()  # Alembic's `op` and `context` are one per process


def migrate(connection: sa.Connection, place: str) -> bool:
    """Bring the database to the newest revision; nothing is changed when it stands there, or when it is refused.

    A database of databus 0.1, made before there were migrations, is adopted as the first revision.

    Args:
        connection: in a transaction, under the lock.
        place: names the database in errors, without its password.

    Returns:
        Whether anything was changed.

    Raises:
        RecordingError: the database is newer than this code (`recording_schema_version`).
    """
    current, newest, version = _revisions(connection, place)
    if current == newest:
        return False
    from alembic import command

    config = _config(connection)
    with _one_at_a_time:
        if current is None and version is not None:
            command.stamp(config, _FIRST)
        command.upgrade(config, "head")
    log.info("%s: tables brought from revision %s to %s", place, current or "none", newest)
    return True


def is_newest(connection: sa.Connection, place: str) -> bool:
    """Return whether there is nothing to migrate; only reads, and needs no lock. Raises as `migrate`."""
    # Alembic takes longer to load than most commands to answer.
    found = _revision(connection), _version(connection)
    if found in {(revision(SCHEMA_VERSION), SCHEMA_VERSION), (None, None)}:
        return found != (None, None)
    current, newest, _ = _revisions(connection, place)
    return current == newest


def _revision(connection: sa.Connection) -> str | None:
    """Return the one revision that Alembic's table names."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found = sa.select(sa.column("version_num", sa.String)).select_from(sa.table(VERSION_TABLE))
    names: list[str] = list(connection.execute(found).scalars())
    return names[0] if len(names) == 1 else None


def _revisions(connection: sa.Connection, place: str) -> tuple[str | None, str | None, int | None]:
    """Return the database's revision, the newest one, and the version that `databus_schema` says."""
    logger = logging.getLogger("alembic")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)  # it logs at INFO which plugins it has, at every start
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config(connection))
    newest = scripts.get_current_head()
    known = {script.revision for script in scripts.walk_revisions()}
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    version = _version(connection)
    if current not in {None, *known} or (version or 0) > SCHEMA_VERSION:
        raise RecordingError(
            f"{place} has tables of version {version} (revision {current}), this code knows version {SCHEMA_VERSION} "
            f"(revision {newest})",
            hint="A newer databus has migrated it. Run that version everywhere, or give this one its own database.",
            code="recording_schema_version",
        )
    return current, newest, version


def _config(connection: sa.Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _version(connection: sa.Connection) -> int | None:
    """Return what `databus_schema` says, None for a database without our tables."""
    if not sa.inspect(connection).has_table(schema_version.name):
        return None
    found: int | None = connection.execute(sa.select(sa.func.max(schema_version.c.version))).scalar_one()
    return found
