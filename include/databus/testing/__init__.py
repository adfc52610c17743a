"""Test helpers for databus and its users: in-process stores and servers that fail on purpose."""
