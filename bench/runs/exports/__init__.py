"""Exports: networks as files that other engines run without ptmbench. `bench.runs.exports.export` makes them.

`network` says what is computed, `portable` writes it with operators that all engines have, `formats` writes and runs
files, and `check` holds a file against the model. ``ptmbench export`` and ``ptmbench perf engines`` call them.
"""
