"""Settings of an installation, from environment variables that start with DATABUS_."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Settings of an installation: where it keeps what is not in ZooKeeper.

    Attributes:
        installation: keeps two installations on the same servers apart; part of every marker's key
            (DATABUS_INSTALLATION).
        segment_store: folder or fsspec URI of staged log segments; on a cluster, one that all workers reach
            (DATABUS_SEGMENT_STORE).
        segment_keep: how long segments stay after their range was committed, shared by all flows of a server: an age, a
            size or both, e.g. "7d,50GB"; "" deletes them at once (DATABUS_SEGMENT_KEEP).
        data_docs: folder of Great Expectations' Data Docs; "" builds none (DATABUS_DATA_DOCS).
        data_docs_url: address under which a web server shows that folder; "" where none does (DATABUS_DATA_DOCS_URL).
        records_url: SQLAlchemy URL of reports, quarantine and quality results (DATABUS_RECORDS_URL).
        runbooks_url: address of the folder of runbooks, to which alerts point (DATABUS_RUNBOOKS_URL).
    """

    installation: str
    segment_store: str
    records_url: str
    segment_keep: str = ""
    runbooks_url: str = "docs/runbooks"
    data_docs: str = ""
    data_docs_url: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; defaults lie under $DATABUS_HOME, else $AIRFLOW_HOME/databus, else ~/.databus."""
        env = os.environ if environ is None else environ
        airflow = env.get("AIRFLOW_HOME")
        home = Path(env.get("DATABUS_HOME") or (Path(airflow) / "databus" if airflow else Path.home() / ".databus"))
        return cls(
            installation=env.get("DATABUS_INSTALLATION", "default"),
            segment_store=env.get("DATABUS_SEGMENT_STORE", str(home / "segments")),
            records_url=env.get("DATABUS_RECORDS_URL", f"sqlite:///{home / 'records.db'}"),
            segment_keep=env.get("DATABUS_SEGMENT_KEEP", ""),
            runbooks_url=env.get("DATABUS_RUNBOOKS_URL", "docs/runbooks"),
            data_docs=env.get("DATABUS_DATA_DOCS", str(home / "data_docs")),
            data_docs_url=env.get("DATABUS_DATA_DOCS_URL", ""),
        )
