"""Sinks: one package or file per kind.

A sink pins a plan, encodes rows as Columns, and hands out a picklable writer for its slots.

Siblings share nothing but `envelope.py`. No client library is imported before a sink is opened.
"""
