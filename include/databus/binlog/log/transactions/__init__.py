"""Transactions of the log: GTIDs, XA, begin and end, rows that are rolled back."""
