"""Other pre-training tasks (survey, section 3.1.6): neighbouring sentences, translation."""
