"""Row images and keys as JSON that a schema describes: the usual JSON, refused where its schema would not hold.

`schemas` makes the schemas of a table (draft 7), `form` writes a decoded batch. Nothing here asks a registry.
"""
