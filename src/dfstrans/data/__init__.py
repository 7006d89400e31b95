"""Recordings: storage, reading, writing, checks, scaling, segmentation and splits."""
