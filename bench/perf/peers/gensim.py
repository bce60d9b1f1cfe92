"""word2vec of gensim, timed on request: the peer of `bench.perf.vectors` and `bench.perf.questions`.

These modules run this file in a separate process, possibly with another Python, so it imports nothing of the project.
gensim's compiled loops train the vectors, in the given number of threads, on lists of words, which its users give it.

    python -P gensim.py '{"model": "word2vec", "data": "FOLDER", ...}'      then one request per line on stdin
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from gensim.models import Word2Vec


def main():
    c = json.loads(sys.argv[1])
    data = np.load(Path(c["data"]) / "text.npz")
    words, ends = [str(number) for number in data["ids"].tolist()], data["sentences"].tolist()
    sentences = [words[begin:end] for begin, end in zip(ends[:-1], ends[1:], strict=True)]
    model = Word2Vec(
        vector_size=c["width"],
        window=c["window"],
        negative=c["negatives"],
        sample=c["sample"],
        sg=int(c["model"] == "word2vec"),
        min_count=1,
        workers=c["threads"],
        seed=c["seed"],
    )
    model.build_vocab(sentences)
    spent = {"place": 0, "words": 0, "cpu": 0.0}

    def part():
        """Trains on at least ``c["words"]`` words, in whole sentences, from the end of the last part."""
        chosen, found = [], 0
        while found < c["words"]:
            chosen.append(sentences[spent["place"] % len(sentences)])
            found += len(chosen[-1])
            spent["place"] += 1
        began = time.process_time()
        model.train(chosen, total_examples=len(chosen), epochs=1)
        spent["cpu"] += time.process_time() - began
        spent["words"] += found
        return {"words": spent["words"], "cpu": spent["cpu"]}

    def train():
        """Trains for all epochs at gensim's own learning rates, and saves the vectors in the order of ids."""
        model.train(sentences, total_examples=len(sentences), epochs=c["epochs"])
        np.save(c["vectors"], model.wv[[str(number) for number in np.unique(data["ids"]).tolist()]])
        spent["words"] += c["epochs"] * len(words)

    jobs = {"part": part, "train": train}
    for line in sys.stdin:
        request = json.loads(line)
        began, before = time.perf_counter(), spent["words"]
        for _ in range(request["times"]):
            value = jobs[request["job"]]()
        seconds = (time.perf_counter() - began) * request["times"] * c["words"] / (spent["words"] - before)
        print(json.dumps({"seconds": seconds, "value": value}), flush=True)


if __name__ == "__main__":
    main()
