"""Segments as rows: what one Spark task decodes, and large values taken out of rows."""
