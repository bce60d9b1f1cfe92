"""Data sets of tasks and corpora for pre-training: fetching, making, checking and caching them."""
