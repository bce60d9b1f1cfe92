"""GloVe of mittens (Dingwall and Potts, 2018), trained on request: what `bench.perf.questions` compares with.

Run by that module in a process of its own, perhaps with another Python: this file imports nothing of the project. The
peer fits all counts at once, by AdaGrad, from a table of every word with every other one; it is given the counts that
Pennington et al. (2014, section 4.2) describe, 1 / d for two words d places apart.

    python -P mittens.py '{"data": "FOLDER", "vectors": "FILE", ...}'      then one request a line on stdin
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

LARGEST = 8000
"""Words; a table of all pairs takes half a gigabyte then, and half a dozen are held."""


def counted(ids, ends, window):
    """The table of counts, float64 [V, V], in the order of the ids."""
    size = int(ids.max()) + 1
    sentence = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    table = np.zeros((size, size))
    for distance in range(1, window + 1):
        same = sentence[:-distance] == sentence[distance:]
        one, other = ids[:-distance][same], ids[distance:][same]
        np.add.at(table, (one, other), 1.0 / distance)
        np.add.at(table, (other, one), 1.0 / distance)
    return table


def main():
    c = json.loads(sys.argv[1])
    sys.modules["tensorflow"] = None  # its other class is for TensorFlow 1
    glove = importlib.import_module("mittens").GloVe
    data = np.load(Path(c["data"]) / "text.npz")
    ids, ends = data["ids"] - data["ids"].min(), data["sentences"]
    for line in sys.stdin:
        json.loads(line)
        began = time.perf_counter()
        np.random.seed(c["seed"])
        model = glove(n=c["width"], max_iter=c["epochs"], display_progress=0)
        np.save(c["vectors"], np.asarray(model.fit(counted(ids, ends, c["window"])), np.float32))
        print(json.dumps({"seconds": time.perf_counter() - began, "value": model.errors[-1]}), flush=True)


if __name__ == "__main__":
    main()
