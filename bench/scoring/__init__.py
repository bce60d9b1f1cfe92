"""Predictions to scores, and to the files that scorers and test servers take. No TensorFlow."""
