"""Secrets of a connection, and how they are kept out of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_SENSITIVE = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|api[._-]?key|private[._-]?key|jaas|key\.pem|keystore\.pem|keytab"
    r"|authorization",
    re.IGNORECASE,
)
_SHORTEST = 4
"""Shorter values are not hidden: they occur by chance in any text, which would become unreadable."""

MASK = "***"


def is_sensitive(name: str) -> bool:
    """Return whether a setting of this name holds a secret, by the names that clients of the field use."""
    return _SENSITIVE.search(name) is not None


def secret_values(extra: Mapping[str, Any]) -> frozenset[str]:
    """Return the values of all sensitive settings, those of nested ones too."""
    return frozenset(_values(extra, hidden=False))


def masked(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in which each secret is the mask."""
    return {name: MASK if is_sensitive(str(name)) else _masked(value) for name, value in extra.items()}


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret replaced by a mask; the longest first, as one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK)
    return text


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked(value)
    return [_masked(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _values(value: Any, *, hidden: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _values(inner, hidden=hidden or is_sensitive(str(name)))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _values(inner, hidden=hidden)
    elif hidden and value is not None and not isinstance(value, bool):
        yield str(value)
