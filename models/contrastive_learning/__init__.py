"""Contrastive learning (survey, section 3.1.5): tell observed text from random or generated replacements."""
