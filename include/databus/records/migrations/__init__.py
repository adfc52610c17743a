"""Migrations of the records store's tables by Alembic: a file a revision in `versions`, never edited once released."""
