"""Pages for people: figures and HTML."""
