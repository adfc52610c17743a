"""Row images and keys in binary formats: columns are written from Arrow, one after the other at every row's cursor.

`kernels` and `columns` write values, `images` and `keys` put them together for a decoded batch. What a value stands in
(a branch, a tag) is its framing; what a format's schemas say is in `rows.avro` and `rows.protobuf`.
"""
