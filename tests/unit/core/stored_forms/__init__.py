"""Stored forms of specs, as an earlier databus wrote them; see test_stored_names.py."""
