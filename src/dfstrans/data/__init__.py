"""Recordings: how they are held, read, written, checked, scaled, cut and split."""
