"""Snapshot of tables: consistent views, chunks by key, rows as the log would give them, and their files."""
