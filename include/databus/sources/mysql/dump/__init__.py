"""Dumps of a server's log: opened, shared, retried, staged as segments."""
