"""Figures and pages of diagnoses: numbers to show (`views`), figures, print figures, HTML pages."""
