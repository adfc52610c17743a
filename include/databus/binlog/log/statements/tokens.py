"""Tokens of logged statements, tolerant of what is no SQL that is known; and what may stand before a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PATTERN = r"""\s+ | \#[^\n]*(?:\n|$) | --(?=\s|$)[^\n]*(?:\n|$) | /\*(?!M?!).*?\*/     # blanks and comments
      | /\*M?!\d* | \*/                                                          # borders of comments that servers run
      | (?P<quoted>`(?:[^`]|``)*`) | (?P<string>%s)
      | (?P<word>[\w$\u0080-\uffff]+) | (?P<sign>.)"""
_TOKEN = re.compile(_PATTERN % r""""(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*'""", re.VERBOSE | re.DOTALL)
_TOKEN_UNESCAPED = re.compile(_PATTERN % r""""(?:[^"]|"")*"|'(?:[^']|'')*'""", re.VERBOSE | re.DOTALL)
NO_BACKSLASH_ESCAPES = 1 << 20
"""Bit of sql_mode with which a backslash is a character of a literal like any other."""


@dataclass(frozen=True)
class StatementToken:
    """One token.

    Attributes:
        text: as written.
        word: upper case of a bare word, else "".
        name: the identifier that it can stand for, else "".
        end: where the text goes on behind it.
    """

    text: str
    word: str
    name: str
    end: int


def tokens_of(sql: str, most: int, sql_mode: int = 0) -> list[StatementToken]:
    """Return the first tokens of a statement.

    Args:
        sql: its text.
        most: how many tokens at most.
        sql_mode: the session's, as bits.
    """
    found: list[StatementToken] = []
    for match in (_TOKEN_UNESCAPED if sql_mode & NO_BACKSLASH_ESCAPES else _TOKEN).finditer(sql):
        text, end = match[0], match.end()
        if match["quoted"]:
            found.append(StatementToken(text, "", text[1:-1].replace("``", "`"), end))
        elif match["word"]:
            found.append(StatementToken(text, text.upper(), text, end))
        elif match["string"]:
            # ANSI_QUOTES writes names like this; harmless where it is a literal.
            found.append(StatementToken(text, "", text[1:-1].replace('""', '"') if text[0] == '"' else "", end))
        elif match["sign"]:
            found.append(StatementToken(text, "", "", end))
        if len(found) >= most:
            break
    return found


def qualified(tokens: list[StatementToken], at: int) -> tuple[str, str, int]:
    """Read `database.table` or `table`; returns both names and the index after them."""
    if at >= len(tokens) or not tokens[at].name:
        return "", "", at
    if at + 2 < len(tokens) and tokens[at + 1].text == "." and tokens[at + 2].name:
        return tokens[at].name, tokens[at + 2].name, at + 3
    return "", tokens[at].name, at + 1


def without_settings(sql: str, sql_mode: int = 0) -> str:
    """Return a statement without MariaDB's SET STATEMENT … FOR before it, which servers log with any statement."""
    while [t.word for t in tokens_of(sql, 2, sql_mode)] == ["SET", "STATEMENT"]:
        depth = 0
        for token in tokens_of(sql, len(sql), sql_mode):
            depth += (token.text == "(") - (token.text == ")")
            if token.word == "FOR" and not depth:
                sql = sql[token.end :]
                break
        else:
            return sql
    return sql


def split_statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, which `;` ends; not the DELIMITER command of a client."""
    begin, empty = 0, True
    for match in _TOKEN.finditer(script):
        if match[0] == ";":
            if not empty:
                yield script[begin : match.start()].strip()
            begin, empty = match.end(), True
        elif empty and (match["quoted"] or match["string"] or match["word"] or match["sign"]):
            begin, empty = match.start(), False
    if not empty:
        yield script[begin:].strip()
