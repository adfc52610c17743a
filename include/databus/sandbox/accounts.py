"""Accounts of the database servers in a sandbox.

They are known on purpose, like those of any demonstration: the servers listen on the loopback address only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True)
class Account:
    """A login of a server.

    Attributes:
        user: login name.
        password: kept out of repr and logs.
        purpose: what it may do, for a person.
    """

    user: str
    password: SecretStr
    purpose: str

    def login(self) -> str:
        """Return user and password for the person whose sandbox it is."""
        return f"user {self.user}, password {self.password.get_secret_value() or '(none)'}"


ROOT = Account("root", SecretStr(""), "everything, without a password")
REPLICATION = Account("databus", SecretStr("sandbox-reader"), "reads the binlog and selects")
APPLICATION = Account("shop", SecretStr("shop"), "everything on the database shop")
RECORDS = Account("databus", SecretStr("sandbox-records"), "owns the PostgreSQL database of the records store")
RECORDS_DATABASE = "databus"
SQL_ACCOUNTS = (ROOT, REPLICATION, APPLICATION)
SHOP_DATABASE = "shop"


def logins(server: str) -> tuple[Account, ...]:
    """Return the accounts of a server of the catalog; none where nobody needs one, or where they are made at random."""
    return {"mysql": SQL_ACCOUNTS, "mariadb": SQL_ACCOUNTS, "postgres": (RECORDS,)}.get(server, ())


def account_statements() -> tuple[str, ...]:
    """SQL that makes the accounts and the database, for MySQL 8.0 and MariaDB; may run again; stays out of the binlog.

    `skip_name_resolve` is on, so that a TCP login matches an address and never `localhost`: each account is made
    for `%`, and root beside it for the loopback address.
    """
    statements = ["SET SESSION sql_log_bin = 0"]
    for account in (REPLICATION, APPLICATION):
        secret = account.password.get_secret_value()
        statements.append(f"CREATE USER IF NOT EXISTS '{account.user}'@'%' IDENTIFIED BY '{secret}'")
    statements += [
        "CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY ''",
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO '{REPLICATION.user}'@'%'",
        f"CREATE DATABASE IF NOT EXISTS {SHOP_DATABASE} CHARACTER SET utf8mb4",
        f"GRANT ALL PRIVILEGES ON {SHOP_DATABASE}.* TO '{APPLICATION.user}'@'%'",
    ]
    return tuple(statements)
