"""A flow's backfill DAG: its operator, what a run was asked for, its alerts and lineage."""
