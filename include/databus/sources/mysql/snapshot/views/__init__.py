"""Consistent views in which chunks are read: of the server, under a read lock where it needs one, or of a replica."""
