"""Measurements of speed that anybody can repeat: ``ptmbench perf NAME``. What they gave stands in README.md."""
