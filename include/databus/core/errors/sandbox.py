"""Errors of the sandbox's embedded servers."""

from __future__ import annotations

from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError


class SandboxError(DatabusError):
    """An embedded server could not be installed, started or stopped."""

    code = "sandbox_error"


class ServerUnknownError(ConfigError):
    """The sandbox has no server of that name."""

    code = "sandbox_server_unknown"
