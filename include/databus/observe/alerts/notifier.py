"""Alerts through any notifier of Airflow and its providers, named by its path."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from databus.core.alerts.alert import Alert, ChannelSpec
from databus.core.connections import ConnectionSource
from databus.core.errors.batch import AlertingError
from databus.core.errors.config import ConfigError
from databus.observe.alerts.shapes import text


class Notifier(ChannelSpec):
    """Alert channel by a notifier of Airflow or a provider.

    For example `Notifier(path="airflow.providers.smtp.notifications.smtp.SmtpNotifier", options={…})`.

    The notifier's template fields may say `{{ alert.title }}`, `{{ text }}` and whatever `Alert.to_json` holds. It
    finds its connections as Airflow does.

    Attributes:
        path: module and class, with dots, e.g. "airflow.providers.smtp.notifications.smtp.SmtpNotifier".
        options: arguments of the class, e.g. {"to": "ops@example.com"}; default none.
    """

    kind: ClassVar[str] = "notifier"
    fields_in_name: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    options: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("path")
    @classmethod
    def _is_dotted(cls, value: str) -> str:
        if not all(part.isidentifier() for part in value.split(".")) or "." not in value:
            raise ValueError(f"{value!r} is not module.Class")
        return value

    def send(self, alert: Alert, connections: ConnectionSource) -> None:  # noqa: ARG002 - Airflow's own are used
        """Call it; see `ChannelSpec.send`."""
        module, _, name = self.path.rpartition(".")
        try:
            notifier = getattr(importlib.import_module(module), name)(**self.options)
        except (ImportError, AttributeError, TypeError) as error:
            raise ConfigError(f"notifier {self.path}: {type(error).__name__}: {error}") from error
        except Exception as error:
            raise AlertingError(f"notifier {self.path}: {type(error).__name__}: {error}") from error
        try:
            notifier({"alert": alert.to_json(), "text": text(alert), "run_id": alert.run_id, "dag": None})
        except Exception as error:
            raise AlertingError(f"notifier {self.path}: {type(error).__name__}: {error}") from error
