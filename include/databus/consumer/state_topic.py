"""State topic of a flow: a compacted topic with the newest row of each key, beside the topics of changes."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from databus.core.errors.config import ConfigError


@dataclass(frozen=True)
class StateTopic:
    """State topic that a flow keeps with a second Kafka sink, for consumers that are new or fell behind.

    Not for use yet: rows can be missing from the state (see the guide).

    The sink is `Kafka(name="state", topic="state.{route}", envelope="row", topic_config={"cleanup.policy": "compact"})`
    with as many partitions as the sink of the changes, and the same keys.

    Attributes:
        flow: name of the flow, e.g. "shop".
        topic: template of its topics, as the sink has it. Default "state.{route}".
        sink: name of the sink that writes them; default "state".
        changes: template of the topics of changes, as their sink has it; default "cdc.{route}".
        changes_sink: name of the sink of the changes; default "kafka".
        installation: name of the installation (DATABUS_INSTALLATION); default "default".
        patience_s: seconds to wait until both sinks stand at the same batch; default 300.
        rounds: how often the state is read from its beginning at most where retention passes meanwhile; default 3.
    """

    flow: str
    topic: str = "state.{route}"
    sink: str = "state"
    changes: str = "cdc.{route}"
    changes_sink: str = "kafka"
    installation: str = "default"
    patience_s: float = 300.0
    rounds: int = 3

    def __post_init__(self) -> None:
        if not self.flow or not self.sink or not self.changes_sink or self.sink == self.changes_sink:
            raise ConfigError("a state topic has a flow, and two sinks of it: one of the state, one of the changes")
        if self.patience_s <= 0 or self.rounds < 1:
            raise ConfigError("patience_s of a state topic is above 0, and rounds 1 or more")
        try:
            strange = set(_fields(self.topic)) ^ set(_fields(self.changes))
        except ValueError as error:
            raise ConfigError(f"topic and changes of a state topic are templates: {error}") from None
        if strange:
            raise ConfigError(
                f"topic {self.topic!r} and changes {self.changes!r} differ in {', '.join(sorted(strange))}",
                hint='Both have the same fields: topic="state.{route}", changes="cdc.{route}"; or neither has one.',
            )

    def topic_of(self, changes: str) -> str:
        """Return the state topic beside a topic of changes.

        Raises:
            ConfigError: the topic is not of the template.
        """
        seen: set[str] = set()
        pattern = ""
        for text, name, _, _ in string.Formatter().parse(self.changes):
            pattern += re.escape(text)
            if name:
                pattern += f"(?P={name})" if name in seen else f"(?P<{name}>.+)"
                seen.add(name)
        if (found := re.fullmatch(pattern, changes)) is None:
            raise ConfigError(
                f"topic {changes} is none of {self.changes!r}, so its state topic is not known",
                hint='Name the template that the flow\'s sink has: StateTopic(…, changes="cdc.{route}").',
            )
        return self.topic.format(**found.groupdict())

    def group(self, sink: str) -> str:
        """Return the group that has the markers of one of the flow's sinks."""
        return f"databus.{self.installation}.{self.flow}.{sink}"


def _fields(template: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(template) if name]
