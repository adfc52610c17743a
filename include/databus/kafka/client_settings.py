"""Which librdkafka settings a flow may name; light to import, as a flow's specs are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from databus.core.secrets import is_sensitive

LibrdkafkaSettings = Mapping[str, str | int | float | bool]

_CLUSTER = frozenset({"bootstrap.servers", "metadata.broker.list", "plugin.library.paths", "test.mock.num.brokers"})
"""Names, aliases too, that decide which brokers a client speaks to, or load code into it: the connection's."""

_SECURITY = ("sasl.", "ssl.", "security.", "https.", "enable.ssl.", "enable.sasl.")
"""Beginnings of names that say how a client logs in, and whom it trusts: the connection's too."""


def allowed(settings: LibrdkafkaSettings, reserved: Collection[str]) -> LibrdkafkaSettings:
    """Return settings of a client that a flow may have.

    Args:
        settings: librdkafka's names and values.
        reserved: names that the guarantee rests on.

    Raises:
        ValueError: one is reserved, or says to which cluster a client goes, or how it logs in.
    """
    elsewhere = sorted(_CLUSTER.intersection(settings))
    if elsewhere:
        raise ValueError(
            f"{', '.join(elsewhere)} belongs into the connection: a flow keeps to the cluster that it names"
        )
    refused = sorted(set(reserved).intersection(settings))
    if refused:
        raise ValueError(f"{', '.join(refused)} cannot be set: exactly once rests on it")
    security = sorted(n for n in settings if n.startswith(_SECURITY) or is_sensitive(n))
    if security:
        raise ValueError(f"{', '.join(security)} belongs into the connection: a flow is shown and stored as it is")
    return settings
