"""Classify a logged statement: TRUNCATE, definition, transaction control, rows; tolerant, no grammar.

Row-based logs hold a statement only where it changes definitions or controls a transaction; one that changes rows is
distinguished, because what it does is in no row event.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from databus.binlog.log.query_status import is_temporary
from databus.binlog.log.statements.identifiers import as_compared
from databus.binlog.log.statements.table_queries import may_call, query_at
from databus.binlog.log.statements.tokens import StatementToken, qualified, tokens_of, without_settings
from databus.binlog.values.charsets import charset_of


class StatementKind(enum.Enum):
    """Statement kinds, by their meaning to a reader of the log."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    ROLLBACK_TO = "rollback to a savepoint"
    SAVEPOINT = "savepoint"
    XA = "xa"
    TRUNCATE = "truncate"
    DEFINITION = "definition"
    ROWS = "rows"
    NOTHING = "nothing"


@dataclass(frozen=True)
class ObjectName:
    """A table, or a database, as a statement names it.

    Attributes:
        database: "" for the session's default database.
        table: "" for the database itself.
    """

    database: str
    table: str


@dataclass(frozen=True)
class Statement:
    """A classified statement.

    Attributes:
        kind: what it does.
        database: database it names for its table, "" when it names none.
        table: table it names, "" where there is none or several.
        rows_follow: whether its transaction goes on with rows, as that of MySQL's CREATE TABLE … SELECT does.
        objects: all tables and databases that a definition statement or TRUNCATE changes.
        empties: whether all rows of its tables are gone after it: TRUNCATE, DROP TABLE, CREATE OR REPLACE TABLE; never
            of temporary tables.
        unlogged: whether it takes rows of its tables away, or brings some, that no row event shows: DROP, TRUNCATE,
            EXCHANGE and CONVERT PARTITION, DISCARD and IMPORT TABLESPACE, MariaDB's ALTER IGNORE with a unique key.
        moves: whether its tables, or all of its database, may come or go by it: CREATE, DROP, RENAME; never of
            temporary tables.
        fills: whether it makes a lasting table of a query, whose rows are in no row event: a log by row has
            that table's columns in the query's place. Or a temporary one, of a query that may call a stored function.
        temporary: whether it makes a temporary table.
    """

    kind: StatementKind
    database: str = ""
    table: str = ""
    rows_follow: bool = False
    objects: tuple[ObjectName, ...] = ()
    empties: bool = False
    unlogged: bool = False
    moves: bool = False
    fills: bool = False
    temporary: bool = False


_ROWS = {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO", "MERGE", "SELECT", "VALUES"}
_FILLER = {"TEMPORARY", "IF", "NOT", "EXISTS", "OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "NOWAIT"}
_MANY_TABLES = {"RENAME", "DROP"}
_NAMES_BEHIND = {*_MANY_TABLES, "ALTER"}
"""Statements that may name tables anywhere."""
_TABLE_BEFORE = 5
"""Words of CREATE TABLE up to TABLE at most: CREATE OR REPLACE TEMPORARY TABLE."""
_UNLOGGED = {
    *((verb, "PARTITION") for verb in ("DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT")),
    *((verb, "TABLESPACE") for verb in ("DISCARD", "IMPORT")),
    ("CONVERT", "TABLE"),
}
"""First words of what ALTER TABLE does to rows without logging them."""
_BEFORE_OTHER_KEYS = ("ADD", "DROP", "FOREIGN")
"""Words before KEY where that makes no unique one."""
_DATABASE_OPTIONS = {"CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ", "COMMENT"}
"""Words that follow ALTER DATABASE where it names none."""


def classify(sql: str, sql_mode: int = 0, *, inside: bool = False) -> Statement:
    """Return what a statement does; an unknown one counts as a definition.

    Args:
        sql: its text.
        sql_mode: the session's, as bits.
        inside: whether it stands in a transaction that goes on behind it.
    """
    sql = without_settings(sql, sql_mode)
    tokens = tokens_of(sql, 200, sql_mode)
    if not tokens:
        return Statement(StatementKind.NOTHING)
    words = [t.word for t in tokens]
    control = _control(words)
    if control is not None:
        return Statement(control)
    first = words[0]
    if first == "TRUNCATE":
        database, table, _ = qualified(tokens, 2 if words[1:2] == ["TABLE"] else 1)
        return Statement(StatementKind.TRUNCATE, database, table, False, (ObjectName(database, table),), empties=True)
    if first == "DELETE" and words[1:2] == ["FROM"] and not inside:
        # Older servers write this, of itself, when a MEMORY table was emptied by a restart; a session's own DELETE lies
        # in a transaction, which may yet be rolled back.
        database, table, after = qualified(tokens, 2)
        if table and after == len(tokens):
            named = (ObjectName(database, table),)
            return Statement(StatementKind.TRUNCATE, database, table, False, named, empties=True)
    if first in _ROWS or (first == "ANALYZE" and _analyzed(words) in _ROWS):
        return Statement(StatementKind.ROWS)
    if first in _NAMES_BEHIND or (first == "CREATE" and "TABLE" in words[:_TABLE_BEFORE]):
        tokens = tokens_of(sql, len(sql), sql_mode)
        words = [t.word for t in tokens]
    statement = _definition(tokens, words)
    return replace(statement, rows_follow=_rows_follow(sql, words))


def _analyzed(words: list[str]) -> str:
    """Return the first word of the statement that MariaDB's ANALYZE runs, as servers log it: ANALYZE and all."""
    at = 4 if words[1:2] == ["FORMAT"] else 1
    return words[at] if at < len(words) else ""


def _rows_follow(sql: str, words: list[str]) -> bool:
    """Return whether MySQL (8.0.21+) wrote this for CREATE TABLE … SELECT, whose rows follow in its transaction."""
    if words[:2] != ["CREATE", "TABLE"] or not sql.rstrip().upper().endswith("TRANSACTION"):
        return False
    return [t.word for t in tokens_of(sql, len(sql))[-2:]] == ["START", "TRANSACTION"]  # not a comment that ends so


def _control(words: list[str]) -> StatementKind | None:
    first, second = words[0], words[1] if len(words) > 1 else ""
    if first == "BEGIN" or (first == "START" and second == "TRANSACTION"):
        return StatementKind.BEGIN
    if first == "COMMIT":
        return StatementKind.COMMIT
    if first == "ROLLBACK":
        return StatementKind.ROLLBACK_TO if "TO" in words[1:3] else StatementKind.ROLLBACK
    if first == "SAVEPOINT" or (first == "RELEASE" and second == "SAVEPOINT"):
        return StatementKind.SAVEPOINT
    return StatementKind.XA if first == "XA" else None


def savepoint_name(sql: str) -> str:
    """Return the name in a SAVEPOINT, RELEASE SAVEPOINT or ROLLBACK TO statement, as names are compared."""
    tokens = tokens_of(sql, 10)
    return as_compared(tokens[-1].name) if tokens else ""


def _definition(tokens: list[StatementToken], words: list[str]) -> Statement:
    verb = words[0]
    if verb not in ("CREATE", "ALTER", "DROP", "RENAME"):
        return Statement(StatementKind.DEFINITION)
    at = 1
    while at < len(words) and words[at] in _FILLER:
        at += 1
    if words[at : at + 1] in (["TABLE"], ["TABLES"]):
        lasting = "TEMPORARY" not in words[:at]
        empties = lasting and (verb == "DROP" or "REPLACE" in words[1:at])
        at += 1
        while at < len(words) and words[at] in _FILLER:
            at += 1
        database, table, after = qualified(tokens, at)
        objects = (ObjectName(database, table), *_further_tables(tokens, after, verb))
        moves = lasting and (verb != "ALTER" or len(objects) > 1)
        query = query_at(tokens, after) if verb == "CREATE" else None
        fills = query is not None and (lasting or may_call(tokens, query))
        statement = Statement(StatementKind.DEFINITION, objects=objects, empties=empties, moves=moves, fills=fills)
        if verb == "CREATE" and not lasting:
            statement = replace(statement, temporary=True)
        if verb in _MANY_TABLES and any(t.text == "," for t in tokens[after:]):
            return statement
        ignores = "IGNORE" in words[1:at]
        unlogged = verb == "ALTER" and (_is_unlogged(tokens, words, after) or (ignores and _takes_rows(words[after:])))
        return replace(statement, database=database, table=table, unlogged=unlogged)
    if "INDEX" in words[at : at + 3] and "ON" in words:
        database, table, _ = qualified(tokens, words.index("ON") + 1)
        return Statement(StatementKind.DEFINITION, database, table, objects=(ObjectName(database, table),))
    if words[at : at + 1] in (["DATABASE"], ["SCHEMA"]):
        at += 1
        while at < len(words) and words[at] in _FILLER:
            at += 1
        default = at >= len(tokens) or (verb == "ALTER" and words[at] in _DATABASE_OPTIONS)
        database = "" if default else tokens[at].name
        return Statement(StatementKind.DEFINITION, database, objects=(ObjectName(database, ""),), moves=verb != "ALTER")
    return Statement(StatementKind.DEFINITION)


def _is_unlogged(tokens: list[StatementToken], words: list[str], at: int) -> bool:
    """Return whether one of the changes that ALTER TABLE lists behind its table is one that no row event shows."""
    at += (words[at : at + 1] == ["NOWAIT"]) + 2 * (words[at : at + 1] == ["WAIT"])
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text == "(") - (tokens[place].text == ")")
        begins = place == at or (depth == 0 and tokens[place - 1].text == ",")
        if begins and tuple(words[place : place + 2]) in _UNLOGGED:
            return True
    return False


def _takes_rows(words: list[str]) -> bool:
    """Return whether MariaDB's ALTER IGNORE TABLE may leave rows out, which no key or partition has room for."""
    return any(
        word in ("UNIQUE", "PRIMARY", "PARTITION") or (word == "KEY" and words[place - 1] not in _BEFORE_OTHER_KEYS)
        for place, word in enumerate(words)
    )


def _further_tables(tokens: list[StatementToken], at: int, verb: str) -> Iterator[ObjectName]:
    """Yield the tables that DROP and RENAME list, those that tables are renamed to, and one that a partition becomes.

    That is one that is exchanged with it, or converted to it or from it.
    """
    depth = 0
    for place in range(at, len(tokens)):
        token, following = tokens[place], [t.word for t in tokens[place + 1 : place + 3]]
        depth += (token.text == "(") - (token.text == ")")
        if depth:
            continue
        name_at = 0
        if verb in _MANY_TABLES and (token.text == "," or token.word == "TO"):
            name_at = place + 1
        elif verb == "ALTER" and token.word == "RENAME" and following[:1] not in (["COLUMN"], ["INDEX"], ["KEY"]):
            name_at = (
                place
                + 1
                + (following[:1] in (["TO"], ["AS"]) or [t.text for t in tokens[place + 1 : place + 2]] == ["="])
            )
        elif verb == "ALTER" and token.word in ("WITH", "TO", "CONVERT") and following[:1] == ["TABLE"]:
            name_at = place + 2
        if name_at:
            database, table, _ = qualified(tokens, name_at)
            yield ObjectName(database, table)


@dataclass(frozen=True)
class QueryEvent:
    """A QUERY event's body.

    Attributes:
        database: the session's default database.
        statement: SQL text.
        sql_mode: the session's sql_mode as bits.
        of_session: whether the server marked it as one that only its session can run: it may be of a temporary table.
            Whatever a routine does behind its use of one has the mark as well.
        temporary: whether it is of a temporary table, where it is a TRUNCATE and `of_session`; see `query_status`.
        thread: number of the session, thread_id in what mysqlbinlog shows.
    """

    database: str
    statement: str
    sql_mode: int = 0
    of_session: bool = False
    temporary: bool = False
    thread: int = 0


_Q_CHARSET = 4
# Lengths of the status variables that can precede Q_CHARSET (MySQL 8.0 source documentation, "Query_event", status
# variables).
_STATUS_BYTES = {0: 4, 1: 8, 3: 4}


def parse_query(body: bytes) -> QueryEvent:
    """Read a QUERY event's body (without header and checksum).

    Raises:
        ValueError: the body is cut short or not text.
    """
    if len(body) < 14:
        raise ValueError("a QUERY event is cut short")
    status_end = 13 + int.from_bytes(body[11:13], "little")
    database_end = status_end + body[8]
    if database_end >= len(body) or body[database_end] != 0:
        raise ValueError("a QUERY event is cut short")
    database = body[status_end:database_end].decode("utf-8")
    status = body[13:status_end]
    text, thread = _text(body[database_end + 1 :], status), int.from_bytes(body[:4], "little")
    return QueryEvent(database, text, _sql_mode(status), temporary=is_temporary(status), thread=thread)


def _sql_mode(status: bytes) -> int:
    """Return Q_SQL_MODE, which stands after Q_FLAGS2 where both are written."""
    at = 5 if status[:1] == b"\0" else 0
    return int.from_bytes(status[at + 1 : at + 9], "little") if status[at : at + 1] == b"\1" else 0


def _text(sql: bytes, status: bytes) -> str:
    """Decode SQL in the client character set that the status variables name, UTF-8 where they name none."""
    at = 0
    while at < len(status):
        code = status[at]
        at += 1
        if code == _Q_CHARSET and at + 2 <= len(status):
            charset = charset_of(int.from_bytes(status[at : at + 2], "little"))
            return charset.decode(sql)
        if code == 6 and at < len(status):  # catalog: length and text
            at += 1 + status[at]
        elif code == 2 and at < len(status):  # catalog of MySQL 5.0: length, text, zero byte
            at += 2 + status[at]
        elif code in _STATUS_BYTES:
            at += _STATUS_BYTES[code]
        else:
            break
    return sql.decode("utf-8", "replace")
