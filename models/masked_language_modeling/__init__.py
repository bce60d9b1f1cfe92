"""Masked language modeling (survey, section 3.1.2): recover hidden tokens, also with an encoder and a decoder."""
