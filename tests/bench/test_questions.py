"""Questions about words, asked of vectors that nobody's checkpoint holds: ours and peers', in the same way."""

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


def test_answers_are_those_of_the_harness(data):
    """Of two questions the one whose sums come out is right; a word that nobody saw is like no other."""
    words = ["man", "woman", "king", "queen", "cat", "dog", "dogs"]
    found = np.float32([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    assert questions.score_vectors(questions.tasks_in(data), words, found) == {"word_analogy": 50.0}
    (data / "wordsim353").mkdir()
    (data / "wordsim353" / "combined.csv").write_text(PAIRS.format("Man,king,9\nman,woman,1\nman,unseen,1\n"))
    assert questions.score_vectors(questions.tasks_in(data), words, found)["word_similarity"] == pytest.approx(100.0)


def test_mittens_is_given_the_counts_that_glove_learns_from(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "text").write_text("\n".join(" ".join(rng.choice(list("abcdefgh"), n)) for n in (1, 5, 30, 12)))
    vectors.prepare(tmp_path, [tmp_path / "text"])
    text = vectors.text_in(tmp_path)
    one, other, counts = glove.count(text)
    theirs = mittens.counted(text.ids.take(np.arange(text.tokens)) - 37, text.sentences, glove.WINDOW)
    assert np.count_nonzero(theirs) == len(counts)
    np.testing.assert_allclose(theirs[one - 37, other - 37], counts)


def test_what_cannot_be_asked_is_told_before_anything_is_trained(data, tmp_path):
    ask = ["questions", "--data", str(tmp_path / "none")]
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="not 'elmo'"):
        CliRunner().invoke(perf, [*ask, "--models", "elmo"], catch_exceptions=False)
    with pytest.raises(MissingData, match="wordsim353"):
        CliRunner().invoke(perf, ask, catch_exceptions=False)
    (tmp_path / "text").write_text(" ".join(f"w{number}" for number in range(mittens.LARGEST + 1)))
    ask = ["questions", "--data", str(data), "--corpus", str(tmp_path / "text"), "--peer", "mittens"]
    with pytest.raises(UsageError, match="8001 different words"):
        CliRunner().invoke(perf, ask, catch_exceptions=False)


@pytest.mark.parametrize("model", ("word2vec", "cbow", "glove"))
def test_vectors_of_words_that_keep_company_are_found_alike(model, tmp_path):
    """Words of two worlds that never meet: after some rounds every pair of one world is nearer than one of both."""
    rng = np.random.default_rng(0)
    worlds = ["abcdefgh", "stuvwxyz"]
    (tmp_path / "text").write_text("\n".join(" ".join(rng.choice(list(worlds[n % 2]), 8)) for n in range(800)))
    (tmp_path / "wordsim353").mkdir()
    alike = {one + other: 9 if (one < "i") == (other < "i") else 1 for one in "abst" for other in "cduv"}
    lines = "\n".join(f"{one},{other},{mark}" for (one, other), mark in alike.items())
    (tmp_path / "wordsim353" / "combined.csv").write_text(PAIRS.format(lines))
    shape = ["--width", "16", "--batch", "4", "--length", "64", "--threads", "1", "--seeds", "1", "--json"]
    given = ["--data", str(tmp_path), "--corpus", str(tmp_path / "text"), "--models", model, "--epochs", "20"]
    done = CliRunner().invoke(perf, ["questions", *given, *shape], catch_exceptions=False)
    (row,) = map(json.loads, done.output.splitlines())
    assert (row["model"], row["by"], row["times"]) == (model, "ours", 50 if model == "glove" else 20)
    assert float(row["word_similarity"].split()[0]) > 80 and "word_analogy" not in row
