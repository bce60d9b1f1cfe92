"""Text and pictures: is a sentence true of a picture? On the embedded microworld, or on NLVR.

    ptmbench run pictures
    ptmbench run pictures --data DIR --corpus DIR/captions.txt

The corpus has pictures with captions, as docs/annotations.md describes. Its regions need the same features as the
task's (`tasks.shapes`). The random twin learns the task from the same pictures.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="text with pictures: whether a sentence is true of a picture, on the embedded microworld",
    models=("visualbert",),
    tasks=("nlvr",),
    budget=Budget(tokens=2_000_000),
    corpus=("scenes/*.txt",),
    vocabulary=200,
    recipe={"length": 32, "batch": 32},
    settings={"": {"length": 48, "learning_rate": 1e-3}},
    embedded=True,
)
