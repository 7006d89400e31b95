"""Tools for those who work on the project: its size, its imports, and the drawing of its packages."""
