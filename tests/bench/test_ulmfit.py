"""ULMFiT's fine-tuning: rates and layers against hand-computed values, its step against plain AdamW, and its cost."""

import signal
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import built, first, loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.rated import RatedStep
from ptmbench.bench.adapt.settings import SettingError, Settings, baked, changed, defaults, recorded
from ptmbench.bench.adapt.ulmfit import Own
from ptmbench.bench.adapt.ulmfit import network as ulmfit
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.engine.stopping import Unfinished
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form
from tests.bench.test_loop import Quiet

SIZE = Size(layers=2, width=8, heads=2, inner=8, length=32)
VOCABULARY = Vocabulary(size=60)


def test_slanted_rates_match_equation_3():
    """By hand with T = 40 and cut = 4: rates rise by 31/32 of the peak in 4 steps, and fall in 36."""
    found = [ulmfit.slanted(step, 40) for step in (0, 1, 4, 22, 40)]
    assert found == pytest.approx([1 / 32, (1 + 31 / 4) / 32, 1.0, (1 + 31 / 2) / 32, 1 / 32])
    assert all(0 < ulmfit.slanted(step, 3) <= 1 for step in range(3))


def test_layers_are_counted_from_the_embeddings_to_the_head():
    paths = ["reading/hidden/kernel", "encoder/tokens", "encoder/layer_0_input", "encoder/stack/layer_1/norm/scale"]
    assert ulmfit.groups(paths) == [3, 0, 1, 2]
    encoder = models.load("ulmfit").build(SIZE, VOCABULARY).encoder
    assert ulmfit.groups([v.path for v in encoder.variables]) == [0, 1, 1, 1, 2, 2, 2]
    assert ulmfit.groups([v.path for v in encoder.variables], "encoder/tokens/table") == [3, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(("model", "lowest"), (("ulmfit", 1), ("gpt", 0), ("elmo", 1), ("elmo_cnn", 0)))
def test_the_output_layer_of_a_language_model_is_its_last_group(model, lowest):
    """The table that is both input and output learns at the full rate, and each layer below it 2.6 times slower.

    This holds from the first step on. Inputs only, such as positions and characters, form the lowest group.
    """
    network = models.load(model).build(SIZE, VOCABULARY)
    first = ulmfit.First(network, VOCABULARY, Form.CLASSIFICATION)
    ulmfit.rate(first.step, 0, 40, Own(), first.output)
    shares = {v.path: share for v, share in zip(first.step.variables, first.step.shares.numpy(), strict=True)}
    full = {path for path, share in shares.items() if share == 1}
    table = {
        "elmo": {"encoder/embeddings/table", "loss/output_bias"},
        "elmo_cnn": {"loss/words/table", "loss/output_bias"},
        "gpt": {"encoder/embeddings/tokens/table"},
        "ulmfit": {"encoder/tokens/table", "loss/output_bias"},
    }
    assert full == table[model]
    assert sorted(set(shares.values())) == pytest.approx([2.6 ** (g - 3) for g in range(lowest, 4)])


def test_each_epoch_unfreezes_one_layer_and_lower_layers_learn_slower():
    step = RatedStep(lambda *a: None, _variables())
    settings = Own(epochs=4, learning_rate=1.0)
    for number, expected in ((0, [0, 0, 1]), (9, [0, 0, 1]), (10, [0, 1 / 2.6, 1]), (25, [2.6**-2, 1 / 2.6, 1])):
        peak = ulmfit.rate(step, number, 40, settings)
        assert step.shares.numpy() == pytest.approx(expected)
        assert peak == pytest.approx(ulmfit.slanted(number, 40))
    off = changed(settings, {"slanted": 0, "unfreeze": 0, "discriminative": 1})
    assert ulmfit.rate(step, 0, 40, off) == 1.0 and step.shares.numpy().tolist() == [1, 1, 1]


def test_a_share_of_the_rate_equals_a_smaller_learning_rate():
    """Three steps of a weight with a share of 0.25 equal plain AdamW with a quarter of the rate.

    A share of 0 moves nothing, not even by weight decay.
    """

    def trained(kind, shares, rate):
        variables = _variables()
        made = kind(lambda batch, seed: {"loss": _loss(batch, variables)}, variables, weight_decay=0.1)
        if shares:
            made.shares.assign(shares)
        for number in range(3):
            made({"x": np.float32([[1.0 + number, 2.0]])}, (0, number), rate)
        return [v.numpy() for v in variables]

    begun, plain = [v.numpy() for v in _variables()], trained(TrainStep, None, 0.1)
    slow = trained(TrainStep, None, 0.025)
    found = trained(RatedStep, [0.25, 0.0, 1.0], 0.1)
    # Gradients of one weight do not depend on the others here, and their common norm stays below the clip.
    assert np.allclose(found[0], slow[0], atol=1e-6) and np.allclose(found[2], plain[2], atol=1e-6)
    assert np.array_equal(found[1], begun[1]) and not np.allclose(plain[1], begun[1])


def test_concat_pooling_ignores_padding():
    import keras

    keras.utils.set_random_seed(0)
    tokens = np.random.default_rng(0).normal(size=(1, 4, 8)).astype(np.float32)
    encoding = Encoding(tokens=tf.constant(tokens), pooled=tf.constant(tokens[:, 1]), layers=())
    reading = ulmfit.Reading(type("Encoder", (), {"width": 8}), Own())
    pooled = reading(encoding, {"tokens": tf.constant([[5, 6, 0, 0]])}).pooled
    real = tokens[0, :2]
    wanted = np.concatenate([real[1], real.max(axis=0), real.mean(axis=0)])
    kernel, bias = (v.numpy() for v in reading.hidden.variables)
    assert np.allclose(pooled[0], np.maximum(wanted @ kernel + bias, 0), atol=1e-5)
    plain = ulmfit.Reading(type("Encoder", (), {"width": 8}), Own(concat=0))
    assert np.array_equal(plain(encoding, {}).pooled, encoding.pooled) and not plain.variables


def test_texts_of_a_task_become_a_corpus():
    rows = [InputRow({"tokens": np.array(t, np.int32)}, 0) for t in ([2, 40, 1, 41, 3], [2, 3], [2, 42, 3, 43, 3, 0])]
    corpus = ulmfit.corpus_of(rows, VOCABULARY)
    assert corpus.ids.tolist() == [40, 1, 41, 42, 43]  # an unknown word counts as a word
    assert corpus.sentences.tolist() == [0, 3, 5] and corpus.documents.tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def reader():
    """An ULMFiT model, its initial weights, and 20 texts of 10 tokens that repeat a cycle of seven."""
    made = Adapted(
        models.load("ulmfit").build(SIZE, VOCABULARY), VOCABULARY, Form.CLASSIFICATION, "ulmfit", 4,
        Own(dropout=0.1), lambda rows: 0.0,
    )  # fmt: skip
    text = 40 + np.arange(200) % 7
    rows = [InputRow({"tokens": np.array([2, *text[i : i + 10], 3], np.int32)}, i) for i in range(0, 200, 10)]
    return made, networks.weights(made.network.loss.variables), rows


def test_the_language_model_is_first_trained_on_the_texts_of_the_task(reader):
    """The loss on the texts of the task falls, and steps and tokens count what was read."""
    made, weights, rows = reader
    made.reset(weights, 1)
    settings = Own(lm_epochs=8, batch=4, length=16, learning_rate=0.03)
    probe = {"tokens": tf.constant(rows[0].arrays["tokens"][None, :-1])}
    before = float(made.network.loss(probe)["loss"])
    course = loop.prepare(made, rows, settings, 1, None)
    assert (course.steps, course.tokens) == (30, 30 * 64)  # 20 texts of 12 tokens with their marks, 8 times, 64 a step
    assert float(made.network.loss(probe)["loss"]) < before - 0.5
    for changes, steps in (({"lm_epochs": 0}, 0), ({"max_steps": 2}, 2)):
        assert loop.prepare(made, rows, changed(settings, changes), 1, None).steps == steps


@pytest.mark.parametrize("stopped", (7, None))
def test_interrupted_language_model_training_resumes_to_the_same_weights(reader, tmp_path, stopped):
    """It is interrupted after 7 of its 30 steps by a signal, or later, in head training, and then not repeated."""
    made, weights, rows = reader
    settings, taken, own = Own(lm_epochs=8, batch=4, length=16, learning_rate=0.03), [], made.first.step

    class Counting:
        def __call__(self, *asked):
            taken.append(asked[1])
            if len(taken) == stopped:
                signal.raise_signal(signal.SIGINT)
            return own(*asked)

        def __getattr__(self, name):
            return getattr(own, name)

    def learnt(bookmark):
        made.reset(weights, 1)
        return loop.prepare(made, rows, settings, 1, bookmark), networks.weights(made.network.loss.variables)

    straight, ended = learnt(None)
    made.first.step = Counting()
    try:
        with pytest.raises(KeyboardInterrupt) if stopped else nullcontext():
            learnt(Bookmark(tmp_path, 60.0 if stopped else -1.0, lambda line: None))
        course, found = learnt(Bookmark(tmp_path, 60.0, lambda line: None))
    finally:
        made.first.step = own
    assert (course.steps, course.tokens) == (straight.steps, straight.tokens) and len(taken) == 30
    assert all(np.array_equal(found[name], value) for name, value in ended.items())


def test_language_model_training_that_ends_early_raises_unfinished(reader, monkeypatch):
    made, weights, rows = reader
    made.reset(weights, 1)
    monkeypatch.setattr(first, "Stop", Quiet)
    with pytest.raises(Unfinished, match="ended after 1 of 30 steps"):
        loop.prepare(made, rows, Own(lm_epochs=8, batch=4, length=16), 1, None)


def test_unsuitable_models_and_tasks_are_rejected():
    for name, form, code in (
        ("bert", Form.CLASSIFICATION, "not-a-language-model"),
        ("gpt", Form.GENERATION, "no-head"),
    ):
        with pytest.raises(NotApplicable) as found:
            network = models.load(name).build(SIZE, VOCABULARY)
            Adapted(network, VOCABULARY, form, "ulmfit", 4, Own(), lambda rows: 0.0)
        assert found.value.code == code


def test_settings_are_recorded_only_where_they_apply():
    own = {"lm_epochs", "slanted", "discriminative", "unfreeze", "concat"}
    assert own <= set(recorded(defaults(Form.CLASSIFICATION, "ulmfit")))
    assert not own & set(recorded(Settings()))
    assert "layers" not in recorded(defaults(Form.CLASSIFICATION, "features"))
    top = changed(Settings(), {"layers": "top"})
    assert recorded(top)["layers"] == "top" and baked(top) == Settings(layers="top")
    for wrong in ({"layers": "middle"}, {"unfreeze": 2}, {"discriminative": 0}):
        with pytest.raises(SettingError):
            changed(Own(), wrong)


@pytest.mark.parametrize("adaptation", ("features", "finetune"))
def test_the_layers_setting_selects_the_layers_that_are_read(adaptation):
    """Changing the vectors of a layer changes the output if and only if that layer is read."""
    import importlib

    import keras

    batch = {"tokens": tf.constant([[5, 6, 7]]), "segments": tf.zeros([1, 3], tf.int32)}
    rng = np.random.default_rng(0)
    layers = [tf.constant(rng.normal(size=(1, 3, 8)).astype(np.float32)) for _ in range(4)]
    encoder = type("Encoder", (), {"width": 8, "depth": 2})
    for which, read in (("embedding", {0}), ("top", {2}), ("all", {0, 1, 2})):
        keras.utils.set_random_seed(0)
        reading = importlib.import_module(f"ptmbench.bench.adapt.{adaptation}.network").Reading(
            encoder, Settings(layers=which)
        )

        def values(three, reading=reading):
            encoding = Encoding(tokens=three[-1], pooled=tf.reduce_mean(three[-1], axis=1), layers=tuple(three))
            found = reading(encoding, batch)
            return np.concatenate([np.ravel(found.tokens), np.ravel(found.pooled)])

        plain = values(layers[:3])
        for place in range(3):
            other = [layers[3] if i == place else layer for i, layer in enumerate(layers[:3])]
            assert (place in read) == (not np.allclose(values(other), plain)), (which, place)


@pytest.mark.parametrize(("model", "each"), (("elmo", 0), ("elmo_cnn", 1)))
def test_reading_only_embeddings_costs_only_their_computation(model, each):
    """ELMo's embedding is looked up. That of ``elmo_cnn`` is computed from characters, half of its network."""
    rows = [InputRow({"tokens": np.array([2, 40, 41, 3], np.int32)}, 0)]
    made = built.traced.__wrapped__(
        model, SIZE, SimpleNamespace(vocabulary=VOCABULARY), Form.CLASSIFICATION, "features", 4,
        changed(defaults(Form.CLASSIFICATION, "features"), {"layers": "embedding"}), (), (),
    )  # fmt: skip
    spelled = each and models.load(model).describe(SIZE, VOCABULARY).embedding_flops(1)
    assert made.forward_flops(rows) == made.training_flops(rows) == 4 * spelled and bool(spelled) == bool(each)
    network = Network(models.load(model), SIZE, VOCABULARY)
    assert changed(Settings(length=8), {"layers": "embedding"}).flops(network, Form.CLASSIFICATION)[1] == 8 * spelled


@pytest.mark.parametrize(
    "adaptation", ("ulmfit", "extract", "seq2seq", "fused", "infill", "lm_seq2seq", "prompt", "unsupervised")
)
def test_adaptations_with_fixed_layers_reject_the_layers_setting(adaptation):
    """If accepted, the setting would name a row and count no FLOPs, although the top layer would still be read."""
    with pytest.raises(SettingError, match="layers=embedding is not valid. Expected: empty: the "):
        changed(defaults(Form.GENERATION, adaptation), {"layers": "embedding"})


def _variables():
    import keras

    paths, start = ("encoder/tokens", "encoder/layer_0_input", "head/kernel"), np.float32([[0.5, -0.25]])
    made = [keras.Variable(start * (i + 1), name=path.split("/")[1]) for i, path in enumerate(paths)]
    for variable, path in zip(made, paths, strict=True):
        variable._path = path
    return made


def _loss(batch, variables):
    return sum(tf.reduce_sum(0.01 * batch["x"] * v.value) for v in variables)
