"""Positions in a source's log: offsets, ranges, gaps, lag, GTIDs."""
