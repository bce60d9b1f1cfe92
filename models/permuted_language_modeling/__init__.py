"""Permuted language modeling (survey, section 3.1.3): predict tokens in a random order."""
