"""Links of a task to pages beside Airflow's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def served_docs(address: str, run_url: str) -> str:
    """Return where a browser finds a run's page of Data Docs: the plugin's guarded route, unless a web server has it.

    Args:
        address: the page's address; a file: URL where no web server shows it.
        run_url: address of the run's page in Airflow, "" when unknown.
    """
    root, dags, run = run_url.partition("/dags/")
    if not address.startswith("file:") or not dags:
        return address
    return f"{root}/databus/api/v1/dags/{run}/data-docs"


class DataDocsLink(BaseOperatorLink):
    """Opens the run's page of Data Docs; asked by the worker when the task has ended, also when it failed."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the page's address, "" where there is none."""
        return str(getattr(operator, "data_docs", ""))
