"""Which detector is best on some recordings, and whether that is luck."""
