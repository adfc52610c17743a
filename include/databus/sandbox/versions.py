"""The one place for versions: `versions.env`, shared with docker compose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from databus.core.errors.config import SandboxError

VERSIONS_FILE = Path(__file__).with_name("versions.env")


def parse_versions(text: str, origin: str = "versions.env") -> dict[str, str]:
    """Read `KEY=value` lines; blank lines and lines starting with `#` are left out.

    The subset of the env-file format that docker compose reads the same way: no quotes, no interpolation.

    Args:
        text: the content of the file.
        origin: its name, for messages.

    Raises:
        SandboxError: a line is not `KEY=value`, or a key stands twice.
    """
    versions: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, separator, value = line.partition("=")
        if not separator or not key.isidentifier() or not value or value != value.strip():
            raise SandboxError(f"{origin}:{number}: {line!r} is not KEY=value", hint="Write KEY=value without spaces.")
        if key in versions:
            raise SandboxError(f"{origin}:{number}: {key} is given twice", hint="Keep one of the two lines.")
        versions[key] = value
    return versions


class ServerVersions:
    """Versions by key, for example `versions["KAFKA_VERSION"]`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> str:
        try:
            return self._values[key]
        except KeyError:
            known = ", ".join(sorted(self._values))
            raise SandboxError(f"{VERSIONS_FILE.name} has no {key}", hint=f"Known keys: {known}.") from None

    def as_dict(self) -> dict[str, str]:
        """All keys and values, as a copy."""
        return dict(self._values)


def load_versions(path: Path = VERSIONS_FILE) -> ServerVersions:
    """Read the versions file."""
    return ServerVersions(parse_versions(path.read_text(encoding="utf-8"), path.name))
