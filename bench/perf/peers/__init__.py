"""Programs that do our work with the libraries of others, each run as a script in a process of its own."""
