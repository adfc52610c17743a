"""Installer of each kind of server."""

from __future__ import annotations

from databus.sources.sequence_table.install.mysql import MysqlInstaller
from databus.sources.sequence_table.install.postgres import PostgresInstaller
from databus.sources.sequence_table.install.target import Installer


def installer_of(dialect: str) -> Installer | None:
    """Return the installer for SQLAlchemy's name of a kind of server, None where there is none."""
    installers: dict[str, Installer] = {"postgresql": PostgresInstaller(), "mysql": MysqlInstaller()}
    return installers.get(dialect)
