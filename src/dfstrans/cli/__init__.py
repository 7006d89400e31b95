"""The command line: one module per command, loaded by `app`."""
