"""Model compression (survey, section 4.5)."""
