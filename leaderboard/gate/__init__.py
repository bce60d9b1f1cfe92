"""The gate: compares HEAD with BASE, estimates the drop and its uncertainty, and returns a verdict."""
