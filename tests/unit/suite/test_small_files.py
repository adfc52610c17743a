"""Small files of the product: few, for a reader opens each of them to find a noun."""

from __future__ import annotations

from tests.suite.steady import ROOT

SMALL = 50
"""Lines; a file with fewer is small."""

MOST = 56
"""Small files; `__init__` and migrations are not counted (Alembic wants one each), modules at former places are."""


def test_small_files_are_few() -> None:
    package = ROOT / "include" / "databus"
    files = (p for p in package.rglob("*.py") if p.name != "__init__.py" and p.parent.name != "versions")
    small = sorted(str(path.relative_to(package)) for path in files if len(path.read_text().splitlines()) < SMALL)
    assert len(small) <= MOST, "fold one of them into its only importer:\n" + "\n".join(small)
