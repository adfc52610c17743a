"""Values of rows: column types, character sets, JSON, dates."""
