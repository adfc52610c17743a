"""The `databus` command: arguments in, tables out. Each command calls one use case of `databus.ops`."""
