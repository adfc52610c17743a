"""Compiled transforms: conditions, values, routes and keys over decoded columns, where rows are read (ADR 65)."""
