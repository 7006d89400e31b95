"""Diagnosis from attention: which sensors deviate, when, which pairs are coupled unusually, and how far to trust it."""
