"""Installation of outboxes and of trigger logs: tables, functions and triggers, as SQL that can be shown first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databus.sources.sequence_table.install.target import Installer


def installer_of(dialect: str) -> Installer | None:
    """Return the installer for SQLAlchemy's name of a kind of server, None where there is none."""
    from databus.sources.sequence_table.install.mysql import MysqlInstaller
    from databus.sources.sequence_table.install.postgres import PostgresInstaller

    installers: dict[str, Installer] = {"postgresql": PostgresInstaller(), "mysql": MysqlInstaller()}
    return installers.get(dialect)
