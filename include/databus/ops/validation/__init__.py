"""Comparison of a flow's sinks with its source's tables, row by row, while the flow goes on."""
