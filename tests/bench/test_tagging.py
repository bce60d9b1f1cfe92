"""Tagging with a CRF and with the context of the document, against their definitions."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt.heads import crf, stack, tagging
from ptmbench.bench.adapt.settings import SettingError, Settings, changed, defaults, recorded
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

TEXTS = ["The old miller lives near the river .", "Who lives near the river ?", "Vodia sees the river !"] * 4
TOKENIZER = Tokenizer.train("wordpiece", TEXTS, 200)
V = TOKENIZER.vocabulary


def chain(rng, tags):
    return rng.normal(size=(tags, tags)), rng.normal(size=tags), rng.normal(size=tags)


def score(emissions, path, weights):
    transition, start, end = weights
    moves = sum(transition[a, b] for a, b in itertools.pairwise(path))
    return start[path[0]] + end[path[-1]] + moves + sum(e[tag] for e, tag in zip(emissions, path, strict=True))


def batch_of(rng, lengths, tags, longest):
    emissions = rng.normal(size=(len(lengths), longest, tags)) * 2
    inside = (np.arange(longest) < np.array(lengths)[:, None]).astype(float)
    return emissions, inside


def tensors(*arrays):
    return tuple(tf.constant(array, tf.float32) for array in arrays)


@pytest.mark.parametrize(("lengths", "tags"), [([1, 2, 5], 3), ([4, 3], 4), ([1], 2), ([6, 1, 1], 2)])
def test_crf_likelihood_and_decoding_match_an_enumeration_of_all_paths(lengths, tags):
    rng = np.random.default_rng(sum(lengths) * tags)
    weights = chain(rng, tags)
    emissions, inside = batch_of(rng, lengths, tags, max(lengths) + 1)  # at least one position of padding
    gold = rng.integers(0, tags, emissions.shape[:2])
    found = crf.log_likelihood(*tensors(emissions), tf.constant(gold, tf.int32), *tensors(inside), tensors(*weights))
    decoded = crf.best(*tensors(emissions), *tensors(inside), tensors(*weights)).numpy()
    for row, length in enumerate(lengths):
        paths = list(itertools.product(range(tags), repeat=length))
        scores = np.array([score(emissions[row, :length], path, weights) for path in paths])
        own = score(emissions[row, :length], gold[row, :length].tolist(), weights)
        assert found[row].numpy() == pytest.approx(own - np.logaddexp.reduce(scores), abs=1e-4)
        assert tuple(decoded[row, :length]) == paths[int(np.argmax(scores))]


def test_a_crf_without_weights_is_a_softmax_at_every_word():
    rng = np.random.default_rng(0)
    emissions, inside = batch_of(rng, [3, 5], 4, 6)
    gold = rng.integers(0, 4, (2, 6))
    nothing = np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    found = crf.log_likelihood(*tensors(emissions), tf.constant(gold, tf.int32), *tensors(inside), tensors(*nothing))
    each = np.take_along_axis(emissions - np.logaddexp.reduce(emissions, axis=-1)[..., None], gold[..., None], -1)
    assert found.numpy() == pytest.approx((each[..., 0] * inside).sum(axis=1), abs=1e-4)
    decoded = crf.best(*tensors(emissions), *tensors(inside), tensors(*nothing)).numpy()
    assert (decoded == emissions.argmax(-1))[inside > 0].all()


def test_the_crf_gradient_is_gold_minus_marginal():
    """d ln p / d start[k] = [y_1 = k] - p(y_1 = k), the definition of an exponential family."""
    rng = np.random.default_rng(3)
    weights = chain(rng, 3)
    emissions, inside = batch_of(rng, [4], 3, 4)
    variables = tuple(tf.Variable(tensor) for tensor in tensors(*weights))
    with tf.GradientTape() as tape:
        value = crf.log_likelihood(
            *tensors(emissions), tf.constant([[2, 0, 1, 1]]), *tensors(inside), tuple(v.value() for v in variables)
        )
    paths = list(itertools.product(range(3), repeat=4))
    shares = np.exp([score(emissions[0], path, weights) for path in paths])
    marginal = [sum(s for s, path in zip(shares, paths, strict=True) if path[0] == k) / shares.sum() for k in range(3)]
    gradient = tape.gradient(value, variables)[1].numpy()
    assert gradient == pytest.approx(np.array([0.0, 0.0, 1.0]) - marginal, abs=1e-4)


def test_other_lengths_in_the_batch_do_not_change_the_likelihood():
    rng = np.random.default_rng(1)
    weights = tensors(*chain(rng, 3))
    emissions, inside = batch_of(rng, [2, 7], 3, 7)
    gold = tf.constant(rng.integers(0, 3, (2, 7)), tf.int32)
    both = crf.log_likelihood(*tensors(emissions), gold, *tensors(inside), weights)
    alone = crf.log_likelihood(*tensors(emissions[:1, :2]), gold[:1, :2], *tensors(inside[:1, :2]), weights)
    assert both[0].numpy() == pytest.approx(alone[0].numpy(), abs=1e-5)


def document(*texts, group="1", start=0):
    return [
        Example(id=str(start + i), inputs=tuple(t.split()), gold=("B-PER", *["O"] * (len(t.split()) - 1)), group=group)
        for i, t in enumerate(texts)
    ]


def codec(**changes):
    return tagging.Codec(load("conll2003"), TOKENIZER, Settings(**changes), [])


def test_the_head_learns_to_tag_first_tokens_with_a_crf():
    examples = document(*TEXTS[:3])
    made = codec(crf=1)
    rows = made.rows(examples)
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    head = tagging.Head(made.outputs)
    vectors = tf.random.stateless_normal([*batch["tokens"].shape, 8], [1, 2])
    reading = Encoding(vectors, vectors[:, 0], [vectors])
    head(reading, batch)
    assert len(head.trainable_variables) == 5  # kernel and bias, transition, start and end
    losses = []
    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = head.loss(head(reading, batch), batch)
        for variable, gradient in zip(
            head.trainable_variables, tape.gradient(loss, [v.value for v in head.trainable_variables]), strict=True
        ):
            variable.assign_sub(0.3 * tf.convert_to_tensor(gradient))
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 5
    outputs = head.predicted(head(reading, batch), batch).numpy()
    assert made.predictions(examples, rows, list(outputs)) == [list(example.gold) for example in examples]
    unknown = [Example(id=e.id, inputs=e.inputs) for e in examples]  # tags are not needed to predict
    bare = {name: tf.constant(array) for name, array in stack(made.rows(unknown)).items()}
    assert (head.predicted(head(reading, bare), bare).numpy() == outputs).all()


def encoded(text):
    return [i for ids, _ in TOKENIZER.encode_words([text.split()]) for i in ids]


def test_context_fills_the_window_from_both_sides_of_the_document():
    texts = TEXTS[:3]
    examples = document(*texts) + document("Other river .", group="2", start=3)
    ids = [encoded(text) for text in texts]
    whole = codec(context=1, length=128).rows(examples)
    for row in whole[:3]:  # everything fits, so every row reads the whole document
        assert row.arrays["tokens"].tolist() == [V.cls, *ids[0], *ids[1], *ids[2], V.sep]
    assert whole[3].arrays["tokens"].tolist() == [V.cls, *encoded("Other river ."), V.sep]
    assert whole[1].note[1].min() == 1 + len(ids[0])
    room = len(ids[1]) + 6
    row = codec(context=1, length=room + 2).rows(examples)[1]
    assert row.arrays["tokens"].tolist() == [V.cls, *ids[0][-3:], *ids[1], *ids[2][:3], V.sep]
    first = codec(context=1, length=room + 2).rows(examples)[0]  # nothing before it, so the other side gets the room
    assert len(first.arrays["tokens"]) == room + 2 and first.arrays["tokens"][1] == ids[0][0]


@pytest.mark.parametrize("length", [6, 9, 14, 40, 128])
@pytest.mark.parametrize("group", ["1", None])
def test_context_words_are_not_tagged(length, group):
    examples = document(*TEXTS[:3], group=group)
    made = codec(context=1, length=length)
    rows = made.rows(examples)
    assert all(len(row.arrays["tokens"]) <= length for row in rows)
    for row in rows:
        own = [TOKENIZER.encode_words([[word]])[0][0][0] for word in examples[row.example].inputs]
        begin, places = row.note
        assert row.arrays["tokens"][places].tolist() == own[begin : begin + len(places)]
        assert (np.flatnonzero(row.arrays["tags"] >= 0) == places).all()
    outputs = [np.eye(16)[np.maximum(row.arrays["tags"], 0)] for row in rows]
    assert made.predictions(examples, rows, outputs) == [list(example.gold) for example in examples]
    plain = codec(length=length).rows(examples)
    if group is None:  # document boundaries are unknown
        assert all((a.arrays["tokens"] == b.arrays["tokens"]).all() for a, b in zip(rows, plain, strict=True))


def test_crf_and_context_are_0_or_1_and_recorded_only_if_set():
    settings = defaults(Form.TAGGING, "finetune")
    assert not {"crf", "context"} & set(recorded(settings))
    assert recorded(changed(settings, {"crf": "1"}))["crf"] == 1
    for value in ("2", "0.5"):
        with pytest.raises(SettingError, match="0 .off. or 1 .on."):
            changed(settings, {"context": value})
