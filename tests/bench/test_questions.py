"""``perf questions``: word similarity and analogies of vectors without a checkpoint, ours and those of peers."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ptmbench.bench.errors import UsageError
from ptmbench.bench.perf import perf, questions, vectors
from ptmbench.bench.perf.peers import mittens
from ptmbench.models.objectives import glove
from ptmbench.tasks.task import MissingData

PAIRS = "one,other,mark\n{}"
ANALOGIES = ": royal\nman king woman queen\n: number\ncat cats dog dogs\n"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "google_analogy").mkdir()
    (tmp_path / "google_analogy" / "questions-words.txt").write_text(ANALOGIES)
    return tmp_path


def test_vectors_are_scored_with_the_tasks_of_the_harness(data):
    """The vectors solve one of two analogies. A word without a vector is similar to no other word."""
    words = ["man", "woman", "king", "queen", "cat", "dog", "dogs"]
    result = np.float32([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    assert questions.score_vectors(questions.tasks_in(data), words, result) == {"word_analogy": 50.0}
    (data / "wordsim353").mkdir()
    (data / "wordsim353" / "combined.csv").write_text(PAIRS.format("Man,king,9\nman,woman,1\nman,unseen,1\n"))
    assert questions.score_vectors(questions.tasks_in(data), words, result)["word_similarity"] == pytest.approx(100.0)


def test_mittens_gets_the_cooccurrence_counts_of_glove(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "text").write_text("\n".join(" ".join(rng.choice(list("abcdefgh"), n)) for n in (1, 5, 30, 12)))
    vectors.prepare(tmp_path, [tmp_path / "text"])
    text = vectors.text_in(tmp_path)
    one, other, counts = glove.count(text)
    theirs = mittens.counted(text.ids.take(np.arange(text.tokens)) - 37, text.sentences, glove.WINDOW)
    assert np.count_nonzero(theirs) == len(counts)
    np.testing.assert_allclose(theirs[one - 37, other - 37], counts)


def test_errors_are_reported_before_training(data, tmp_path):
    command = ["questions", "--data", str(tmp_path / "none")]
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="not 'elmo'"):
        CliRunner().invoke(perf, [*command, "--models", "elmo"], catch_exceptions=False)
    with pytest.raises(MissingData, match="wordsim353"):
        CliRunner().invoke(perf, command, catch_exceptions=False)
    (tmp_path / "text").write_text(" ".join(f"w{number}" for number in range(mittens.LARGEST + 1)))
    command = ["questions", "--data", str(data), "--corpus", str(tmp_path / "text"), "--peer", "mittens"]
    with pytest.raises(UsageError, match="8001 different words"):
        CliRunner().invoke(perf, command, catch_exceptions=False)


@pytest.mark.parametrize("model", ("word2vec", "cbow", "glove"))
def test_words_that_occur_together_get_similar_vectors(model, tmp_path):
    """Words of two groups never occur together. Pairs within a group have to become more similar than mixed pairs."""
    rng = np.random.default_rng(0)
    worlds = ["abcdefgh", "stuvwxyz"]
    (tmp_path / "text").write_text("\n".join(" ".join(rng.choice(list(worlds[n % 2]), 8)) for n in range(800)))
    (tmp_path / "wordsim353").mkdir()
    similarities = {one + other: 9 if (one < "i") == (other < "i") else 1 for one in "abst" for other in "cduv"}
    lines = "\n".join(f"{one},{other},{mark}" for (one, other), mark in similarities.items())
    (tmp_path / "wordsim353" / "combined.csv").write_text(PAIRS.format(lines))
    shape = ["--width", "16", "--batch", "4", "--length", "64", "--threads", "1", "--seeds", "1", "--json"]
    given = ["--data", str(tmp_path), "--corpus", str(tmp_path / "text"), "--models", model, "--epochs", "20"]
    done = CliRunner().invoke(perf, ["questions", *given, *shape], catch_exceptions=False)
    (row,) = map(json.loads, done.output.splitlines())
    assert (row["model"], row["by"], row["times"]) == (model, "ours", 50 if model == "glove" else 20)
    assert float(row["word_similarity"].split()[0]) > 80 and "word_analogy" not in row
