"""Figures and pages of diagnoses: the numbers to show (`views`), interactive and print figures, HTML pages."""
