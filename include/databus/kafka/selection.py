"""Which names a list of patterns selects: topics, and settings of topics."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
REGEX_PREFIX = "re:"
OWN_TOPICS = "_databus"
HEARTBEATS = "heartbeats"
"""Where a mirror writes heartbeats on its source; on the target it stands behind the source's name and a dot."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's own topics (`Topic.INTERNAL_TOPICS` of its source)."""


def matches(pattern: str, name: str) -> bool:
    """Tell whether an fnmatch pattern, or "re:" and a regular expression, matches a whole name."""
    if pattern.startswith(REGEX_PREFIX):
        return re.fullmatch(pattern[len(REGEX_PREFIX) :], name) is not None
    return fnmatchcase(name, pattern)


def is_name(pattern: str) -> bool:
    """Tell whether a pattern can match nothing but the name that it is."""
    return _NAME.fullmatch(pattern) is not None


def selects(patterns: Iterable[str], excluded: Iterable[str], name: str) -> bool:
    """Tell whether a name is selected: by a pattern, and by none of those that exclude."""
    return any(matches(p, name) for p in patterns) and not any(matches(p, name) for p in excluded)


def selects_topic(patterns: tuple[str, ...], excluded: tuple[str, ...], topic: str, *, internal: bool = False) -> bool:
    """Tell whether a topic is selected; Kafka's (`internal`) and Databus' own ones are only when named literally."""
    if topic in excluded or any(matches(p, topic) for p in excluded):
        return False
    if topic in patterns:
        return True
    return not internal and not topic.startswith(OWN_TOPICS) and any(matches(p, topic) for p in patterns)
