"""Tests of the contract of every network. They run over each file of `models`, so that a new model is tested as soon as
it exists."""

import math

import numpy as np
import pytest

from ptmbench.bench.engine import networks
from ptmbench.models.card import Architecture
from ptmbench.models.objective import PAIRS
from tests.models.networks import (
    LENGTH,
    ROWS,
    VOCABULARY,
    build,
    corpus_of,
    every_model,
    made,
    seed,
    small,
    swept_model,
    text,
)


@every_model
def test_described_parameters_match_the_network(name):
    model = made(name)
    total, tables = model.module.describe(small(model.module), VOCABULARY).parameters()
    assert total == sum(math.prod(variable.shape) for variable in networks.model_variables(model.built.loss))
    assert 0 < tables <= total


@every_model
def test_description_matches_the_capabilities_of_the_network(name):
    model = made(name)
    described, built = model.module.describe(small(model.module), VOCABULARY), model.built
    assert described.writes == (built.decode is not None)
    assert described.reads_again == (built.decode is not None and built.writer is None)
    assert described.tells_likelihood == (built.log_likelihood is not None)
    assert described.fills == (built.fill is not None)
    assert described.tells_originals == (built.originality is not None)
    assert described.fills_gaps == (built.gap_likelihood is not None)
    for is_capable, count_flops in (
        (described.writes, lambda: described.decode_flops(LENGTH, 3)),
        (described.tells_likelihood, lambda: described.likelihood_flops(LENGTH)),
        (described.fills_gaps, lambda: described.gap_flops(LENGTH)),
    ):
        assert not is_capable or count_flops() > 0


@every_model
def test_paths_are_unique_and_stable(name):
    model = made(name)
    paths = [variable.path for variable in model.built.loss.variables]
    again = build(model.module, small(model.module))
    assert len(set(paths)) == len(paths)
    assert [variable.path for variable in again.loss.variables] == paths
    inside = {variable.path for variable in model.built.encoder.variables}
    assert inside <= set(paths)
    assert all(path.startswith("encoder/") for path in inside)


@every_model
def test_seed_determines_the_weights(name):
    import keras

    model, drawn = made(name), []
    for number in (7, 7, 8):
        keras.utils.set_random_seed(number)
        built = build(model.module, small(model.module))
        drawn.append(np.concatenate([np.ravel(variable) for variable in built.loss.variables]))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@every_model
def test_shapes_of_the_encoding(name):
    encoder = made(name).built.encoder
    batch = text()
    encoding = encoder(batch)
    rows, length = batch["tokens"].shape
    assert encoding.tokens.shape == (rows, length, encoder.width)
    assert encoding.pooled.shape == (rows, encoder.width)
    assert len(encoding.layers) == encoder.depth + 1
    assert all(layer.shape == (rows, length, encoder.width) for layer in encoding.layers)
    assert np.array_equal(encoding.tokens, encoding.layers[-1])
    assert all(np.isfinite(layer).all() for layer in encoding.layers)
    without = encoder({"tokens": batch["tokens"], "segments": np.zeros_like(batch["tokens"])})
    assert np.allclose(without.tokens, encoder({"tokens": batch["tokens"]}).tokens, atol=1e-6)


@every_model
def test_layers_computed_step_by_step_match_the_encoding(name):
    """For stepwise encoders. Half of the examples leave after each step."""
    import tensorflow as tf

    from ptmbench.models.layers.core import Rows

    encoder = made(name).built.encoder
    if not getattr(encoder, "stepwise", False):
        pytest.skip(f"{name} is not stepwise.")
    batch = {key: tf.constant(value) for key, value in text().items()}
    count, length = batch["tokens"].shape
    encoding, left = encoder(batch), np.arange(count)
    x, bias = encoder.entered(batch)
    for index in range(encoder.depth):
        if index:
            stay = np.arange(0, len(left), 2)
            left = left[stay]
            x = tf.reshape(tf.gather(tf.reshape(x, [-1, length, encoder.width]), stay), [-1, encoder.width])
            bias = tf.gather(bias, stay) if bias.shape[0] > 1 else bias
        x = encoder.stack.step(index, x, bias, Rows(len(left), length))
        layer = x if index + 1 < encoder.depth else encoder.ended(x)
        expected = np.asarray(encoding.layers[index + 1])[left]
        assert np.allclose(np.reshape(layer, expected.shape), expected, atol=1e-5)
    assert len(left) > 0 and (len(left) < count or encoder.depth == 1)


@pytest.mark.sweep
@swept_model
def test_encoding_in_bfloat16(name):
    """The outputs are close to those in float32."""
    import keras

    model, batch = made(name), text()
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rounded = build(model.module, small(model.module))
    finally:
        keras.config.set_dtype_policy(policy)
    for variable, weight in zip(rounded.loss.variables, model.built.loss.variables, strict=True):
        variable.assign(weight)
    exact, result = model.built.encoder(batch), rounded.encoder(batch)
    present = batch["tokens"] > 0
    for expected, given in ((exact.pooled, result.pooled), (exact.tokens[present], result.tokens[present])):
        assert np.abs(np.asarray(given, np.float32) - expected).mean() < 0.05 * np.abs(expected).mean()


@every_model
def test_padding_does_not_change_the_encoding(name):
    encoder = made(name).built.encoder
    batch, wider = text(), text(fill=7)
    short, long = encoder(batch), encoder(wider)
    present = batch["tokens"] > 0
    for layer, other in zip(short.layers, long.layers, strict=True):
        assert np.allclose(np.asarray(layer)[present], np.asarray(other)[:, : present.shape[1]][present], atol=1e-5)
    assert np.allclose(short.pooled, long.pooled, atol=1e-5)


@every_model
def test_causal_encoders_do_not_depend_on_later_tokens(name):
    encoder = made(name).built.encoder
    batch = text(rows=1)
    changed = batch["tokens"].copy()
    changed[0, 8] = VOCABULARY.first + (changed[0, 8] + 1 - VOCABULARY.first) % (VOCABULARY.size - VOCABULARY.first)
    before = np.asarray(encoder(batch).tokens)
    after = np.asarray(encoder(batch | {"tokens": changed}).tokens)
    change = np.abs(before - after).max(axis=(0, 2))
    assert change[8] > 1e-4
    if encoder.causal:
        assert change[:8].max() < 1e-6


@every_model
def test_one_trace_serves_every_shape(name):
    import tensorflow as tf

    encoder = made(name).built.encoder
    spec = {key: tf.TensorSpec([None, None], tf.int32) for key in ("tokens", "segments")}
    graph = tf.function(lambda batch: encoder(batch).tokens, input_signature=[spec])
    for batch in (text(), text(rows=2, length=9), text(fill=5)):
        assert np.allclose(graph(batch), encoder(batch).tokens, atol=1e-5)
    assert graph.experimental_get_tracing_count() == 1


@every_model
def test_too_long_input_raises_an_error(name):
    encoder = made(name).built.encoder
    with pytest.raises(ValueError, match=str(encoder.length)):
        encoder({"tokens": np.full((1, encoder.length + 1), VOCABULARY.first, np.int32)})


@every_model
def test_batches_are_stateless_and_full(name):
    model = made(name)
    first = model.batches(5, 1)
    for key, value in model.built.batches(corpus_of(name), ROWS, LENGTH)(5, 1).items():
        assert np.array_equal(first[key], value), key
    other, later = model.batches(5, 2), model.batches(6, 1)
    assert any(not np.array_equal(first[key], other[key]) for key in first)
    assert any(not np.array_equal(first[key], later[key]) for key in first)
    for step in range(60):  # beyond the end of an epoch
        batch = model.batches(step, 1)
        assert {key: (value.shape, value.dtype) for key, value in batch.items()} == {
            key: (value.shape, value.dtype) for key, value in first.items()
        }
        # Whole pairs of sentences or captions do not fill short rows.
        assert (batch["tokens"] == 0).mean() <= (0.5 if {PAIRS, "regions"} & {*model.built.batches.needs} else 0.05)
        assert batch["tokens"].shape[0] == ROWS
        assert batch["tokens"].max() < VOCABULARY.size


@every_model
def test_dropout_is_determined_by_the_seed(name):
    model = made(name)
    model.built.encoder.dropout = 0.1
    loss, batch = model.built.loss, model.batches(0, 1)

    def value(*key):
        return float(loss(batch, seed=seed(*key))["loss"])

    assert value(1, 2) == value(1, 2)
    assert float(loss(batch)["loss"]) == float(loss(batch)["loss"])
    noisy = model.built.encoder(text(), seed=seed())
    if not np.allclose(noisy.tokens, model.built.encoder(text()).tokens):  # the encoder has dropout
        assert value(1, 2) != value(1, 3)
        model.built.encoder.dropout = 0.0
        unchanged = model.built.encoder(text(), seed=seed())
        assert np.allclose(unchanged.tokens, model.built.encoder(text()).tokens, atol=1e-6)
        model.built.encoder.dropout = 0.1


@every_model
def test_loss_falls_and_every_weight_is_trained(name):
    """A few steps, in which each weight moves by its gradient, divided by the root mean square of the gradient. So
    there is no optimizer to trace."""
    import keras
    import tensorflow as tf

    model = made(name)
    keras.utils.set_random_seed(4)
    built = build(model.module, small(model.module))
    variables = built.loss.trainable_variables
    built.encoder.dropout = 0.0
    unreached, untrained_prefixes = [], getattr(built.loss, "unreached", ())

    @tf.function
    def step(batch, key):
        with tf.GradientTape() as tape:
            values = built.loss(batch, seed=key)
        gradients = tape.gradient(values["loss"], [variable.value for variable in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            if gradient is None:
                unreached.append(variable.path)
                assert variable.path.startswith(untrained_prefixes), f"no gradient reaches {variable.path}"
            else:
                gradient = tf.convert_to_tensor(gradient)
                variable.value.assign_sub(3e-3 * gradient * tf.math.rsqrt(tf.reduce_mean(gradient**2) + 1e-12))
        return values

    before = [np.array(variable) for variable in variables]
    history = []
    # A lookup table needs more steps, which are fast. So does a student, whose teacher is untrained here.
    slow = model.module.CARD.architecture is Architecture.LOOKUP or hasattr(model.module, "TEACHER")
    for number in range(96 if slow else 16):
        values = step({key: tf.constant(value) for key, value in model.batches(number, 1).items()}, seed(number, 1))
        assert all(math.isfinite(value) for value in values.values())
        history.append(float(values["loss"]))
    assert np.mean(history[-3:]) < 0.95 * history[0], history
    unchanged = [v.path for v, old in zip(variables, before, strict=True) if np.array_equal(old, v)]
    assert sorted(unchanged) == sorted(unreached), f"of these, only those in `unreached` may stay: {unchanged}"


@every_model
def test_untrained_loss_is_near_that_of_the_uniform_distribution(name):
    """An untrained language model is about as good as the uniform distribution: ln V per predicted token."""
    model = made(name)
    if not model.built.loss.over_vocabulary:
        pytest.skip("the loss of this model is no cross-entropy over the vocabulary")
    values = model.built.loss(model.batches(0, 1))
    per_token = values.get("mlm_loss", values["loss"])
    assert math.log(VOCABULARY.size) - 0.7 < float(per_token) < math.log(VOCABULARY.size) + 1.2


@every_model
def test_decode_depends_on_the_source_and_not_on_later_targets(name):
    model = made(name)
    if model.built.decode is None:
        pytest.skip("this model does not generate")
    batch = text()
    targets = np.random.default_rng(1).integers(VOCABULARY.first, VOCABULARY.size, (3, 6)).astype(np.int32)
    targets[:, 0] = VOCABULARY.cls
    logits = np.asarray(model.built.decode({**batch, "targets": targets}))
    assert logits.shape == (3, 6, VOCABULARY.size)
    later = targets.copy()
    later[:, 4] = VOCABULARY.first + (later[:, 4] + 1 - VOCABULARY.first) % (VOCABULARY.size - VOCABULARY.first)
    changed = np.asarray(model.built.decode({**batch, "targets": later}))
    assert np.allclose(logits[:, :4], changed[:, :4], atol=1e-6)
    assert np.abs(logits[:, 4] - changed[:, 4]).max() > 1e-4
    wider = text(fill=5)
    assert np.allclose(logits, model.built.decode({**wider, "targets": targets}), atol=2e-5)
    other = batch["tokens"].copy()
    other[:, 2] = VOCABULARY.first + (other[:, 2] + 1 - VOCABULARY.first) % (VOCABULARY.size - VOCABULARY.first)
    assert np.abs(logits - np.asarray(model.built.decode({"tokens": other, "targets": targets}))).max() > 1e-4


@every_model
def test_one_trace_of_decode_serves_every_shape(name):
    import tensorflow as tf

    model = made(name)
    if model.built.decode is None:
        pytest.skip("this model does not generate")
    spec = {key: tf.TensorSpec([None, None], tf.int32) for key in ("tokens", "targets")}
    graph = tf.function(lambda batch: model.built.decode(batch, None), input_signature=[spec])
    for rows, length, fill in ((3, 6, 0), (2, 3, 4)):
        batch = {"tokens": text(rows, fill=fill)["tokens"], "targets": text(rows, length=12)["tokens"][:, :length]}
        assert np.allclose(graph(batch), model.built.decode(batch), atol=2e-5)
    assert graph.experimental_get_tracing_count() == 1


@every_model
def test_generation_step_by_step_gives_the_logits_of_decode(name):
    """Three hypotheses per row are dropped and branch at random. After each step, the logits are compared with those of
    ``decode``."""
    built = made(name).built
    if built.writer is None:
        pytest.skip("this model does not write step by step")
    rng, tokens, beam = np.random.default_rng(2), text(fill=2)["tokens"], 3
    rows = len(tokens)
    written = np.full((rows, beam, 1), VOCABULARY.cls, np.int32)
    origin = np.broadcast_to(np.arange(beam)[:, None], written.shape)
    memory, past = built.writer.begin(tokens)
    for _ in range(5):
        seen = (origin[..., None] == np.arange(beam)).reshape(rows, beam, -1)
        logits, past = built.writer.step(memory, past, written, seen)
        flat = {"tokens": np.repeat(tokens, beam, axis=0), "targets": written.reshape(rows * beam, -1)}
        whole = np.asarray(built.decode(flat))[:, -1].reshape(logits.shape)
        assert np.allclose(logits, whole, atol=2e-5), np.abs(logits - whole).max()
        parents = rng.integers(0, beam, (rows, beam))[..., None]
        following = rng.integers(VOCABULARY.first, VOCABULARY.size, (rows, beam, 1))
        written = np.concatenate([np.take_along_axis(written, parents, 1), following.astype(np.int32)], 2)
        here = np.broadcast_to(np.arange(beam)[:, None], (rows, beam, 1))
        origin = np.concatenate([np.take_along_axis(origin, parents, 1), here], 2)


@every_model
def test_log_likelihood_is_a_left_to_right_distribution(name):
    model = made(name)
    if model.built.log_likelihood is None:
        pytest.skip("this model is no left-to-right language model")
    batch = text()
    tokens = batch["tokens"]
    scores = np.asarray(model.built.log_likelihood({"tokens": tokens}))
    assert scores.shape == tokens.shape
    assert (scores[:, 0] == 0).all()
    assert (scores[tokens == 0] == 0).all()
    assert (scores[:, 1:][tokens[:, 1:] > 0] < 0).all()
    longer = np.asarray(model.built.log_likelihood({"tokens": text(fill=3)["tokens"]}))
    assert np.allclose(scores, longer[:, : tokens.shape[1]], atol=1e-5)
    # The probabilities of all continuations of one prefix add up to one.
    every = np.repeat(tokens[:1, :5], VOCABULARY.size, axis=0)
    every[:, 4] = np.arange(VOCABULARY.size)
    last = np.asarray(model.built.log_likelihood({"tokens": every}))[1:, 4]  # id 0 is padding and has no score
    total = np.exp(last.astype(np.float64)).sum()
    assert 0.9 < total <= 1.0 + 1e-5
