"""Times `predict`'s path and an export that reads raw text, in turns in one process, on one core.

ptmbench export CHECKPOINT --format saved_model --texts 1 --out exports/sst2
python docs/examples/time_texts.py CHECKPOINT exports/sst2/saved_model TEXT

CHECKPOINT is adapted to a task with one text, TEXT a file with a text a line. It prints, by batch size, the median
processor time of the path of `predict` and the median over turns of its ratio to the export's: above 1 the export is
faster. Both times have the share of the tokenizer: all but the network of `predict`, and the signature tokenize.
"""

import os
import statistics
import sys
import time
from pathlib import Path

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

from ptmbench.bench import environment  # noqa: E402
from ptmbench.bench.adapt import predictor  # noqa: E402
from ptmbench.bench.engine import checkpoint  # noqa: E402
from ptmbench.tasks.task import Example  # noqa: E402

TURNS = 15


def seconds(function, *given):
    """Processor time of a call."""
    began = time.process_time()
    function(*given)
    return time.process_time() - began


environment.prepare(threads=1)
source, folder, file = map(Path, sys.argv[1:4])
trained = predictor.load(checkpoint.read(source))
loaded = tf.saved_model.load(str(folder))
serve, tokenize = loaded.signatures["serving_default"], loaded.signatures["tokenize"]
lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
print("| batch | predict, ms | of it tokenizer | x predict | tokenizer of the graph, ms |\n|---|---|---|---|---|")
for batch in (1, 8, 32):
    times, ratios = {"predict": [], "rows": [], "tokenize": []}, []
    for turn in range(TURNS + 2):
        texts = [lines[(turn * batch + n) % len(lines)] for n in range(batch)]
        examples = [Example(id=str(n), inputs=(text,), gold=None) for n, text in enumerate(texts)]
        inputs = tf.constant(texts)
        for _ in range(2):  # the first call may trace a new shape
            ours, theirs = seconds(trained.answer, examples), seconds(serve, inputs)
            rows, ids = seconds(trained.rows, examples), seconds(tokenize, inputs)
        if turn > 1:
            ratios.append(ours / theirs)
            for name, value in (("predict", ours), ("rows", rows), ("tokenize", ids)):
                times[name].append(1000 * value)
    whole, rows, ids = (statistics.median(times[name]) for name in ("predict", "rows", "tokenize"))
    print(f"| {batch} | {whole:.1f} | {rows / whole:.0%} | {statistics.median(ratios):.2f} | {ids:.1f} |", flush=True)
