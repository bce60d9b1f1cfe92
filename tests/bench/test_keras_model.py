"""Checkpoints as Keras models: the vectors of ``encode``, training, saving, int8, LoRA and export."""

import runpy
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import ptmbench
from ptmbench import models
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.networks import small

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["the cat sat on the mat .", "a dog", "", "fish swim in the sea all day long , and at night they sleep"]
CLOSE = 2e-5
QUICK = ("bert", "gpt2", "lm_lstm")
every_model = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.sweep) for name in models.names()]
)
OTHERS = tuple(pytest.param(name, marks=pytest.mark.sweep) for name in ("albert", "t5", "xlnet", "elmo", "ulmfit"))
KINDS = ("bert", *OTHERS)
SLOW_KINDS = (pytest.param("bert", marks=pytest.mark.slow), *OTHERS)
"""Models with kernels of different kinds."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def checkpoint_of(home):
    """Makes a small pre-trained checkpoint of a model, whose weights differ from those of a new network."""

    small_one = Tokenizer.train("wordpiece", TEXTS * 20, 120)

    def make(name, tokenizer=small_one):
        folder = home / f"{name}-{tokenizer.vocabulary.size}"
        if not folder.exists():
            module = models.load(name)
            shape = small(module)
            network = networks.build(name, shape, tokenizer, 3)
            about = {"kind": "pretrained", "model": name, "shape": asdict(shape)}
            arrays = {"weights": networks.weights(network.loss.variables)}
            checkpoint.write(folder, about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})
        return folder

    return make


@pytest.fixture
def bert(checkpoint_of):
    return ptmbench.load(checkpoint_of("bert"))


def outputs_of(model, inputs):
    return {name: np.asarray(array) for name, array in model(inputs).items()}


def assert_close(one, other, within=CLOSE):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=within, rtol=0)


@every_model
def test_vectors_equal_those_of_encode_before_and_after_saving(name, checkpoint_of, tmp_path):
    folder = checkpoint_of(name)
    model = ptmbench.load(folder)
    inputs = model.tokenize(TEXTS)
    found = outputs_of(model, inputs)
    np.testing.assert_allclose(found["pooled"], ptmbench.encode(folder, TEXTS, verbose=False), atol=CLOSE, rtol=0)
    by_token = ptmbench.encode(folder, TEXTS, by="token", batch=3, verbose=False)
    for row, expected in zip(found["tokens"], by_token, strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, atol=CLOSE, rtol=0)
    assert model.name == name and np.ptp(found["pooled"]) > 0
    model.save(tmp_path / "model.keras")
    again = ptmbench.load(tmp_path / "model.keras")
    assert_close(outputs_of(again, inputs), found, 0.0)
    assert again.tokenizer.fingerprint == model.tokenizer.fingerprint


def test_the_weights_are_those_of_the_checkpoint(checkpoint_of):
    folder = checkpoint_of("bert")
    found, model = checkpoint.read(folder), ptmbench.load(folder)
    arrays = found.arrays()
    assert all(np.array_equal(arrays[v.path], v.numpy()) for v in model.encoder.variables)
    network = networks.build("bert", Size(**found.about["shape"]), model.tokenizer, 0)
    assert not np.array_equal(network.encoder.variables[0].numpy(), model.encoder.variables[0].numpy())


def test_inputs_may_be_an_array_or_a_dict_and_are_checked(bert):
    inputs = bert.tokenize(TEXTS[:2], TEXTS[1::-1])
    both = outputs_of(bert, inputs)
    tokens, segments = inputs["tokens"], inputs["segments"]
    assert segments.max() == 1 and not np.allclose(outputs_of(bert, tokens)["pooled"], both["pooled"], atol=1e-4)
    assert_close(
        outputs_of(bert, {"tokens": tokens.astype("int64"), "segments": segments.astype("float32")}), both, 0.0
    )
    cut = np.where(np.arange(tokens.shape[1]) < 6, tokens, 0)
    assert_close(outputs_of(bert, {"tokens": tokens, "mask": cut != 0}), outputs_of(bert, cut), 0.0)
    with pytest.raises(ValueError, match="the unknown name 'token_ids'"):
        bert({"token_ids": tokens})
    with pytest.raises(ValueError, match="have no 'tokens'"):
        bert({"segments": segments})
    with pytest.raises(ValueError, match="too long"):
        bert(np.ones((1, 100), np.int32))


def test_tokenize_pads_truncates_and_checks_its_arguments(bert):
    inputs = bert.tokenize(TEXTS, length=10)
    assert {name: (array.shape, array.dtype) for name, array in inputs.items()} == dict.fromkeys(
        ("tokens", "segments"), ((4, 10), np.dtype("int32"))
    )
    assert (inputs["tokens"][:, 0] == 2).all() and inputs["tokens"][2].tolist() == [2, 3] + [0] * 8
    assert bert.tokenize(["the " * 200])["tokens"].shape == (1, bert.encoder.length)
    assert bert.tokenize([])["tokens"].shape == (0, 0)
    for wrong, words in (
        (lambda: bert.tokenize("a text"), "texts is a sequence"),
        (lambda: bert.tokenize(["a"], ["b", "c"]), "1 texts and 2 pairs"),
        (lambda: bert.tokenize(["a"], length=1000), "from 1 to 48"),
    ):
        with pytest.raises(UsageError, match=words):
            wrong()


def test_dropout_is_applied_only_in_training(bert):
    tokens = bert.tokenize(TEXTS)["tokens"]
    first, second = (np.asarray(bert(tokens, training=True)["pooled"]) for _ in range(2))
    plain = outputs_of(bert, tokens)["pooled"]
    assert not np.allclose(first, second, atol=1e-4) and np.array_equal(plain, outputs_of(bert, tokens)["pooled"])
    bert.encoder.dropout = 0.0
    np.testing.assert_allclose(bert(tokens, training=True)["pooled"], plain, atol=CLOSE)


def test_summary_names_the_encoder_and_counts_parameters(bert):
    lines = []
    bert.summary(print_fn=lines.append)
    assert "encoder (Encoder)" in "".join(lines) and f"{bert.count_params():,}" in "".join(lines)


@pytest.mark.parametrize("name", SLOW_KINDS)
def test_a_model_with_a_new_head_is_trained_and_saved(name, checkpoint_of, tmp_path):
    import keras

    keras.utils.set_random_seed(0)
    encoder = ptmbench.load(checkpoint_of(name))
    encoder.encoder.dropout = 0.0
    tokens, labels = encoder.tokenize(TEXTS, length=16)["tokens"], np.array([0, 1, 0, 1])
    given = keras.Input((None,), dtype="int32")
    model = keras.Model(given, keras.layers.Dense(2)(encoder(given)["pooled"]))
    model.compile(keras.optimizers.Adam(5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [variable.numpy() for variable in encoder.trainable_variables]
    losses = model.fit(tokens, labels, epochs=40, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    moved = [not np.array_equal(a, v.numpy()) for a, v in zip(before, encoder.trainable_variables, strict=True)]
    assert any(moved)
    model.save(tmp_path / "whole.keras")
    again = ptmbench.load(tmp_path / "whole.keras")
    np.testing.assert_array_equal(again.predict(tokens, verbose=0), model.predict(tokens, verbose=0))


@pytest.mark.parametrize("name", SLOW_KINDS)
def test_int8_changes_outputs_little_and_is_saved(name, checkpoint_of, tmp_path, recwarn):
    model = ptmbench.load(checkpoint_of(name))
    inputs = model.tokenize(TEXTS)
    before = outputs_of(model, inputs)
    model.quantize("int8")
    assert not [one for one in recwarn if "quantize" in str(one.message)]
    after = outputs_of(model, inputs)
    changed = np.abs(after["tokens"] - before["tokens"]).max()
    assert 0 < changed < 0.2 * np.abs(before["tokens"]).max()
    assert any(variable.dtype == "int8" for variable in model.variables)
    model.save(tmp_path / "int8.keras")
    assert_close(outputs_of(ptmbench.load(tmp_path / "int8.keras"), inputs), after, 0.0)


@pytest.mark.parametrize("name", KINDS)
def test_lora_trains_only_low_rank_kernels_and_is_saved(name, checkpoint_of, tmp_path):
    model = ptmbench.load(checkpoint_of(name))
    inputs = model.tokenize(TEXTS)
    before = outputs_of(model, inputs)
    model.enable_lora(2)
    assert_close(outputs_of(model, inputs), before)
    names = {variable.name for variable in model.trainable_variables}
    assert names == {"lora_kernel_a", "lora_kernel_b"}
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(0).normal(0, 0.1, variable.shape))
    after = outputs_of(model, inputs)
    assert not np.allclose(after["tokens"], before["tokens"], atol=1e-3)
    model.save(tmp_path / "lora.keras")
    again = ptmbench.load(tmp_path / "lora.keras")
    assert_close(outputs_of(again, inputs), after, 0.0)
    assert [v.shape for v in again.trainable_variables] == [v.shape for v in model.trainable_variables]
    with pytest.raises(UsageError, match="has low-rank updates already"):
        again.enable_lora(2)


def test_lora_is_refused_for_a_model_without_kernels(checkpoint_of):
    with pytest.raises(UsageError, match="glove has no kernels"):
        ptmbench.load(checkpoint_of("glove")).enable_lora(2)


@pytest.mark.parametrize("name", SLOW_KINDS)
def test_an_exported_model_gives_the_same_vectors(name, checkpoint_of, tmp_path):
    import tensorflow as tf

    model = ptmbench.load(checkpoint_of(name))
    inputs = model.tokenize(TEXTS)
    model.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    served = loaded.serve(inputs)
    assert_close({name: array.numpy() for name, array in served.items()}, outputs_of(model, inputs))


def test_load_raises_errors_for_other_files_and_adapted_checkpoints(checkpoint_of, tmp_path):
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        ptmbench.load(tmp_path)
    with pytest.raises(EnvironmentProblem, match="There is no file"):
        ptmbench.load(tmp_path / "model.keras")
    (tmp_path / "model.keras").write_bytes(b"no zip")
    with pytest.raises(EnvironmentProblem, match="cannot be read as a Keras model"):
        ptmbench.load(tmp_path / "model.keras")
    found = checkpoint.read(checkpoint_of("bert"))
    texts = {"tokenizer.json": found.path("tokenizer.json").read_text()}
    about = {**found.about, "kind": "adapted"}
    checkpoint.write(tmp_path / "adapted", about=about, arrays={"weights": found.arrays()}, texts=texts)
    with pytest.raises(CheckpointError, match="adapted, not pretrained. Use `predict` with it"):
        ptmbench.load(tmp_path / "adapted")


def test_encode_checks_its_arguments(checkpoint_of):
    folder = checkpoint_of("bert")
    assert ptmbench.encode(folder, [], verbose=False).shape == (0, 32)
    for wrong, words in (({"texts": "a"}, "texts is a sequence"), ({"texts": ["a"], "by": "word"}, "by is one of")):
        with pytest.raises(UsageError, match=words):
            ptmbench.encode(folder, **wrong)


@pytest.mark.slow
def test_the_fine_tuning_example_of_the_documentation_runs(checkpoint_of, world, tokenizer, monkeypatch, capsys):
    """Starts from word vectors, which learn in few steps."""
    monkeypatch.setattr(sys, "argv", ["example", str(checkpoint_of("word2vec", tokenizer)), str(world)])
    names = runpy.run_path(str(ROOT / "docs" / "examples" / "finetune_in_keras.py"))
    word, accuracy = capsys.readouterr().out.split()
    losses = names["model"].history.history["loss"]
    assert word == "accuracy" and 0.4 < float(accuracy) <= 1.0 and losses[-1] < losses[0]
