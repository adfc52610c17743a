"""The revisions, oldest first; each says what it changes and raises `databus_schema`."""
