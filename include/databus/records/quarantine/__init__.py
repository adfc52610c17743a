"""Quarantine in SQL: rows held back, their causes, and the batches that have some."""
