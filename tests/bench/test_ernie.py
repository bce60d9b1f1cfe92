"""A model that reads entities: annotation of a text, pre-training that is killed and resumed, and evaluation."""

import json
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.leaderboard.records import record
from ptmbench.models.text.pieces import VECTORS
from ptmbench.tasks.microworld import documents
from ptmbench.tasks.microworld.lexicon import lexicon
from ptmbench.tasks.microworld.world import world
from tests.bench.processes import PATIENCE, ROOT, start, states, wait_for

WIDTH = 20


def transe(triples: np.ndarray, entities: int, steps: int = 300, rate: float = 0.05) -> np.ndarray:
    """TransE (Bordes et al., 2013) for one relation, with squared distances, a margin of 1 and plain gradient descent.

    Returns vectors [entities, WIDTH] in which h + r is closer to t than to random tails, for the ``triples`` (h, t).
    """
    rng = np.random.default_rng(0)
    vectors, relation = rng.normal(0, 0.5, (entities, WIDTH)), rng.normal(0, 0.5, WIDTH)
    for _ in range(steps):
        head, tail = triples.T
        other = rng.integers(0, entities, len(tail))
        near, far = (vectors[head] + relation - vectors[end] for end in (tail, other))
        wrong = ((near**2).sum(1) + 1 > (far**2).sum(1))[:, None]
        for ends, change in ((head, far - near), (tail, near), (other, -far)):
            np.add.at(vectors, ends, rate * wrong * change)
        relation += rate * (wrong * (far - near)).mean(0)
        vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))
    return vectors


def ptmbench(*arguments: object) -> str:
    command = [sys.executable, "-m", "ptmbench", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A microworld text with annotated people and places. Their vectors are trained on co-mentions in a line."""
    rng, words = random.Random("entities"), lexicon(0)
    there = world(rng, words, people=30)
    lines = [line for document in documents.corpus(documents.Teller(rng, words, there), tokens=9000, foreign=0.0)
             for line in (*document, "")]  # fmt: skip
    names = {" ".join(person.name.words): "PER" for person in there.people}
    names |= {" ".join(place.words): "LOC" for place in words.places}
    pattern = re.compile(r"\b(" + "|".join(sorted(map(re.escape, names), key=len, reverse=True)) + r")\b")
    spans = {n: [[*m.span(), m[0], m[0]] for m in pattern.finditer(line)] for n, line in enumerate(lines, 1)}
    said = sorted({span[2] for found in spans.values() for span in found})
    index = {name: number for number, name in enumerate(said)}
    co_mentions = [(index[a[2]], index[b[2]]) for found in spans.values() for a in found for b in found if a[0] < b[0]]
    assert len(said) > 20 and len(co_mentions) > 20
    vectors = transe(np.array(co_mentions), len(said))
    folder = tmp_path_factory.mktemp("text")
    path, annotation, known = folder / "world.txt", folder / "lines.jsonl", folder / "transe"
    path.write_text("\n".join(lines) + "\n")
    annotation.write_text(
        "".join(json.dumps({"line": n, "entities": found}) + "\n" for n, found in spans.items() if found)
    )
    known.mkdir()
    (known / VECTORS[0]).write_text(f"{len(said)}\n" + "".join(f"{name}\t{number}\n" for name, number in index.items()))
    np.savetxt(known / VECTORS[1], vectors, delimiter="\t")
    ptmbench("data", "annotate", path, "--lines", annotation, "--vectors", f"entities={known}")
    return path


@pytest.mark.slow
def test_a_killed_pretraining_resumes_to_the_same_weights_and_is_scored(text, tmp_path):
    """The checkpoint contains the frozen entity vectors. A task without entities can be evaluated."""
    uninterrupted, out = tmp_path / "straight", tmp_path / "killed"
    whole = start(text, uninterrupted, "--steps", "40", model="ernie_thu")
    assert whole.wait(timeout=PATIENCE) == 0, whole.stderr.read()
    process = start(text, out, "--steps", "40", "--save-every", "0.01", model="ernie_thu")
    wait_for(lambda: len(states(out)) > 1 or process.poll() is not None)
    process.kill()
    process.communicate()
    assert not out.exists() and states(out), "the training ended before it could be killed: more steps"
    last = start(text, out, "--steps", "40", model="ernie_thu")
    _, said = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0, said
    one, other = checkpoint.read(uninterrupted), checkpoint.read(out)
    assert one.weights_sha256 == other.weights_sha256
    symbols = json.loads((out / "tokenizer.json").read_text())["symbols"]["entities"]
    rows = dict(zip(
        (line.split("\t")[0] for line in (text.parent / "transe" / VECTORS[0]).read_text().split("\n")[1:]),
        np.loadtxt(text.parent / "transe" / VECTORS[1], dtype=np.float32), strict=False,
    ))  # fmt: skip
    table = other.arrays()["encoder/entities/table"]
    assert not table[0].any() and np.array_equal(table[1:], [rows[symbol] for symbol in symbols])
    assert other.about["curve"][-1]["dea_loss"] < 0.9 * other.about["curve"][0]["dea_loss"]
    ptmbench("evaluate", out, "--tasks", "sst2", "--seeds", "1", "--limit", "64", "--jobs", "1", "--out",
             tmp_path / "run", "--set", "length=32", "--set", "batch=8", "--set", "epochs=1")  # fmt: skip
    (found,) = [record.read(path) for path in (tmp_path / "run" / "records").iterdir()]
    assert 0 < found.scores["accuracy"]["value"] <= 100
