"""Former place of `databus.airflow.backfills.alerts`, kept for files and stored paths that name it."""

from databus.airflow.backfills.alerts import BackfillNotifier

__all__ = ["BackfillNotifier"]
