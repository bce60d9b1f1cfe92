"""Exports: networks as files that other engines run without ptmbench. `bench.runs.exports.export` makes them.

`options` has the options of an export, `network` defines the function to export, `portable` rewrites it with operators
that all engines have, and `formats` writes and runs files. ``ptmbench export`` and ``ptmbench perf engines`` call them.
"""
