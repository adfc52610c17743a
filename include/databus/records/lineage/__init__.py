"""Lineage of runs as OpenLineage events: datasets, facets, windows."""
