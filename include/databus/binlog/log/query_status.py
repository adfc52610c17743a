"""Status variables of a QUERY event: which ones a server wrote, by code (MySQL 8.0 source documentation)."""

from __future__ import annotations

UPDATED_DATABASES = 12
DEFINITION_XID = 17

_BYTES = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1}
_TEXTS = {5: 1, 6: 1, 11: 2}
"""Texts behind their lengths, by code: how many."""
_TOO_MANY = 254
"""Stands for more databases than are named."""


def is_temporary(status: bytes) -> bool:
    """Return whether a TRUNCATE that only its session can run has what MySQL 8.0 writes for a temporary InnoDB table.

    It names databases then, which no other TRUNCATE does there; older servers, which write no number of a definition
    statement's transaction, name them for every table. Of other engines both kinds are alike.
    """
    return {UPDATED_DATABASES, DEFINITION_XID} <= _codes(status)


def _codes(status: bytes) -> set[int]:
    """Return the codes up to the first one that is not known."""
    codes: set[int] = set()
    at = 0
    while at < len(status):
        code = status[at]
        at += 1
        if code in _BYTES:
            at += _BYTES[code]
        elif code in _TEXTS:
            for _ in range(_TEXTS[code]):
                at += 1 + (status[at] if at < len(status) else 0)
        elif code == UPDATED_DATABASES:
            count = status[at] if at < len(status) else 0
            at += 1
            for _ in range(0 if count == _TOO_MANY else count):
                at = status.find(b"\0", at) + 1 or len(status)
        else:
            break
        codes.add(code)
    return codes
