"""Programs that do the same work with other libraries. Each runs as a script in a separate process."""
