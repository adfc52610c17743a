"""Allowed librdkafka settings of a flow; light to import, as a flow's specs are."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from databus.core.secrets import is_sensitive
from databus.kafka.librdkafka_names import OURS, REFUSED, TUNES, Side, is_security, setting_of

LibrdkafkaSettings = Mapping[str, str | int | float | bool]

_OTHER: Mapping[Side, Side] = {"producer": "consumer", "consumer": "producer"}


def allowed(settings: LibrdkafkaSettings, side: Side) -> LibrdkafkaSettings:
    """Return settings of a client that a flow may have: those that tune it.

    Args:
        settings: librdkafka's names and values.
        side: which client they are for.

    Raises:
        ValueError: one decides what the guarantee rests on, or to which cluster a client goes or how it logs in; or
            librdkafka has no such setting, or has it for the other side. Each is named, with the reason.
    """
    refused = {name: why for name in sorted(settings) if (why := _refusal(name, side))}
    for why in dict.fromkeys(refused.values()):
        raise ValueError(f"{', '.join(name for name, its in refused.items() if its == why)} {why}")
    if len(merged(settings)) < len(settings):
        aliases = sorted(name for name in settings if name not in merged(settings))
        raise ValueError(f"{', '.join(aliases)} stands there by another name, too: a setting is named once")
    return settings


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which a later layer's go before an earlier one's, under whichever of their names."""
    found: dict[str, tuple[str, Any]] = {}
    for layer in layers:
        found |= {setting_of(name): (name, value) for name, value in layer.items()}
    return dict(found.values())


def of_connection(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection's settings without servers and without what Databus' clients decide themselves.

    Other programs share the connection: their group.id, auto.offset.reset or acks are nothing to object to.
    """
    decided = {setting_of(name) for name in OURS | {"bootstrap.servers"}}
    return {name: value for name, value in extra.items() if value is not None and setting_of(name) not in decided}


def servers_of(extra: Mapping[str, Any]) -> str:
    """Return the brokers a connection's extra names, "host:port,…"; "" for none.

    Raises:
        ValueError: it names different ones under both of the setting's names, or a mock cluster.
    """
    mock = sorted(name for name in extra if name.startswith("test.mock."))
    if mock:
        raise ValueError(f"{mock[0]} would send everything to brokers that librdkafka only plays")
    named = [str(extra[name]) for name in ("bootstrap.servers", "metadata.broker.list") if extra.get(name)]
    if len(set(named)) > 1:
        raise ValueError(
            "bootstrap.servers and metadata.broker.list are one setting, and name different brokers: "
            + "; ".join(named)
        )
    return named[0] if named else ""


def _refusal(name: str, side: Side) -> str:
    if name in TUNES[side]:
        return ""
    known = setting_of(name)
    if is_security(known) or is_sensitive(name):
        return "belongs into the connection: a flow is shown and stored as it is"
    if known in REFUSED:
        return REFUSED[known]
    if name in TUNES[_OTHER[side]]:
        return f"is a setting of a {_OTHER[side]}, and has no effect on a {side}"
    near = get_close_matches(name, TUNES[side] | REFUSED.keys(), 1)
    return "is no setting of librdkafka" + (f": is {near[0]} meant?" if near else "")
