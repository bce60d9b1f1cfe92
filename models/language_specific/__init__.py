"""Language-specific models (survey, section 4.2.2)."""
