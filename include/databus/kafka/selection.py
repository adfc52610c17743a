"""Selection of names by patterns: topics, and settings of topics."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterable
from fnmatch import fnmatchcase

_LEGAL = frozenset(string.ascii_letters + string.digits + "._-")
"""Characters that a topic's name may have."""

_STAR: frozenset[str] = frozenset()
_TOKEN = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_SIMPLER = (
    (re.compile(r"\(\?:|[()^$]"), ""),
    (re.compile(r"\\\\"), ""),
    (re.compile(r"(?<!\\)(?:\.|\[[^\]]*\])[*+?]?\??"), "x"),
    (re.compile(r"\\[wd][*+?]?"), "1"),
    (re.compile(r"[*+?]"), ""),
    (re.compile(r"\\(.)"), r"\1"),
)

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
REGEX_PREFIX = "re:"
OWN_TOPICS = "_databus"
HEARTBEATS = "heartbeats"
"""Topic of a mirror's heartbeats on its source; on the target it stands behind the source's name and a dot."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's own topics (`Topic.INTERNAL_TOPICS` of its source)."""


def matches(pattern: str, name: str) -> bool:
    """Return whether an fnmatch pattern, or "re:" and a regular expression, matches a whole name."""
    if pattern.startswith(REGEX_PREFIX):
        return re.fullmatch(pattern[len(REGEX_PREFIX) :], name) is not None
    return fnmatchcase(name, pattern)


def is_name(pattern: str) -> bool:
    """Return whether a pattern can match nothing but the name that it is."""
    return _NAME.fullmatch(pattern) is not None


def selects(patterns: Iterable[str], excluded: Iterable[str], name: str) -> bool:
    """Return whether a name is selected: by a pattern, and by none of those that exclude."""
    return any(matches(p, name) for p in patterns) and not any(matches(p, name) for p in excluded)


def selects_topic(patterns: tuple[str, ...], excluded: tuple[str, ...], topic: str, *, internal: bool = False) -> bool:
    """Return whether a topic is selected; Kafka's (`internal`) and Databus' own ones are only when named literally."""
    if topic in excluded or any(matches(p, topic) for p in excluded):
        return False
    if topic in patterns:
        return True
    return not internal and not topic.startswith(OWN_TOPICS) and any(matches(p, topic) for p in patterns)


def samples(pattern: str) -> set[str]:
    """Return a few names that a pattern selects; of a regular expression those that simple means find, maybe none."""
    if not pattern.startswith(REGEX_PREFIX):
        found = common_name(pattern, pattern)
        return {found} if found else set()
    names = set()
    for choice in pattern.removeprefix(REGEX_PREFIX).split("|"):
        name = choice
        for known, simple in _SIMPLER:
            name = known.sub(simple, name)
        names.add(name)
    return {name for name in names if name and matches(pattern, name)}


def common_name(one: str, other: str) -> str | None:
    """Return a shortest name that two fnmatch patterns both select, None where there is none."""
    left, right = _tokens(one), _tokens(other)
    seen = {(0, 0, False)}
    waiting = deque([(0, 0, "")])
    while waiting:
        i, j, text = waiting.popleft()
        if text and i == len(left) and j == len(right):
            return text
        steps: list[tuple[int, int, str]] = []
        if i < len(left) and left[i] is _STAR:
            steps.append((i + 1, j, text))
        if j < len(right) and right[j] is _STAR:
            steps.append((i, j + 1, text))
        if i < len(left) and j < len(right):
            both = (left[i] or _LEGAL) & (right[j] or _LEGAL)
            if both:
                letter = "x" if "x" in both else min(both)
                steps.append((i + (left[i] is not _STAR), j + (right[j] is not _STAR), text + letter))
        for step in steps:
            place = (step[0], step[1], bool(step[2]))
            if place not in seen:
                seen.add(place)
                waiting.append(step)
    return None


def _tokens(pattern: str) -> list[frozenset[str]]:
    found = []
    for token in _TOKEN.findall(pattern):
        if token == "*":  # noqa: S105 - a letter of a pattern
            found.append(_STAR)
        else:
            found.append(frozenset(c for c in _LEGAL if fnmatchcase(c, token)))
    return found
