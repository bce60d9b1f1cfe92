"""Stacked embeddings: the tokens of each word, the concatenated vectors, what is trained, and the cost."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import heads, loop, settings
from ptmbench.bench.adapt.built import adapted, traced
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.adapt.stacked import Own
from ptmbench.bench.adapt.stacked import head as codecs
from ptmbench.bench.adapt.stacked.network import Reading
from ptmbench.bench.engine import networks
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

RNG = np.random.default_rng(0)
TEXT = "Vodia Zenna Marko sees knows asks the old miller baker river today again"
CHARACTERS = Tokenizer.train("character", [TEXT] * 3, 90)
WORDS = Tokenizer.train("word", [TEXT] * 3, 60)
SHAPE, WIDE = Size(layers=1, width=12, length=64), Size(layers=0, width=8, length=64)
TASK = load("conll2003")


def vectors(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def sentence(text, tags=None):
    return Example(id=text, inputs=tuple(text.split()), gold=tags and tuple(tags.split()))


def codec_of(*tokenizers, **changes):
    made = codecs.Codec(TASK, CHARACTERS, Own(**{"length": 64, **changes}), ())
    made.join(tokenizers)
    return made


def test_words_are_aligned_with_the_tokens_of_each_model():
    """By hand: after [CLS], "▁" and 5, 3 and 3 characters; or one token for each word, of which one is unknown."""
    (row,) = codec_of(WORDS).rows([sentence("Vodia saw the", "I-PER O O")])
    a = row.arrays
    assert CHARACTERS.pieces(a["tokens"]) == ["[CLS]", *"▁Vodia▁saw▁the", "[SEP]"]
    assert WORDS.pieces(a["tokens_1"]) == ["[CLS]", "Vodia", "[UNK]", "the", "[SEP]"]
    assert a["firsts_0"].tolist() == [1, 1 + 6, 1 + 6 + 4] and a["firsts_1"].tolist() == [1, 2, 3]
    assert a["places"].tolist() == [0, 1, 2] and a["tags"].tolist() == [
        TASK.labels.index(t) for t in ("I-PER", "O", "O")
    ]
    assert not a["segments_1"].any() and row.tokens == 16 and "tokens_2" not in a
    # Each array of a batch is padded to its own longest row.
    long = codec_of(WORDS).rows([sentence("Vodia saw the old old old")])[0]
    batch = heads.stack([row, long])
    assert batch["tokens"].shape[1] > batch["tokens_1"].shape[1] == 8 == batch["tags"].shape[1]
    assert batch["places"][0].tolist() == [0, 1, 2, -1, -1, -1, -1, -1] and batch["tags"][1].tolist() == [-1] * 8


def test_sentences_are_split_where_either_model_runs_out_of_room():
    """By hand: a row of 12 has room for 10 tokens. As characters with "▁", the words take 4, 4, 6, 11 and 4 of them."""
    asked = sentence("the old river understands the", "O O I-LOC O O")
    rows = codec_of(WORDS, length=12).rows([sentence(""), asked])
    assert [(row.example, row.note[0], len(row.arrays["places"])) for row in rows] == [
        (1, 0, 2), (1, 2, 1), (1, 3, 1), (1, 4, 1)
    ]  # fmt: skip
    assert all(len(row.arrays["tokens"]) <= 12 for row in rows)
    assert WORDS.pieces(rows[0].arrays["tokens_1"]) == ["[CLS]", "the", "old", "[SEP]"]
    logits = [np.eye(16)[row.arrays["tags"]] for row in rows]
    assert codec_of(WORDS, length=12).predictions([sentence(""), asked], rows, logits) == [[], list(asked.gold)]
    # With the models swapped, the word tokens run out of room: a row of 5 holds 3.
    other = codecs.Codec(TASK, WORDS, Own(length=5), ())
    other.join([Tokenizer.train("word", ["none of these"] * 3, 60)])
    assert [len(row.arrays["places"]) for row in other.rows([asked])] == [3, 2]


def normal(x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6)


def encoder(width, depth):
    return SimpleNamespace(width=width, depth=depth)


@pytest.mark.parametrize("layers", ["", "embedding", "all"])
def test_vectors_of_both_models_are_concatenated_for_each_word(layers):
    made = Reading(encoder(4, 1), Own(hidden=3, layers=layers), encoder(6, 0))
    for variable in made.variables:
        variable.assign(vectors(*variable.shape))
    one, other = [vectors(2, 5, 4) * 3 for _ in range(2)], vectors(2, 3, 6)
    firsts_0, firsts_1 = np.array([[1, 3], [2, 0]]), np.array([[0, 2], [1, 0]])
    batch = {"firsts_0": firsts_0, "firsts_1": firsts_1, "places": np.array([[0, 1], [0, -1]])}
    found = made(encoding(one), batch, encoding([other])).tokens.numpy()

    own = {"": normal(one[1]), "embedding": normal(one[0])}
    if layers == "all":
        share = np.exp(made.mixes[0].numpy()) / np.exp(made.mixes[0].numpy()).sum()
        own["all"] = share[0] * normal(one[0]) + share[1] * normal(one[1])
    first = np.concatenate([own[layers][0, [1, 3]], normal(other)[0, [0, 2]]], axis=-1)  # [W, 4 + 6]
    second = np.concatenate([own[layers][1, [2]], normal(other)[1, [1]]], axis=-1)
    assert np.allclose(found[0], made.tagger(tf.constant(first[None]), tf.constant([2]))[0], atol=1e-5)
    assert np.allclose(found[1, :1], made.tagger(tf.constant(second[None]), tf.constant([1]))[0], atol=1e-5)
    assert found.shape == (2, 2, 6) and made.flops_per_word == 2 * 2 * 4 * 3 * (4 + 6 + 3)


def encoding(layers):
    return Encoding(tokens=tf.constant(layers[-1]), pooled=tf.constant(layers[-1][:, 0]), layers=tuple(layers))


def planted(count, offset=0):
    """Returns sentences in which a name is a person if it comes first, and a place if it comes last."""
    words = TEXT.split()
    names, verbs, others = words[:3], words[3:6], words[6:]
    found = []
    for i, (a, verb) in enumerate(itertools.islice(itertools.cycle(itertools.product(names, verbs)), count)):
        noun = others[(i + offset) % len(others)]
        pair = (f"{a} {verb} the {noun}", "I-PER O O O"), (f"the {noun} {verb} {a}", "O O O I-LOC")
        found.append(sentence(*pair[(i + offset) % 2]))
    return found


CHOSEN = Own(hidden=8, epochs=30, batch=6, length=40, patience=40, learning_rate=0.03, dropout=0.1)


@pytest.fixture(scope="module")
def pair():
    """A Flair of characters and a GloVe of words as extra encoder, the codec, training rows, and both weights."""
    examples = planted(12)
    codec = codecs.Codec(TASK, CHARACTERS, CHOSEN, examples)
    codec.join([WORDS])
    beside = (Neighbour("glove", WIDE, WORDS),)
    made = adapted("flair", SHAPE, CHARACTERS, Form.TAGGING, "stacked", codec.outputs, settings.baked(CHOSEN), beside)
    weights = [networks.weights(network.loss.variables) for network in (made.network, *made.neighbours)]
    return made, codec, codec.rows(examples), weights


def test_the_tagger_is_trained_and_both_encoders_stay_frozen(pair):
    made, codec, rows, (own, beside) = pair
    made.reset(own, 0, [beside])
    assert len(made.learning) == len(made.own) == 2 * 3 + 5  # two directions, and the head's kernel, bias and chain
    loop.train(made, rows, CHOSEN, 0, itertools.count().__next__)  # the last state counts as the best
    asked = planted(12, 5)
    found = codec.predictions(asked, codec.rows(asked), loop.outputs(made, codec.rows(asked)))
    assert found == [list(example.gold) for example in asked]
    for network, begun in zip((made.network, *made.neighbours), (own, beside), strict=True):
        after = networks.weights(network.loss.variables)
        assert all(np.array_equal(after[name], value) for name, value in begun.items())


def test_predictions_use_both_encoders_but_gradients_reach_neither(pair):
    made, _, rows, (own, beside) = pair
    made.reset(own, 0, [beside])
    batch = heads.stack(rows[:4])
    before = made.forward(batch)
    frozen = [*made.network.encoder.variables, *made.neighbours[0].encoder.variables]
    with tf.GradientTape() as tape:
        tape.watch([v.value for v in frozen])
        loss = made.losses({name: tf.constant(array) for name, array in batch.items()}, None)["loss"]
    gradients = tape.gradient(loss, [v.value for v in (*frozen, *made.own)])
    assert all(g is None for g in gradients[: len(frozen)]) and all(g is not None for g in gradients[len(frozen) :])
    for which in (0, 1):
        weights = [own, beside]
        weights[which] = {name: vectors(*value.shape) for name, value in weights[which].items()}
        made.reset(weights[0], 0, weights[1:])
        emissions = made._outputs(batch, None)
        made.reset(own, 0, [beside])
        assert not np.allclose(emissions, made._outputs(batch, None))
    assert np.array_equal(made.forward(batch), before)


def test_flops_of_both_encoders_and_the_tagger_are_counted(pair):
    """By hand from the formulas of both model files.

    Flair takes 2 x 2 x 2 x 6 x 24 FLOPs for each of its tokens, GloVe none, and the tagger
    2 x 2 x 4 x 8 x (12 + 8 + 8) for each word.
    """
    made, _, rows, _ = pair
    tokens, words = sum(row.tokens for row in rows), sum(len(row.arrays["places"]) for row in rows)
    flair, tagger = tokens * 2 * 2 * 2 * 6 * 24, words * 2 * 2 * 4 * 8 * (12 + 8 + 8)
    assert made.forward_flops(rows) == flair + tagger and made.training_flops(rows) == flair + 3 * tagger
    beside = (Neighbour("flair", SHAPE, CHARACTERS),)
    chosen = settings.baked(Own(encoders="flair", hidden=8))
    turned = traced.__wrapped__("glove", WIDE, WORDS, Form.TAGGING, "stacked", (16, True), chosen, beside, ())
    codec = codecs.Codec(TASK, WORDS, CHOSEN, ())
    codec.join([CHARACTERS])
    other = codec.rows(planted(12))  # the same tokens, with the encoders swapped
    assert turned.encoder_flops(other) == flair and turned.forward_flops(other) == flair + tagger


def test_equal_weight_names_in_two_encoders_do_not_collide():
    beside = (Neighbour("word2vec", WIDE, WORDS),)
    chosen = settings.baked(Own(encoders="word2vec", hidden=8))
    made = traced.__wrapped__("glove", WIDE, WORDS, Form.TAGGING, "stacked", (16, True), chosen, beside, ())
    arrays = {name: vectors(*array.shape) for name, array in made.arrays().items()}
    both = [name for name in arrays if f"beside_1/{name}" in arrays]
    assert both and all(arrays[name].shape == arrays[f"beside_1/{name}"].shape for name in both)
    for order in (list(arrays), list(reversed(arrays))):  # a file may list them in any order
        made.assign({name: arrays[name] for name in order})
        assert all(np.array_equal(array, arrays[name]) for name, array in made.arrays().items())


def test_an_interrupted_training_resumes_to_the_same_weights(pair, tmp_path, monkeypatch):
    made, _, rows, (own, beside) = pair
    short = dataclasses.replace(CHOSEN, epochs=3)

    def fitted(folder):
        made.reset(own, 1, [beside])
        course = loop.train(
            made, rows, short, 1, lambda: -made.mean_loss(rows), Bookmark(folder, -1.0, lambda line: None)
        )
        return dataclasses.asdict(course), made.state()

    course, state = fitted(None)
    assert course["steps"] == 6
    taken, step = itertools.count(), made.step

    class Killed(BaseException):
        """Stands for a signal: no `except Exception` catches it."""

    class Killing:
        def __call__(self, *asked):
            if next(taken) == 3:
                raise Killed
            return step(*asked)

        def __getattr__(self, name):
            return getattr(step, name)

    monkeypatch.setattr(made, "step", Killing())
    with pytest.raises(Killed):
        fitted(tmp_path)
    monkeypatch.undo()
    again, ended = fitted(tmp_path)
    assert again == course and all(np.array_equal(a, b) for a, b in zip(ended, state, strict=True))
