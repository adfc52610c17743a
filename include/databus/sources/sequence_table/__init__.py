"""Rows of a table with a growing number, read over SQLAlchemy: outboxes and trigger logs."""
