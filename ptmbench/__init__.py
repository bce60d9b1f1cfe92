"""ptmbench: pre-trained language models compared on the same corpus, vocabulary, size and compute.

The four packages under this name are folders of the repository: `ptmbench.bench` is the folder bench/,
`ptmbench.models` is the folder models/, and likewise `ptmbench.tasks` and `ptmbench.leaderboard`. setup.py maps them.
"""
