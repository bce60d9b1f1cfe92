"""Denoising autoencoders (survey, section 3.1.4): restore a text from what noise left of it."""
