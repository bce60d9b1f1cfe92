"""fastText's classifier: features by hand, training steps against plain SGD, and its row in a plan.

`tests.models.test_frozen` compares it with the authors' program.
"""

import numpy as np
import pytest

from ptmbench.bench import baselines
from ptmbench.bench.baselines import fasttext_classifier as fasttext
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.plan import Row, rows_of
from ptmbench.tasks import load
from ptmbench.tasks.task import Example


def test_words_and_bigrams_are_features():
    examples = [("a b a",), ("b a c", "a")]
    ids, ends, occurring = fasttext.features(examples, known=1, buckets=10**9)
    assert len(occurring) == len(set(ids)) and ends[-1] == len(ids)
    first, second = (occurring[ids[a:b]] for a, b in zip(ends[:-1], ends[1:], strict=True))
    # Known words are a, b and the end symbol. The bigrams of the first example are a b, b a, and a end.
    assert first[:4].tolist() == [0, 1, 0, 2] and len(first) == 4 + 3
    # c and all words of second texts are unknown. The first text has three bigrams, b a among them, the second one.
    assert second[:3].tolist() == [1, 0, 2] and len(second) == 3 + 3 + 1
    assert set(first[4:]) & set(second[3:]) == {first[5]}
    assert fasttext.hashed("a") == 0xE40C292C  # from FNV's own table


def test_a_step_is_plain_gradient_descent():
    """The reference is a loop over examples in float64, with the learning rate of each step."""
    rng = np.random.default_rng(1)
    ids, ends, gold = rng.integers(0, 6, 12), np.array([0, 3, 4, 9, 12]), np.array([2, 0, 1, 2])
    start = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    found = fasttext.fit(*(x.copy() for x in start), ids, ends, gold, epochs=2, rate=0.3, batch=1, seed=None)
    a, b = (x.astype(np.float64) for x in start)
    for turn in range(8):
        own, answer = ids[ends[turn % 4] : ends[turn % 4 + 1]], gold[turn % 4]
        h = a[own].mean(axis=0)
        slope = np.exp(b @ h) / np.exp(b @ h).sum() - np.eye(3)[answer]
        back = b.T @ slope / len(own)
        b -= 0.3 * (1 - turn / 8) * np.outer(slope, h)
        for feature in own:  # a feature that occurs twice is updated twice
            a[feature] -= 0.3 * (1 - turn / 8) * back
    assert np.allclose(found[0], a, atol=1e-5) and np.allclose(found[1], b, atol=1e-5)


def test_all_gradients_of_a_batch_use_the_weights_before_the_step():
    ids, ends, gold = np.array([0, 1, 1, 2]), np.array([0, 2, 4]), np.array([0, 1])
    b = np.array([[0.5, 1.0], [-1.0, 2.0]], np.float32)
    together, _ = fasttext.fit(np.ones((3, 2), np.float32), b.copy(), ids, ends, gold, epochs=1, rate=1.0, batch=2)
    moved = np.ones((3, 2))
    for own, answer in (([0, 1], 0), ([1, 2], 1)):
        slope = np.exp(b @ [1, 1]) / np.exp(b @ [1, 1]).sum() - np.eye(2)[answer]
        for feature in own:
            moved[feature] -= b.T @ slope / 2
    assert np.allclose(together, moved, atol=1e-5)


def test_word_order_can_be_learned():
    words = [f"w{i}" for i in range(12)]
    rng = np.random.default_rng(0)
    texts, gold = [], []
    for i in range(600):  # both classes have the same words, so a bag of words is at chance
        around = list(rng.choice(words, 4))
        pair = ["not", "good"] if i % 2 else ["good", "not"]
        texts.append((" ".join([*around[:2], *pair, *around[2:]]),))
        gold.append(i % 2)
    found = fasttext.shares(texts[:500], gold[:500], texts[500:], 2)
    assert found.shape == (100, 2) and np.allclose(found.sum(axis=1), 1.0, atol=1e-5)
    assert np.mean(found.argmax(axis=1) == gold[500:]) == 1.0
    assert np.array_equal(found, fasttext.shares(texts[:500], gold[:500], texts[500:], 2))


def test_the_row_is_only_planned_when_it_is_named():
    floor = baselines.by_default([load("rte")])
    names = [row.name for row in rows_of(["fasttext", "fasttext-classifier"], ["tiny"], floor)]
    assert names == ["fasttext", "random-fasttext", "fasttext-classifier", "bag-of-words", "majority"]
    assert Row.parse("fasttext-classifier", None).kind == "baseline" and Row.parse("fasttext", "tiny").model
    task = load("rte")
    labels = task.labels
    train = [Example(id=str(i), inputs=("rain falls", ("so it is", "no it snows")[i % 2]), gold=labels[i % 2])
             for i in range(40)]  # fmt: skip
    queries = [Example(id="a", inputs=("sun shines", "no it snows")), Example(id="b", inputs=("Rain", "SO it is"))]
    assert baselines.predict("fasttext-classifier", task, train, queries) == [labels[1], labels[0]]
    with pytest.raises(NotApplicable, match="because fasttext-classifier does not apply to regression tasks"):
        baselines.predict("fasttext-classifier", load("stsb"), train, queries)
