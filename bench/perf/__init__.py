"""Measurements of speed that anybody can repeat: ``python -m bench perf NAME``. What they gave stands in README.md."""
