"""Row images and keys as Protobuf: columns are written from Arrow, with the schemas that describe them.

`types` says what a column is in Protobuf, under which name and number, `schemas` makes the .proto texts of a table,
`images` and `form` write a decoded batch by way of `rows.wire`. Nothing here asks a registry.
"""
