"""Logged statements: what they do, which tables they concern."""
