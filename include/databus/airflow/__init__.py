"""The only package that imports Airflow: it turns flows into DAGs and runs the path inside tasks.

`flow_dag` is the entry; nothing here connects to anything while a DAG file is parsed. It loads when first named,
because Airflow's provider manager imports this package for its connection type while Airflow is half imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from databus.core.flows_only import flows_only, note_given

if TYPE_CHECKING:
    from databus.airflow.dags import flow_dag, mirror_dag

__all__ = ["flow_dag", "mirror_dag"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in __all__ and flows_only():
        return _no_dag
    if name in __all__:
        from databus.airflow.moved import require_airflow

        require_airflow()
    if name == "flow_dag":
        from databus.airflow.dags import flow_dag

        return flow_dag
    if name == "mirror_dag":
        from databus.airflow.dags import mirror_dag

        return mirror_dag
    raise AttributeError(f"module 'databus.airflow' has no attribute {name!r}")


def _no_dag(*given: Any, **options: Any) -> None:
    """Stand for `flow_dag` and `mirror_dag` where a file is read for its flows alone."""
    from databus.core.flow import Flow, Mode

    mode = options.get("mode")
    for flow in (*given[:1], options.get("flow"), options.get("mirror")):
        if isinstance(flow, Flow):
            known = mode in get_args(Mode)  # another is refused where the DAG is built
            note_given(flow, flow.model_copy(update={"mode": mode}) if known else flow)
