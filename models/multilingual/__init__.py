"""Multilingual models (survey, section 4.2.1)."""
