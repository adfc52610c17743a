"""Loops and double ways among declared mirrors, found from what they say. Pure: asks no cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.kafka.selection import common_name, samples
from databus.ops.flows.discovery import discover

if TYPE_CHECKING:
    from databus.sinks.kafka_mirror.spec import MirrorTopics
    from databus.sources.kafka.spec import KafkaTopics

LOOP, TWICE = "mirror_loop", "mirror_twice"
_ROUNDS = 2
"""How often prefixes are put before sample names: sites that a topic with prefixes goes through, but for the first."""

Site = tuple[str, str]
"""Connection and topic."""


@dataclass(frozen=True)
class MirrorLink:
    """A mirror as a way from one site to another."""

    name: str
    source: KafkaTopics
    sink: MirrorTopics

    def passes(self, topic: str, came_from: frozenset[str]) -> bool:
        """Return whether records of a topic that bear the marks of these sites go this way."""
        kept_out = self.source.leave_out
        return self.sink.wants(topic) and kept_out not in came_from and not (kept_out == "*" and came_from)

    def beyond(self, topic: str, came_from: frozenset[str]) -> tuple[Site, frozenset[str]]:
        """Return where they arrive, and the marks they bear there."""
        marks = came_from | {self.sink.origin} if self.sink.origin else came_from
        return (self.sink.conn_id, self.sink.target(topic)), marks


@dataclass(frozen=True)
class Problem:
    """Mirror topology problem.

    Attributes:
        code: `mirror_loop` or `mirror_twice`.
        mirrors: names of the mirrors.
        message: what would happen to which topic.
        hint: what to do.
    """

    code: str
    mirrors: tuple[str, ...]
    message: str
    hint: str


def problems(flows: Iterable[Flow]) -> list[Problem]:
    """Return the loops and double ways among the mirrors of some flows, each set of mirrors once.

    Patterns that overlap are tried with names that both select. Of a regular expression only names that some other
    pattern gives and simple ones made from it are tried.
    """
    links = _links(flows)
    found: dict[tuple[str, frozenset[str]], Problem] = {}
    for start in sorted({link.sink.source_conn_id for link in links}):
        for topic in sorted(_names(links)):
            for problem in _walk((start, topic), links):
                found.setdefault((problem.code, frozenset(problem.mirrors)), problem)
    return list(found.values())


def findings_beside(flow: Flow, folder: Path | None) -> list[Finding]:
    """Return an ERROR finding for each problem that a mirror has with those of a DAG folder; none of other flows."""
    if not _links((flow,)):
        return []
    others = [found.flow for found in discover(folder, "Mirror", dags=False)[0] if found.flow.name != flow.name]
    return [
        Finding(f"mirror {flow.name}", Level.ERROR, problem.message, problem.hint, problem.code)
        for problem in problems((flow, *others))
        if flow.name in problem.mirrors
    ]


def _links(flows: Iterable[Flow]) -> list[MirrorLink]:
    return [
        MirrorLink(flow.name, cast("KafkaTopics", flow.source), cast("MirrorTopics", sink))
        for flow in flows
        for sink in flow.sinks
        if sink.kind == "kafka_mirror"
    ]


def _names(links: Sequence[MirrorLink]) -> set[str]:
    """Return names of topics that show what the patterns let through."""
    patterns = {pattern for link in links for pattern in link.sink.topics}
    prefixes = {link.sink.prefix for link in links if link.sink.prefix}
    names = {name for link in links for pair in link.sink.renames.items() for name in pair}
    for _ in range(_ROUNDS):
        globs = {p for p in patterns if not p.startswith("re:")}
        names |= {name for pattern in patterns for name in samples(pattern)}
        names |= {name for a in globs for b in globs if a < b and (name := common_name(a, b)) is not None}
        names |= {name.removeprefix(prefix) for name in names for prefix in prefixes} - {""}
        patterns |= {prefix + pattern for prefix in prefixes for pattern in globs}
    return names


def _walk(start: Site, links: Sequence[MirrorLink]) -> Iterator[Problem]:
    """Follow a record that is born at a site along all ways."""
    arrived: dict[Site, tuple[MirrorLink, ...]] = {start: ()}
    waiting: list[tuple[Site, frozenset[str], tuple[MirrorLink, ...]]] = [(start, frozenset(), ())]
    while waiting:
        (conn_id, topic), marks, way = waiting.pop()
        for link in links:
            if link.sink.source_conn_id != conn_id or not link.passes(topic, marks):
                continue
            there, later = link.beyond(topic, marks)
            longer = (*way, link)
            if link in way or any(there == place for place in _places(start, way)):
                yield _loop(start, longer)
            elif there in arrived:
                yield _twice(start, there, arrived[there], longer)
            else:
                arrived[there] = longer
                waiting.append((there, later, longer))


def _places(start: Site, way: Sequence[MirrorLink]) -> Iterator[Site]:
    place = start
    yield place
    for link in way:
        place = link.sink.conn_id, link.sink.target(place[1])
        yield place


def _loop(start: Site, way: Sequence[MirrorLink]) -> Problem:
    sites = " → ".join(f"{topic} on {conn_id}" for conn_id, topic in _places(start, way))
    return Problem(
        LOOP,
        tuple(dict.fromkeys(link.name for link in way)),
        f"mirrors {_named(way)}: a loop: {sites}, and so on without end",
        "Say two_way= in both (or origin=True in each of a ring), or use policy='prefix' with topics= that leave the "
        "mirrored ones out.",
    )


def _twice(start: Site, there: Site, one: Sequence[MirrorLink], other: Sequence[MirrorLink]) -> Problem:
    ways = " and ".join(f"by {_named(way)}" for way in (one, other))
    return Problem(
        TWICE,
        tuple(dict.fromkeys(link.name for link in (*one, *other))),
        f"records of {start[1]} on {start[0]} would come to {there[1]} on {there[0]} twice: {ways}",
        "Say forward=False in mirrors that stand beside a direct one: they carry only what was born at their source. "
        "Or leave the topic out of one of them.",
    )


def _named(way: Sequence[MirrorLink]) -> str:
    return ", ".join(dict.fromkeys(link.name for link in way))
