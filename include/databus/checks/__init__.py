"""Checks of rows and batches: one file per kind. A check marks or measures; the path acts on its severity."""
