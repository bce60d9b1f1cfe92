"""The proof that models train on this machine's devices, for ``ptmbench doctor --accelerator``.

Each model is trained for a few steps at each size, in a process of its own: compiled by XLA, in bfloat16, on one device
and mirrored over all devices, stopped and resumed. `cases` runs the processes, `case` is what a process does, `graph`
examines the traced step, `text` makes the corpus, and `report` makes the table. No checkpoint is made.
"""
