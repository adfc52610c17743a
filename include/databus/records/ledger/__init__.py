"""Ledger pages in SQL: stored, merged, and the reports made of them."""
