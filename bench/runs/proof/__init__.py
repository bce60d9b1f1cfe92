"""The proof that models train on this machine's devices, for ``ptmbench doctor --accelerator``.

Each model is trained for a few steps at each size, in a separate process: compiled by XLA, in bfloat16, on one device
and mirrored over all devices, stopped and resumed. `cases` starts the processes, and each runs `case`. `graph` examines
the traced step, `text` makes the corpus, and `report` makes the table. The proof leaves no checkpoint.
"""
