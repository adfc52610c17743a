"""Transforms between source and sinks: one file per kind. Row by row, deterministic; no row is lost."""
