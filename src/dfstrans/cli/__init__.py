"""The command line: one file per command, found through `app`."""
