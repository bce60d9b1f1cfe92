"""TagLM: its LSTM against that of Keras, where language model states are added, what stays frozen, and a whole cell."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import heads, loop, settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import tagging
from ptmbench.bench.adapt.settings import SettingError, recorded
from ptmbench.bench.adapt.taglm import Own
from ptmbench.bench.adapt.taglm import network as taglm
from ptmbench.bench.engine import networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

RNG = np.random.default_rng(0)
TOKENS = tf.constant([[2, 7, 8, 3], [2, 9, 3, 0]])
TEXT = "Vodia Zenna Marko sees knows asks the old miller baker river today again"
TOKENIZER = Tokenizer.train("word", [TEXT] * 3, 60)
SHAPE = Size(layers=2, width=32, heads=2, inner=32, length=32)


def vectors(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def keras_lstm(way):
    """Returns the Keras LSTM with the weights of ``way``. Keras orders the gates i, f, g, o."""

    def gates(x):
        g, i, f, o = np.split(x.numpy(), 4, axis=-1)
        return np.concatenate([i, f, g, o], axis=-1)

    layer = keras.layers.LSTM(way.config.cells, return_sequences=True)
    layer.build((None, None, way.config.inputs))
    layer.set_weights([gates(way.gates.kernel), gates(way.recurrent.kernel), gates(way.gates.bias)])
    return layer


def test_each_direction_matches_the_keras_lstm_and_ignores_padding():
    """Compares each row, cut off at its padding, with the LSTM of Keras."""
    made = taglm.BiLstm(5, 3, "lstm")
    for variable in made.variables:
        variable.assign(vectors(*variable.shape))
    x, lengths = vectors(3, 6, 5), [6, 4, 1]
    found = made(tf.constant(x), tf.constant(lengths)).numpy()
    forward, backward = (keras_lstm(way) for way in (made.both.forward_lstm, made.both.backward_lstm))
    for row, length in enumerate(lengths):
        real = x[row : row + 1, :length]
        assert np.allclose(found[row, :length, :3], forward(real)[0], atol=1e-5)
        assert np.allclose(found[row, :length, 3:], backward(real[:, ::-1])[0][::-1], atol=1e-5)


def encoding(layers):
    return Encoding(tokens=tf.constant(layers[-1]), pooled=tf.constant(layers[-1][:, 0]), layers=tuple(layers))


def reading(depth=2, **changes):
    made = taglm.Reading(type("Encoder", (), {"width": 6, "depth": depth}), Own(hidden=4, **changes))
    for variable in made.variables:
        variable.assign(vectors(*variable.shape))
    return made


def normal(x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("place", ["input", "first", "second"])
@pytest.mark.parametrize("layers", ["", "embedding", "all"])
def test_language_model_states_are_concatenated_at_the_chosen_place(place, layers):
    three = [vectors(2, 4, 6) * 3 for _ in range(3)]
    made = reading(place=place, layers=layers)
    found = made(encoding(three), {"tokens": TOKENS}).tokens.numpy()

    m = normal(three[2])
    if layers == "all":
        share = np.exp(made.mix.numpy()) / np.exp(made.mix.numpy()).sum()
        m = sum(s * normal(layer) for s, layer in zip(share, three, strict=True))

    def with_language_model(x, here):
        return np.concatenate([x, m], axis=-1) if here == place and layers != "embedding" else x

    lengths = tf.constant([4, 3])
    h = made.first(tf.constant(with_language_model(normal(three[0]), "input")), lengths).numpy()
    wanted = with_language_model(made.second(tf.constant(with_language_model(h, "first")), lengths).numpy(), "second")
    assert found.shape == (2, 4, 8 + 6 * (place == "second" and layers != "embedding"))
    assert np.allclose(found, wanted, atol=1e-5)


def test_flops_of_the_taggers_own_layers_are_counted():
    """By hand with D = 6 and C = 4, and with language model states after the first layer.

    Matrices have 6 + 4 and 8 + 6 + 4 rows and 16 columns, in two directions, with two FLOPs for each weight.
    """
    assert reading().flops_per_token == 2 * 2 * 16 * ((6 + 4) + (8 + 6 + 4))
    assert reading(layers="embedding").flops_per_token == 2 * 2 * 16 * ((6 + 4) + (8 + 4))


def test_dropout_applies_in_training_but_not_in_prediction():
    three, made = [vectors(2, 4, 6) for _ in range(3)], reading(dropout=0.5)

    def read(**batch):
        return made(encoding(three), {"tokens": TOKENS, **batch}).tokens.numpy()

    one, other = (tf.constant([0, number]) for number in (1, 2))
    assert np.array_equal(read(seed=one), read(seed=one)) and not np.allclose(read(seed=one), read(seed=other))
    assert np.array_equal(read(), read()) and not np.allclose(read(), read(seed=one))
    seen = []
    step = taglm.Step(lambda batch, seed: seen.append(batch), [keras.Variable(1.0)])
    step.loss({"tokens": TOKENS}, one)
    assert seen[0]["seed"] is one


def test_unsuitable_encoders_and_tasks_are_rejected():
    with pytest.raises(NotApplicable, match="layers=embedding") as found:
        reading(depth=0)
    assert found.value.code == "no-context"
    assert reading(depth=0, layers="embedding")
    with pytest.raises(NotApplicable, match="for tagging tasks"):
        heads.of(Form.CLASSIFICATION, "taglm")


def test_default_settings_are_those_of_the_paper():
    chosen = settings.defaults(Form.TAGGING, "taglm")
    assert (chosen.place, chosen.crf, chosen.dropout, chosen.clip) == ("first", 1, 0.25, 5.0)
    assert recorded(chosen)["crf"] == 1 and settings.read("taglm", recorded(chosen)) == chosen
    assert settings.baked(settings.changed(chosen, {"place": "second", "epochs": 3})) == Own(place="second")
    with pytest.raises(SettingError, match="input, first or second"):
        settings.changed(chosen, {"place": "third"})


def planted(count, offset):
    """Returns sentences in which each name is a person if it comes first, and a place if last: context decides."""
    words = TEXT.split()
    names, verbs, others = words[:3], words[3:6], words[6:]
    found = []
    for i, (a, verb, b) in enumerate(itertools.islice(itertools.cycle(itertools.product(names, verbs, names)), count)):
        noun = others[(i + offset) % len(others)]
        words, gold = ((a, verb, "the", noun), ("I-PER", "O", "O", "O"))
        if (i + offset) % 2:
            words, gold = (("the", noun, verb, b), ("O", "O", "O", "I-LOC"))
        found.append(Example(id=str(i), inputs=words, gold=gold))
    return found


def test_the_tagger_is_trained_and_the_language_model_stays_frozen():
    examples = planted(24, 0)
    chosen = Own(hidden=8, epochs=40, batch=8, length=16, patience=40, learning_rate=0.03)
    codec = tagging.Codec(load("conll2003"), TOKENIZER, chosen, examples)
    keras.utils.set_random_seed(0)
    network = models.load("elmo").build(SHAPE, TOKENIZER.vocabulary)
    begun = networks.weights(network.loss.variables)
    made = Adapted(network, TOKENIZER.vocabulary, Form.TAGGING, "taglm", codec.outputs, chosen, lambda rows: 0.0)
    made.reset(begun, 0)
    # Two LSTMs of two directions, and the head's kernel, bias and chain.
    assert len(made.learning) == len(made.own) == 2 * 2 * 3 + 5
    rows = codec.rows(examples)
    course = loop.train(made, rows, chosen, 0, itertools.count().__next__)  # the last state counts as the best
    assert course.curve[-1]["loss"] < course.curve[0]["loss"] / 5
    new_sentences = planted(12, 5)
    found = codec.predictions(new_sentences, codec.rows(new_sentences), loop.outputs(made, codec.rows(new_sentences)))
    assert found == [list(example.gold) for example in new_sentences]
    after = networks.weights(network.loss.variables)
    assert all(np.array_equal(after[name], value) for name, value in begun.items())


@pytest.mark.slow
def test_a_cell_runs_from_data_to_a_record(tmp_path):
    (tmp_path / "data/conll2003").mkdir(parents=True)
    for name in ("eng.train", "eng.testa", "eng.testb"):
        sentences = ("\n".join(f"{w} X X {t}" for w, t in zip(e.inputs, e.gold, strict=True)) for e in planted(12, 0))
        (tmp_path / "data/conll2003" / name).write_text("-DOCSTART- -X- -X- O\n\n" + "\n\n".join(sentences) + "\n")
    chosen = settings.changed(settings.defaults(Form.TAGGING, "taglm"), {"epochs": 2, "hidden": 4, "batch": 6})
    cell = Cell(
        row=Row(name="random-lm_lstm", kind="random", model="lm_lstm", size="tiny"), task="conll2003", task_version=1,
        form=Form.TAGGING, data_sha256="x", adaptation="taglm", settings=recorded(chosen), seed=0, tokenizer="x",
    )  # fmt: skip
    context = Context(data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    found = record.read(record.write(context.out, result))
    assert found.cost["steps"] == 4 and found.task["examples"] == 12
