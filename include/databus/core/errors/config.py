"""Errors of a flow's definition and settings, and of the sandbox."""

from __future__ import annotations

from databus.core.errors.root import DatabusError


class ConfigError(DatabusError):
    """A flow, connection or setting is wrong; retrying cannot help.

    Attributes:
        problems: what is wrong with the options of one object, each by itself; empty where it is something else.
    """

    code = "config_invalid"
    problems: tuple[str, ...] = ()


class PlaceError(ConfigError):
    """A text is no place of a source's log, whatever that holds."""

    code = "place_invalid"


class BackfillRangeError(ConfigError):
    """The range of a backfill is none: it ends before it begins, or cannot be understood."""

    code = "backfill_range"


class BackfillFutureError(BackfillRangeError):
    """The range of a backfill ends in the future: what belongs to it cannot be known yet."""

    code = "backfill_future"


class RunConfError(ConfigError):
    """A run was given settings that its DAG does not know; it would have passed over them in silence."""

    code = "run_conf"


class UnknownKindError(ConfigError):
    """A source, transform, check or sink kind that the registry does not know."""

    code = "kind_unknown"


class ConnectionMissingError(ConfigError):
    """A conn_id that no connection source knows."""

    code = "connection_missing"


class PackageMissingError(ConfigError):
    """A package that comes with an extra of databus is not installed; the hint has the command that brings it."""

    code = "package_missing"


class PackageVersionError(ConfigError):
    """A package is installed in a version that databus cannot work with; the hint says which it can."""

    code = "package_version"


class SnapshotConditionError(ConfigError):
    """The condition of a snapshot's rows is none, or the server refuses it."""

    code = "snapshot_condition"


class SandboxError(DatabusError):
    """An embedded server could not be installed, started or stopped."""

    code = "sandbox_error"


class ServerUnknownError(ConfigError):
    """The sandbox has no server of that name."""

    code = "sandbox_server_unknown"
