"""Small files of the product: few, for a reader opens each of them to find a noun."""

from __future__ import annotations

from tests.suite.steady import ROOT

SMALL = 50
"""Lines; a file with fewer is small."""

MOST = 60
"""Small files, `__init__` not counted; migrations and modules at former places are among them."""


def test_small_files_are_few() -> None:
    package = ROOT / "include" / "databus"
    files = (path for path in package.rglob("*.py") if path.name != "__init__.py")
    small = sorted(str(path.relative_to(package)) for path in files if len(path.read_text().splitlines()) < SMALL)
    assert len(small) <= MOST, "fold one of them into its only importer:\n" + "\n".join(small)
