"""Clients of a server's log: connection, dump, checksums, places, and the walk along a dump."""
