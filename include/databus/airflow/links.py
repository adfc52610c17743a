"""Links of a task to pages outside Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class DataDocsLink(BaseOperatorLink):
    """Opens the run's page of Data Docs; asked by the worker when the task has ended, also when it failed."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the page's address, "" where there is none."""
        return str(getattr(operator, "data_docs", ""))
