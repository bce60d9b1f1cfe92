"""Language modeling (survey, section 3.1.1): predict the next token."""
