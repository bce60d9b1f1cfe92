"""Denoising autoencoders (survey, section 3.1.4): restore a text that noise has damaged."""
