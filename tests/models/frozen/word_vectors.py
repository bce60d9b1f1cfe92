"""Computes gradients and vectors of our models of word vectors, with the tables below.

The tables of the references have no names, so all tables are drawn from seeds (`random`).
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.baselines import fasttext_classifier as classifier
from ptmbench.models.card import Size
from ptmbench.models.layers.vectors import hashed, ngrams, spelled
from ptmbench.models.objectives import hierarchical_softmax, skipgram
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import Frozen

WORDS, WIDTH, WINDOW = 40, 8, 3
COUNTS = np.sort(np.random.default_rng(1).choice(5000, WORDS, replace=False) + 1)[::-1]
"""Counts in descending order. gensim numbers words by frequency, so the numbers are the same on both sides."""
UNSEEN = WORDS - 1
"""The noise word, which no text contains. gensim ignores noise that equals the predicted word, and we do not."""


def random(seed: int, *shape: int) -> np.ndarray:
    """Returns a random table. Products of two rows are large enough to differ clearly, but below 6, the end of gensim's
    sigmoid table."""
    return np.random.default_rng(seed).normal(0, 0.7, shape).astype(np.float32)


def sentences() -> list[np.ndarray]:
    """Returns two sentences that together are longer than a block of `skipgram.BLOCK` tokens."""
    rng = np.random.default_rng(2)
    return [rng.integers(0, UNSEEN, 25), rng.integers(0, UNSEEN, 20)]


def row(texts: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Returns ``texts`` as a batch of one row.

    All windows have the half width `WINDOW`, and all noise words are `UNSEEN`.
    """
    places = [np.arange(len(text)) + number * skipgram.FAR for number, text in enumerate(texts)]
    batch = {"tokens": np.concatenate(texts)[None], "places": np.concatenate(places)[None]}
    batch |= {"windows": np.full_like(batch["tokens"], WINDOW), "noise": np.full((1, 4), UNSEEN)}
    return {name: value.astype(np.int32) for name, value in batch.items()}


def gradients_of(loss, batch: dict, variables: list, totals: dict) -> list[np.ndarray]:
    """Returns the gradients of ``loss`` with respect to ``variables``. ``totals`` are the divisors of its sums."""
    with tf.GradientTape() as tape:
        value = loss(batch, totals=totals)["loss"]
    return [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(value, [v.value for v in variables])]


def centre_by_centre(loss, batch: dict, variables: list) -> list[np.ndarray]:
    """Returns the gradients of a loss over means of context vectors, multiplied by the number of context words.

    gensim, like the authors' program, adds the mean's whole gradient to each vector of the mean, although each vector's
    true gradient is only a share of it. Here each row has one centre: positions are doubled, so that all other words,
    with windows of 1, have no context.
    """
    places, length = 2 * batch["places"], batch["tokens"].shape[1]
    rows = {name: np.repeat(value, length, axis=0) for name, value in (batch | {"places": places}).items()}
    rows["windows"] = np.ones_like(rows["windows"]) + (2 * WINDOW - 1) * np.eye(length, dtype=np.int32)
    numbers = (np.abs(places - places.T) <= 2 * WINDOW).sum(axis=1) - 1  # of context words of each centre
    sums = [0.0, 0.0]
    for number in np.unique(numbers):
        chosen = {name: value[numbers == number] for name, value in rows.items()}
        results = gradients_of(loss, chosen, variables, {"words": 1})
        sums = [sums[0] + number * results[0], sums[1] + results[1]]
    return sums


def tables(name: str, rows: int = WORDS):
    """Returns the loss of the model ``name`` with random tables, and the tables as variables and as arrays."""
    built = models.load(name).build(Size(layers=0, width=WIDTH, length=64), Vocabulary(size=WORDS))
    variables = [built.encoder.table]
    variables += [variable for variable in built.loss.trainable_variables if variable is not built.encoder.table]
    arrays = [random(3, WORDS, WIDTH), random(4, rows, WIDTH)]
    assert np.abs(arrays[0] @ arrays[1].T).max() < 6
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return built.loss, variables, arrays


def gradients(name: str, frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the gradients of both tables for `sentences`.

    For models of means, also computes the gradient of the output table directly, without `centre_by_centre`.
    """
    hierarchical = name.endswith("_hs")
    loss, variables, _ = tables(name, WORDS - 1 if hierarchical else WORDS)
    batch = row(sentences())
    if hierarchical:
        paths = hierarchical_softmax.tree(COUNTS, hierarchical_softmax.longest_tree_path(WORDS))
        centres = hierarchical_softmax.find_centres(batch["places"], batch["windows"])
        batch |= {"paths": paths[batch["tokens"]], "centres": centres}
    if name.startswith("word2vec"):
        results = gradients_of(loss, batch, variables, {"pairs": 1})
        return dict(zip(("inputs", "outputs"), results, strict=True))
    results = dict(zip(("inputs", "outputs"), centre_by_centre(loss, batch, variables), strict=True))
    return results | {"plain_outputs": gradients_of(loss, batch, variables, {"words": 1})[1]}


def paths(words: int, frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the turns of a Huffman tree to each of ``words`` words, and their numbers.

    The turns are concatenated without padding.
    """
    counts = np.random.default_rng(words).choice(1 << 40, words, replace=False) + 1
    results = hierarchical_softmax.tree(counts, hierarchical_softmax.longest_tree_path(words))
    return {"turns": results[results != 0], "depths": (results != 0).sum(axis=1)}


LABELS = np.array([290, 170, 111, 70, 51, 30, 20, 7, 2])
"""Counts of the labels of the hierarchical classifier."""


def probabilities(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the probability of every label.

    In our tree, + is to the right, so nodes have fastText's vectors times -1.
    """
    loss, _, _ = tables("cbow_hs", WORDS - 1)
    nodes = random(6, len(LABELS), WIDTH)
    loss.nodes.table.assign(np.concatenate([-nodes[:-1], np.zeros((WORDS - len(LABELS), WIDTH))]))
    turns = hierarchical_softmax.tree(LABELS, hierarchical_softmax.longest_tree_path(len(LABELS)))
    h = frozen.given["hidden"][None, None, None]
    surprise = loss.negative_log_likelihood(tf.constant(turns[None]), tf.tile(h, [1, len(LABELS), 1, 1]))
    return {"probabilities": np.exp(-surprise.numpy().ravel())}


def documents(name: str, length: int) -> tuple[Pretrainable, list, np.ndarray]:
    """Returns the model, its tables with random values, and two texts of ``length`` words [2, T]."""
    built = models.load(name).build(Size(layers=1, width=WIDTH, inner=4, length=64), Vocabulary(size=WORDS))
    variables = [built.encoder.answers.table, built.encoder.documents.table]
    variables += [built.encoder.table] if name == "pv_dm" else []
    for seed, variable in enumerate(variables):
        variable.assign(random(seed, *variable.shape))
    return built, variables, np.random.default_rng(5).integers(0, UNSEEN, (2, length))


def paragraph_vectors(name: str, length: int, frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the gradients of the output table, and of the other tables if windows are as wide as texts."""
    built, variables, tokens = documents(name, length)
    batch = {"tokens": tokens.reshape(1, -1), "windows": np.full((1, 2 * length), 5)}
    batch |= {"documents": np.repeat([[1, 2]], length, axis=1), "noise": np.full((1, 4), UNSEEN)}
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    ours = gradients_of(built.loss, batch, variables, {"words": 1, "noise": 1})
    if name == "pv_dbow":
        return dict(zip(("answers", "documents"), ours, strict=True))
    if length > 6:
        return {"answers": ours[0]}
    return {"answers": ours[0], "documents": length * ours[1], "words": length * ours[2]}


PARTS = {"W": (WORDS, WIDTH), "C": (WORDS, WIDTH), "bw": (WORDS, 1), "bc": (WORDS, 1)}
"""Shapes of GloVe's tables by their names in mittens."""


def cooccurrences() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns co-occurrence counts on both sides of the bounds of the weights f(x), and the tables."""
    rng = np.random.default_rng(0)
    counts = np.exp(rng.uniform(-3, 8, (WORDS, WORDS))).astype(np.float32) * (rng.random((WORDS, WORDS)) < 0.4)
    return counts, {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in PARTS.items()}


def glove(frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the cost, the gradients, and the vectors.

    The cost of mittens is half the sum over all pairs. Ours is the mean over the pairs that occur.
    """
    counts, arrays = cooccurrences()
    loss = models.load("glove").build(Size(layers=0, width=WIDTH, length=64), Vocabulary(size=WORDS)).loss
    variables = [loss.encoder.table, loss.encoder.contexts.table, loss.bias, loss.context_bias]
    for variable, array in zip(variables, arrays.values(), strict=True):
        variable.assign(array.reshape(variable.shape))
    one, other = np.nonzero(counts)
    batch = {"tokens": one[None].astype(np.int32), "others": other[None].astype(np.int32)}
    batch["counts"] = counts[one, other][None].view(np.int32)
    with tf.GradientTape() as tape:
        value = loss(batch)["loss"]
    results = tape.gradient(value, [variable.value for variable in variables])
    words = np.arange(WORDS, dtype=np.int32)[None]
    return {
        "cost": np.asarray(value) * len(one) / 2,
        "vectors": np.asarray(loss.encoder({"tokens": words}).tokens[0]),
        **{
            name: tf.convert_to_tensor(gradient).numpy().reshape(PARTS[name]) * len(one) / 2
            for name, gradient in zip(PARTS, results, strict=True)
        },
    }


SPELLED = (
    "where", "the", "a", "of", "whereabouts", "café", "фыва", "日本", "naïve", "x-ray", "don't", "🙂", "1984", "ab",
)  # fmt: skip
BUCKETS = 50


def subwords(words: tuple[str, ...] = SPELLED) -> tuple[Pretrainable, Vocabulary]:
    """Returns the fastText model of ``words`` with random tables, and its vocabulary."""
    specials = Vocabulary(size=0).first
    vocabulary = Vocabulary(size=specials + len(words), pieces=(*map(str, range(specials)), *words))
    built = models.load("fasttext").build(Size(layers=0, width=WIDTH, inner=BUCKETS, length=64), vocabulary)
    rng = np.random.default_rng(0)
    for table in (built.encoder.table, built.encoder.ngrams.table):
        table.assign(rng.normal(0, 2.0, table.shape))  # means of 15 vectors are four times as small
    return built, vocabulary


def fasttext(frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the buckets and hashes of each word's n-grams, and its vector."""
    built, vocabulary = subwords()
    numbers = np.arange(vocabulary.first, vocabulary.size, dtype=np.int32)
    results = {"vectors": np.asarray(built.encoder({"tokens": numbers[None]}).tokens[0])}
    for number, word in enumerate(SPELLED):
        (marked,) = spelled([word])
        results[f"{number}/buckets"] = np.array([hashed(ngram) % BUCKETS for ngram in ngrams(marked)])
        results[f"{number}/hashes"] = np.array([hashed(ngram) for ngram in ngrams(marked)])
    return results


def five_letters() -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Returns twenty words of 15 parts each, the output table, and a text of twelve of these words."""
    rng = np.random.default_rng(1)
    words = tuple("".join(rng.choice(list("abcdé"), 5)) for _ in range(20))
    return words, rng.normal(0, 0.7, (Vocabulary(size=0).first + 20, WIDTH)), rng.integers(0, 19, 12)


def fasttext_gradient(frozen: Frozen | None = None) -> dict[str, np.ndarray]:
    """Computes the gradients of the tables, multiplied by 15 for words and n-grams.

    gensim, like the authors' program, adds a word's whole gradient to each of its 15 parts, although each part's true
    gradient is only a share of it.
    """
    words, contexts, text = five_letters()
    built, vocabulary = subwords(words)
    built.loss.contexts.table.assign(contexts)
    first, encoder = vocabulary.first, built.encoder
    batch = {"tokens": text[None] + first, "places": np.arange(12)[None], "windows": np.full((1, 12), 3)}
    batch["noise"] = np.full((1, 4), len(words) - 1 + first)
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    variables = [encoder.table, encoder.ngrams.table, built.loss.contexts.table]
    results = gradients_of(built.loss, batch, variables, {"pairs": 1})
    return {"words": 15 * results[0][first:], "ngrams": 15 * results[1], "contexts": results[2][first:]}


def labelled() -> tuple[list[str], list[str]]:
    """Returns forty texts and their labels. All have one length, because fastText's learning rate decays by words."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["a", "bé", "c", "d", "ee", "ф", "g"], 6)) for _ in range(40)]
    return texts, ["x" if "a" in text.split()[:3] else "y" for text in texts]


def fasttext_classifier(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes all weights after 20 epochs, from the initial weights of the authors' program."""
    texts, answers = labelled()
    ids, ends, occurring = classifier.features([(text,) for text in texts], len(texts), buckets=1000)
    ours = list(dict.fromkeys(word for text in texts for word in [*text.split(), "</s>"]))
    theirs, labels = (frozen.given[name].tolist() for name in ("words", "labels"))
    rows = [theirs.index(ours[f]) if f < len(ours) else f for f in occurring]
    assert len(ours) == len(theirs) and rows == frozen.given["rows"].tolist()
    gold = np.array([labels.index(answer) for answer in answers])
    first, answers = frozen.given["first"].copy(), np.zeros((2, 10), np.float32)
    results = classifier.fit(first, answers, ids, ends, gold, epochs=20, batch=1, seed=None)
    return {"inputs": np.asarray(results[0]), "outputs": np.asarray(results[1])}


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {
    **{name: partial(gradients, name) for name in ("word2vec", "word2vec_hs", "cbow", "cbow_hs")},
    **{f"tree_{words}": partial(paths, words) for words in (2, 37, 300)},
    **{
        f"{name}_{length}": partial(paragraph_vectors, name, length)
        for name in ("pv_dbow", "pv_dm")
        for length in (2, 6, 14)
    },
    "fasttext": fasttext,
    "fasttext_classifier": fasttext_classifier,
    "fasttext_gradient": fasttext_gradient,
    "glove": glove,
    "hierarchical_probabilities": probabilities,
}
"""Functions by the names of the files."""
