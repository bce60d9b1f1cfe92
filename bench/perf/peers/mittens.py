"""GloVe of mittens (Dingwall and Potts, 2018), trained on request: a peer of `bench.perf.questions`.

That module runs this file in a separate process, possibly with another Python, so it imports nothing of the project.
mittens fits all counts at once by AdaGrad, from a table of all pairs of words. The counts are those of Pennington et
al. (2014, section 4.2): 1 / d for two words at distance d.

    python -P mittens.py '{"data": "FOLDER", "vectors": "FILE", ...}'      then one request per line on stdin
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

LARGEST = 8000
"""Maximum number of different words. A table of all pairs then takes half a gigabyte, and about six are in memory."""


def counted(ids, ends, window):
    """The table of counts, float64 [V, V], in the order of ids."""
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
    sys.modules["tensorflow"] = None  # keeps mittens from importing it for its other class, which needs TensorFlow 1
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
