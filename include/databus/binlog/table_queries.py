"""Queries that tables are made of, as statements tell them: whether there is one, and what it may run beside it."""

from __future__ import annotations

from collections.abc import Sequence

from databus.binlog.statement_tokens import Token

_WORDS = """
    ALL AND ANY AS BETWEEN BY CASE DISTINCT DIV ELSE EXCEPT EXISTS FOR FROM HAVING IN INDEX INTERSECT INTERVAL
    IS JOIN KEY LIKE LIMIT NOT ON OR OVER PARTITION RECURSIVE REGEXP RLIKE ROW SELECT SOME TABLE THEN UNION
    USING VALUES WHEN WHERE WITHIN XOR
"""
"""Words of SQL that stand before a parenthesis."""
_TYPES = """
    BINARY CHAR CHARACTER DATETIME DEC DECIMAL DOUBLE FLOAT NUMERIC SIGNED TIME TIMESTAMP UNSIGNED VARBINARY
    VARCHAR
"""
"""Types."""
_FUNCTIONS = """
    ABS ADDDATE AVG BIN BIT_AND BIT_OR BIT_XOR CAST CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONVERT
    COUNT CRC32 CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATE DATEDIFF DATE_ADD DATE_FORMAT
    DATE_SUB DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR DENSE_RANK EXTRACT FIELD FIND_IN_SET FIRST_VALUE FLOOR FORMAT
    FROM_UNIXTIME GREATEST GROUP_CONCAT HEX HOUR IF IFNULL INSTR JSON_ARRAY JSON_ARRAYAGG JSON_EXTRACT
    JSON_OBJECT JSON_OBJECTAGG JSON_UNQUOTE JSON_VALUE LAG LAST_DAY LAST_VALUE LCASE LEAD LEAST LEFT LENGTH
    LOCATE LOG LOWER LPAD LTRIM MAX MD5 MIN MINUTE MOD MONTH NOW NTILE NULLIF PERCENT_RANK POSITION POW POWER
    QUARTER RAND RANK REPEAT REPLACE REVERSE RIGHT ROUND ROW_NUMBER RPAD RTRIM SECOND SHA1 SHA2 SIGN SQRT STD
    STDDEV STR_TO_DATE SUBDATE SUBSTR SUBSTRING SUBSTRING_INDEX SUM TIMEDIFF TIMESTAMPADD TIMESTAMPDIFF TO_DAYS
    TRIM TRUNCATE UCASE UNHEX UNIX_TIMESTAMP UPPER UTC_DATE UTC_TIMESTAMP UUID VARIANCE WEEK WEEKDAY YEAR
    YEARWEEK
"""
"""Functions that every server has; a stored one of such a name is not called by it alone."""
_BEFORE_PARENTHESES = frozenset(f"{_WORDS} {_TYPES} {_FUNCTIONS}".split())


def query_at(tokens: Sequence[Token], at: int) -> int | None:
    """Return where CREATE TABLE names rows behind its table: SELECT, TABLE or VALUES, which bare can be no name there.

    Partitions have VALUES as well, with LESS THAN or IN.

    Args:
        tokens: the statement.
        at: the first token behind the table's name.
    """
    for place in range(at, len(tokens)):
        word, following = tokens[place].word, [t.text.upper() for t in tokens[place + 1 : place + 2]]
        rows = word in ("SELECT", "TABLE") or (word == "VALUES" and following in (["ROW"], ["("]))
        if rows and tokens[place - 1].text != ".":
            return place
    return None


def may_call(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a query calls what may be a stored function, which may change rows: MariaDB lets it, MySQL not.

    Args:
        tokens: the statement.
        at: where its query begins.
    """
    return any(
        tokens[place].name
        and tokens[place + 1].text == "("
        and (tokens[place].word not in _BEFORE_PARENTHESES or tokens[place - 1].text == ".")
        for place in range(at, len(tokens) - 1)
    )
