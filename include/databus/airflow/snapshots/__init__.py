"""A flow's snapshot DAG: its operator and form, and the trigger that waits for the end of a snapshot."""
