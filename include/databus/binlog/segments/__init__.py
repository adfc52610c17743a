"""Segments: raw log bytes of ranges, staged and kept, their store, retention and large values."""
