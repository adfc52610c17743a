"""Checkpoint stores: leases, epochs, write-ahead plans, commits, history. No Spark, no Airflow, no source or sink."""
