"""Layers made from configurations: their weights and sizes, seams, saving, quantisation, LoRA and recomputation."""

import importlib
import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.architectures import (
    decoders,
    encoder_decoders,
    encoders,
    recurrent_decoders,
    recurrent_encoders,
    recurrent_translators,
    word_vectors,
)
from ptmbench.models.card import Size
from ptmbench.models.layers import config as configs
from ptmbench.models.layers import recurrent_config, translator  # noqa: F401
from ptmbench.models.layers.blocks import Attention, Block, Stack
from ptmbench.models.layers.config import BERT, ONES, ZEROS, LinearConfig, NormConfig, Start, TableConfig, from_dict
from ptmbench.models.layers.core import Linear, Rows, initializer
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import rematerialising
from ptmbench.models.layers.transformers import built
from ptmbench.models.layers.vectors import WordVectors  # noqa: F401
from ptmbench.models.text.tokenizers import Vocabulary

SIZE = Size(layers=2, width=32, heads=2, inner=48, length=40)
WORDS = 60
TOKENS = np.array([[2, 40, 41, 42, 43, 3], [2, 50, 51, 3, 0, 0]], np.int32)
TARGETS = np.array([[2, 44, 45, 46], [2, 52, 53, 3]], np.int32)
PLACES, NUMBERS = np.array([[0, 1, 2, 3], [0, 1, 0, 1]], np.int32), np.array([[0, 0, 0, 0], [0, 0, 1, 1]], np.int32)
DECODERS = ("decoder", "prophetnet", "hibert_decoder")
SPECIAL = ("mpnet", "unilm_v2", "xlnet", "transformer_xl", "cloze", "hibert", "star_transformer")
SPECIAL += ("universal_transformer", "prophetnet", "hibert_decoder")
"""Networks of models that none of the three usual ones is enough for."""
NETWORKS = ("encoder", "causal", "decoder", *(pytest.param(name, marks=pytest.mark.slow) for name in SPECIAL))
CONVERTED = (
    *("bert", "roberta", "spanbert", "structbert", "infoword", "albert", "electra"),
    *("gpt", "gpt2", "ctrl", "bart", "mass", "pegasus", "t5", "t5_1_1"),
    *("mpnet", "unilm", "unilm_v2", "prophetnet"),
)
DESCRIBED = (*CONVERTED, "xlnet", "transformer_xl", "cloze", "hibert", "star_transformer", "universal_transformer")


LIBRARY = {
    "mpnet": "compensated",
    "unilm_v2": "masked",
    "xlnet": "two_stream",
    "transformer_xl": "relative_causal",
    "cloze": "two_towers",
    "hibert": "hierarchical",
    "hibert_decoder": "hierarchical",
    "star_transformer": "star",
    "universal_transformer": "universal",
    "prophetnet": "streams",
}
"""The module of `models.layers` with the network of each model."""

RECURRENT = (
    *("lm_lstm", "sa_lstm", "ulmfit", "multifit", "skip_thought", "cove", "elmo", "elmo_cnn", "flair", "context2vec"),
    *("cbow", "cbow_hs", "word2vec", "word2vec_hs", "fasttext", "glove", "nnlm", "cw", "biskip", "pv_dm", "pv_dbow"),
)


def every_config():
    """A configuration of each kind, by name, with other values than the defaults."""
    narrow = replace(SIZE, embedding=16)
    bart, t5 = (made(SIZE, WORDS) for made in (encoder_decoders.bart, encoder_decoders.t5))
    gated = encoder_decoders.t5(SIZE, WORDS, gated=True)
    found = {
        "linear": LinearConfig(inputs=3, outputs=5, bias=False, start=configs.GLOROT),
        "table": TableConfig(rows=7, width=4, start=encoders.SINUSOIDS),
        "norm": NormConfig(width=4, epsilon=1e-3),
        "rms_norm": NormConfig(width=4, centred=False),
        "attention": bart[0].stack.block.attention,
        "cross": gated[1].stack.block.cross,
        "feed_forward": gated[0].stack.block.feed_forward,
        "block": t5[1].stack.block,
        "stack": bart[1].stack,
        "waves": configs.WavesConfig(rows=9, width=8),
        "distances": t5[0].distances,
        "encoder": encoders.bert(SIZE, WORDS, segments=3),
        "narrow_encoder": encoders.bert(narrow, WORDS, pooler=False),
        "shared_encoder": encoders.bert(narrow, WORDS, shared=True),
        "gpt": decoders.gpt(SIZE, WORDS),
        "gpt2": decoders.gpt2(SIZE, WORDS),
        "ctrl": decoders.ctrl(SIZE, WORDS),
        "bart_encoder": bart[0],
        "bart_decoder": bart[1],
        "t5_encoder": t5[0],
        "gated_decoder": gated[1],
    }
    found |= {f"{name}_embeddings": found[name].embeddings for name in ("encoder", "ctrl")}
    for name in SPECIAL:
        model = described(name)
        found[name] = model.decoder if name in DECODERS else model.encoder
    return found | recurrent_configs()


def described(name):
    """What the model called ``name`` is made of, with its layers at hand."""
    importlib.import_module(f"ptmbench.models.layers.{LIBRARY[name]}")
    return models.load(name.removesuffix("_decoder")).describe(SIZE, Vocabulary(size=WORDS))


def recurrent_configs():
    """The same of recurrent layers and networks, and of word vectors."""
    words = Vocabulary(size=WORDS, pieces=tuple(f"[{n}]" for n in range(37)) + tuple("abcdefghijklmnopqrstuvw"))
    recurrent = recurrent_config
    found = {
        "kernel": recurrent.KernelConfig(inputs=3, outputs=4, start=configs.NORMAL),
        "gates": recurrent.GatesConfig(inputs=3, outputs=6, begins=(1.0, 2.0)),
        "projected_lstm": recurrent.LstmConfig(inputs=3, cells=5, projection=2, clip=3.0),
        "inner_lstm": recurrent.InnerLstmConfig(inputs=3, cells=5),
        "conditioned_gru": recurrent.GruConfig(inputs=3, cells=4, conditioned=True),
        "qrnn": recurrent.QrnnConfig(inputs=3, cells=4, window=3),
        "both_ways": recurrent.BothWaysConfig(inputs=3, cells=4),
        "filters": recurrent.FilterConfig(window=2, inputs=3, outputs=4, places=9),
        "highway": recurrent.HighwayConfig(width=4),
        "lm_lstm": recurrent_decoders.lstm(SIZE, WORDS),
        "awd_lstm": recurrent_decoders.awd_lstm(SIZE, WORDS),
        "multifit": recurrent_decoders.qrnn(SIZE, WORDS),
        "sentence_gru": recurrent_decoders.gru(SIZE, words),
        "elmo": recurrent_encoders.elmo(SIZE, WORDS),
        "elmo_cnn": recurrent_encoders.elmo_cnn(SIZE, words, ((1, 3), (4, 5))),
        "flair": recurrent_encoders.flair(SIZE, words),
        "cove": recurrent_translators.cove(SIZE, words)[0],
        "cove_decoder": recurrent_translators.cove(SIZE, words)[1],
        "word_vectors": word_vectors.words(SIZE, WORDS),
        "summed_vectors": word_vectors.sums(SIZE, WORDS),
        "subword_vectors": word_vectors.subwords(SIZE, words),
        "paragraphs": word_vectors.paragraphs(SIZE, words),
        "paragraphs_in_context": word_vectors.paragraphs_in_context(SIZE, words),
    }
    return found | {f"{name}_stack": found[name].stack for name in ("lm_lstm", "awd_lstm", "cove")}


def heads():
    """The configurations of the heads of all models here, by model and place."""
    for name in (*DESCRIBED, *RECURRENT):
        model = models.load(name).describe(SIZE, Vocabulary(size=WORDS))
        one = (model.head,) if hasattr(model, "head") else ()
        for index, head in enumerate(getattr(model, "heads", one)):
            yield f"{name}_{index}", head


def layer_of(name, config):
    """The layer of ``config``, with its weights."""
    if name in DECODERS:
        return built(config, built(described(name).encoder, name="encoder"), name="layer")
    if isinstance(config, recurrent_config.AttendingConfig):
        return built(config, built(every_config()["cove"], name="encoder"), name="layer")
    if not isinstance(config, configs.DecoderConfig):
        return built(config, name="layer")
    encoder = built(every_config()["bart_encoder" if name == "bart_decoder" else "t5_encoder"], name="encoder")
    return built(config, encoder, name="layer")


def own(layer):
    """The variables of ``layer`` without those of an encoder that it refers to."""
    return [v for v in layer.variables if v.path.startswith("layer/")]


def network(kind, seed=0):
    """A `keras.Model` from tokens (and targets) to vectors or logits, around one of the networks, and that network. All
    weights are random, so that each one counts."""
    keras.utils.set_random_seed(seed)
    tokens = keras.Input([None], dtype="int32", name="tokens")
    if kind in DECODERS:
        ours, theirs = encoder_decoders.bart(SIZE, WORDS) if kind == "decoder" else described(kind).layers
        encoder = built(ours, name="encoder")
        layer = built(theirs, encoder, name="decoder")
        more = [keras.Input([None], dtype="int32", name=name) for name in ("targets", "places", "numbers")]
        more, encoding = more[: len(inputs(kind)) - 1], encoder({"tokens": tokens})
        asked = (*more, encoding.tokens) if kind == "hibert_decoder" else (*more, encoding.tokens, tokens)
        model = keras.Model([tokens, *more], layer(*asked))
    else:
        made = {"encoder": encoders.bert, "causal": decoders.gpt2}.get(kind)
        made = made(SIZE, WORDS) if made else described(kind).encoder
        layer = built(made, name="encoder")
        model = keras.Model(tokens, layer({"tokens": tokens}).tokens)
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        variable.assign(variable + rng.normal(0.0, 0.1, variable.shape))
    return model, layer


def inputs(kind):
    if kind == "hibert_decoder":
        return [TOKENS, TARGETS, PLACES, NUMBERS]
    return [TOKENS, TARGETS] if kind in DECODERS else TOKENS


def answers(model, kind):
    return model(inputs(kind), training=False).numpy()


def reloaded(model, path):
    model.save(path / "m.keras")
    return keras.saving.load_model(path / "m.keras", safe_mode=True)


def layers_of(layer, kind):
    """The layers of ``kind`` inside ``layer``."""
    return [one for one in layer._flatten_layers() if type(one) is kind]


@keras.saving.register_keras_serializable(package="tests")
class Scale(keras.layers.Layer):
    """Multiplies what it gets, a tensor or several, by a learned number."""

    def build(self, *shape):
        self.by = self.add_weight((), keras.initializers.Constant(0.9), name="by")

    def call(self, x):
        return tuple(one * self.by for one in x) if isinstance(x, tuple | list) else x * self.by


@keras.saving.register_keras_serializable(package="tests")
class Adapter(keras.layers.Layer):
    """x + up(relu(down(x))): Houlsby et al. (2019), section 2.1."""

    def __init__(self, inner=4, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def build(self, shape):
        self.down = self.add_weight((shape[-1], self.inner), "glorot_uniform", name="down")
        self.up = self.add_weight((self.inner, shape[-1]), "glorot_uniform", name="up")

    def call(self, x):
        return x + tf.nn.relu(x @ self.down) @ self.up

    def get_config(self):
        return super().get_config() | {"inner": self.inner}


@keras.saving.register_keras_serializable(package="tests")
class Mask(keras.layers.Layer):
    """Hides the entries of a kernel that are below a limit."""

    def build(self, shape):
        self.mask = self.add_weight(shape, "ones", trainable=False, name="mask")

    def call(self, kernel):
        return kernel * self.mask


@keras.saving.register_keras_serializable(package="tests")
class Shift(keras.layers.Layer):
    """Adds a learned vector; counts the calls by ``index`` and by whether there is a ``batch``."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.asked = []

    def build(self, shape):
        self.vector = self.add_weight((shape[-1],), keras.initializers.Constant(0.3), name="vector")

    def call(self, x, index=None, batch=None):
        self.asked.append((index, None if batch is None else sorted(batch)))
        return x + self.vector


@keras.saving.register_keras_serializable(package="tests")
class Prefix(keras.layers.Layer):
    """Learned keys and values in front of the others: Li and Liang (2021), section 4."""

    def __init__(self, length=3, **kwargs):
        super().__init__(**kwargs)
        self.length = length

    def build(self, shape):
        _, heads, _, width = shape[0]
        self.pair = self.add_weight((2, 1, heads, self.length, width), "random_normal", name="pair")

    def call(self, pair):
        rows, more = tf.shape(pair[0])[0], tf.unstack(self.pair)
        return tuple(tf.concat([tf.repeat(y, rows, 0), x], 2) for y, x in zip(more, pair, strict=True))

    def get_config(self):
        return super().get_config() | {"length": self.length}


@pytest.mark.parametrize(("name", "config"), [*every_config().items(), *heads()])
def test_a_configuration_reads_what_it_writes(name, config):
    import json

    assert from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(("name", "config"), every_config().items())
def test_parameters_are_those_of_the_layer(name, config):
    layer = layer_of(name, config)
    tables = [v for v in own(layer) if v.path.endswith("/table") and "logits" not in v.path]
    found = config.parameters()
    assert found.total == sum(math.prod(v.shape) for v in own(layer))
    assert found.tables == sum(math.prod(v.shape) for v in tables)


def listed(config, path):
    """Paths of all weights in the order of `Config.weights` and `Config.parts`."""
    for name in config.weights():
        yield f"{path}/{name}"
    for name, part in config.parts():
        yield from listed(part, f"{path}/{name}")


@pytest.mark.parametrize(("name", "config"), every_config().items())
def test_weights_are_created_in_the_order_of_the_configuration(name, config, monkeypatch):
    created, add = [], keras.layers.Layer.add_weight

    def noted(self, *args, **kwargs):
        created.append(add(self, *args, **kwargs))
        return created[-1]

    monkeypatch.setattr(keras.layers.Layer, "add_weight", noted)
    layer_of(name, config)
    assert [v.path for v in created if v.path.startswith("layer")] == list(listed(config, "layer"))


@pytest.mark.parametrize(
    ("start", "low", "high"),
    [(BERT, 0.016, 0.019), (configs.NORMAL, 0.019, 0.021), (ZEROS, 0, 0), (Start(kind="ones", deviations=()), 0, 0)],
)
def test_weights_begin_as_configured(start, low, high):
    """A normal distribution cut at two deviations has 0.880 of the deviation that it is made from."""
    kernel = built(LinearConfig(inputs=200, outputs=300, start=start), name="x").kernel.numpy()
    assert low <= kernel.std() <= high
    assert kernel.mean() == pytest.approx(float(start == ONES), abs=1e-3)


def test_blocks_of_columns_begin_with_deviations_of_their_own():
    drawn = initializer(Start(kind="random_normal", deviations=(0.1, 1.0, 3.0)))((400, 300)).numpy()
    for part, deviation in zip(np.split(drawn, 3, axis=1), (0.1, 1.0, 3.0), strict=True):
        assert part.std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("name", CONVERTED)
def test_a_models_costs_are_those_of_its_configuration(name):
    """FLOPs by the shapes of all kernels: twice their size for each vector, and attention's two products."""
    model = models.load(name).describe(SIZE, Vocabulary(size=WORDS))
    encoder, length, D = model.encoder, 24, SIZE.width
    layer = built(encoder, name="encoder")
    kernels = [v for v in layer.variables if v.path.endswith("kernel")]
    inside = sum(math.prod(v.shape) for v in kernels if "/stack/" in v.path)
    inside *= SIZE.layers if encoder.stack.shared else 1
    once = sum(math.prod(v.shape) for v in kernels if "pooler" in v.path)
    wide = sum(math.prod(v.shape) for v in kernels if "widening" in v.path)
    expected = 2 * (length * (inside + wide) + once) + SIZE.layers * 4 * length * length * D
    assert encoder.flops(length) == expected


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_is_saved_and_loaded(kind, tmp_path):
    model, layer = network(kind)
    (layer.encoder if kind in DECODERS else layer).dropout = 0.25
    again = reloaded(model, tmp_path)
    assert np.array_equal(answers(again, kind), answers(model, kind))
    (one,) = (x for x in again.layers if type(x) is type(layer))
    assert (one.encoder if kind in DECODERS else one).dropout == 0.25 and one.config == layer.config
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    if kind in DECODERS:
        assert one.encoder is next(x for x in again.layers if x.name == "encoder")


def seams(kind):
    """Every layer of the network that has seams, with each."""
    model, layer = network(kind)
    places = {}
    for one in layer._flatten_layers():
        for seam in getattr(one, "SEAMS", ()):
            places.setdefault((type(one).__name__, seam), []).append(one)
    return model, places


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_seam_is_called_learns_and_is_saved(kind, tmp_path):
    """One scale at each place of the network, with a weight that has a gradient."""
    model, places = seams(kind)
    before, count = answers(model, kind), 0
    for (_, seam), found in places.items():
        for one in found:
            one.attach(seam, Scale(name=f"scale_{seam}"))
            count += 1
    changed = answers(model, kind)
    scales = [v for v in model.trainable_variables if v.path.endswith("/by")]
    assert len(scales) == count and not np.allclose(before, changed, atol=1e-3)
    rng = np.random.default_rng(1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs(kind)) * rng.normal(size=changed.shape).astype(np.float32))
    gradients = tape.gradient(loss, [v.value for v in scales])
    silent = {v.path for v, g in zip(scales, gradients, strict=True) if g is None or float(tf.abs(g)) == 0}
    pooler = {v.path for v in scales if "/pooler/" in v.path}  # the pooled vector is not an output here
    normed = {v.path for v in scales if v.path.endswith("embeddings/sum/scale_sum/by")}  # a norm undoes a scale
    assert silent - normed == pooler
    for number, variable in enumerate(scales):
        variable.assign(0.8 + 0.4 * number / len(scales))
    assert np.allclose(answers(reloaded(model, tmp_path), kind), answers(model, kind), atol=1e-6)


def test_extensions_of_every_kind_at_once(tmp_path):
    """Adapters, masks, prefixes and vectors, where the survey's methods put them."""
    model, layer = network("encoder")
    for block in layer.stack:
        block.attach("after_attention", Adapter(name="adapter"))
        block.feed_forward.inner.attach("kernel", Mask(name="mask"))
        block.attention.attach("keys_values", Prefix(name="prefix"))
    layer.embeddings.attach("sum", Shift(name="added"))
    layer.stack.attach("between", Shift(name="between"))
    answers(model, "encoder")
    (added,), (between,) = layer.embeddings.extensions("sum"), layer.stack.extensions("between")
    assert added.asked[-1] == (None, ["tokens"]) and [index for index, _ in between.asked] == [0, 1]
    inner = layer.stack.layer_1.feed_forward.inner
    (mask,) = inner.extensions("kernel")
    mask.mask.assign(np.arange(mask.mask.shape[1]) % 2 * np.ones(mask.mask.shape))
    whole = answers(model, "encoder")
    inner.kernel.assign(inner.kernel * mask.mask)
    assert np.array_equal(answers(model, "encoder"), whole)  # what is hidden does not count
    again = reloaded(model, tmp_path)
    assert np.array_equal(answers(again, "encoder"), whole)
    assert {v.path for v in again.weights} == {v.path for v in model.weights}


def test_a_prefix_is_seen_by_every_query_and_not_kept_as_the_past():
    """Writing token by token gives what one pass gives."""
    _, layer = network("causal")
    before = layer({"tokens": TOKENS}).tokens
    for attention in layers_of(layer, Attention):
        attention.attach("keys_values", Prefix())
    layer.stack.attach("between", Shift())
    memory, past = layer.begin(tf.constant(TOKENS[:, :3]))
    assert past[0][0].shape[2] == 3
    written = tf.constant(np.array([[[7]], [[8]]], np.int32))
    vectors, _ = layer.step(memory, past, written, tf.ones([2, 1, 1], tf.bool))
    rows = tf.concat([TOKENS[:, :3], written[:, 0]], 1)
    assert np.allclose(vectors, layer({"tokens": rows}).tokens[:, -1], atol=1e-5)
    assert not np.allclose(layer({"tokens": TOKENS}).tokens, before, atol=1e-2)


def test_an_unknown_seam_is_named():
    block = built(every_config()["block"], name="block")
    with pytest.raises(ValueError, match="Block 'block' has no seam 'kernel'. Its seams: before_attention, "):
        block.attach("kernel", Scale())
    with pytest.raises(ValueError, match="Norm 'norm' has no seam 'x'. Its seams: none."):
        block.norm.attach("x", Scale())


@pytest.mark.parametrize("kind", NETWORKS)
def test_quantised_to_int8(kind, tmp_path):
    model, layer = network(kind)
    exact = answers(model, kind)
    model.quantize("int8")
    assert {v.dtype for v in model.weights if v.path.endswith("/kernel")} == {"int8"}
    found = answers(model, kind)
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 0 < error < (0.04 if kind == "star_transformer" else 0.02)  # that has no sums, which dilute the error
    assert np.array_equal(answers(reloaded(model, tmp_path), kind), found)


@pytest.mark.parametrize("kind", NETWORKS)
def test_lora_learns_few_weights(kind, tmp_path):
    model, layer = network(kind)
    exact = answers(model, kind)
    for variable in model.trainable_variables:
        variable.trainable = False
    for linear in layers_of(layer, Linear):
        linear.enable_lora(2, lora_alpha=4)
    assert np.allclose(answers(model, kind), exact, atol=1e-6)
    few = sum(math.prod(v.shape) for v in model.trainable_variables)
    assert 0 < few < 0.2 * model.count_params()
    target = np.random.default_rng(3).normal(size=exact.shape).astype(np.float32)
    optimizer, losses = keras.optimizers.Adam(0.02), []
    for _ in range(8):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs(kind)) - target) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, [v.value for v in variables]), variables, strict=True))
        losses.append(float(loss))
    assert losses[-1] < 0.9 * losses[0]
    again = reloaded(model, tmp_path)
    assert np.allclose(answers(again, kind), answers(model, kind), atol=1e-5)
    assert {one.lora_alpha for one in layers_of(again, Linear)} >= {4}


def test_a_kernel_that_extensions_change_is_not_quantised():
    linear = built(LinearConfig(inputs=4, outputs=4), name="x")
    linear.attach("kernel", Mask(name="mask"))
    with pytest.raises(ValueError, match=r"'x' cannot be quantised while extensions change its kernel \(mask\)"):
        linear.quantize("int8")


@pytest.mark.parametrize("kind", NETWORKS)
def test_recomputed_gradients_are_equal(kind):
    """Also those of extensions inside the blocks."""
    model, layer = network(kind)
    updates = [one for one in layer._flatten_layers() if "after_attention" in getattr(one, "SEAMS", ())]
    updates[0].attach("after_attention", Adapter())
    layers_of(updates[-1], Linear)[-1].attach("kernel", Scale())
    answers(model, kind)

    def gradients(again):
        @tf.function
        def computed():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(model(inputs(kind))))
            return tape.gradient(loss, [v.value for v in model.trainable_variables])

        with rematerialising(again):
            return computed()

    for one, other in zip(gradients(False), gradients(True), strict=True):
        if one is not None:
            one, other = (tf.convert_to_tensor(gradient).numpy() for gradient in (one, other))
            assert np.allclose(one, other, atol=1e-5 * max(1.0, np.abs(one).max()))


@pytest.mark.parametrize("kind", NETWORKS)
def test_in_bfloat16(kind):
    model, layer = network(kind)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rounded, inside = network(kind)
    finally:
        keras.config.set_dtype_policy(policy)
    assert {linear.compute_dtype for linear in layers_of(inside, Linear)} == {"bfloat16"}
    exact, found = answers(model, kind), np.asarray(tf.cast(rounded(inputs(kind)), tf.float32))
    assert rounded(inputs(kind)).dtype == tf.bfloat16
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.05
    updates = [one for one in inside._flatten_layers() if "after_attention" in getattr(one, "SEAMS", ())]
    updates[0].attach("after_attention", Adapter())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(rounded(inputs(kind)), tf.float32))
    variables = rounded.trainable_variables
    assert all(
        g is None or np.isfinite(tf.cast(tf.convert_to_tensor(g), tf.float32)).all()
        for g in tape.gradient(loss, [v.value for v in variables])
    )


def test_shared_blocks_are_one():
    config = every_config()["shared_encoder"]
    layer = built(config, name="encoder")
    assert len(layers_of(layer, Block)) == 1 and len(list(layers_of(layer, Stack)[0])) == 2
    x = tf.random.stateless_normal([6, 32], [1, 2])
    bias, rows = padding_bias(tf.constant(TOKENS[:1])), Rows(1, 6)
    once, _ = layer.stack.layer_0(x, bias, rows=rows)
    twice, _ = layer.stack.layer_0(once, bias, rows=rows)
    assert np.array_equal(layer.stack(x, bias, rows=rows)[-1], twice)


def toolkit():
    """tensorflow-model-optimization. It sets an environment variable when it is imported, which is taken back."""
    import os

    pytest.importorskip("tensorflow_model_optimization", reason="needs tensorflow-model-optimization")
    import tensorflow_model_optimization as tfmot

    os.environ.pop("TF_USE_LEGACY_KERAS", None)
    return tfmot


def test_the_optimization_toolkit_prunes_a_kernel():
    """Its wrapper gets a layer of its own kind that owns nothing and hands over our variable."""
    tfmot = toolkit()
    import tf_keras

    sparsity = tfmot.sparsity.keras

    class Carrier(tf_keras.layers.Layer, sparsity.PrunableLayer):
        def __init__(self, variables, **kwargs):
            super().__init__(**kwargs)
            self.carried = list(variables)

        def get_prunable_weights(self):
            return self.carried

        def call(self, x):
            return x

    _, layer = network("encoder")
    linear = layer.stack.layer_0.feed_forward.inner
    before = linear.kernel.numpy()
    schedule = sparsity.ConstantSparsity(0.75, begin_step=0, frequency=1)
    pruned = sparsity.prune_low_magnitude(Carrier([linear._kernel._value]), schedule)
    pruned.build((1, 1))
    pruned.pruning_step.assign(0)
    pruned(tf.zeros((1, 1)), training=True)
    pruned.pruning_obj.weight_mask_op()
    after = linear.kernel.numpy()
    assert np.mean(after == 0) == 0.75
    kept = after != 0
    assert np.array_equal(after[kept], before[kept])
    assert np.abs(before[kept]).min() >= np.abs(before[~kept]).max()


class FakeQuantised(keras.layers.Layer):
    """A quantizer of tensorflow-model-optimization at the seam of a kernel."""

    def __init__(self, quantizer, **kwargs):
        super().__init__(**kwargs)
        self.quantizer = quantizer

    def build(self, shape):
        owner = self

        class Shim:
            """Has `add_weight` of Keras 2, and gives TensorFlow's variables."""

            @staticmethod
            def add_weight(name, shape=(), initializer=None, trainable=True, **_):
                start = float(getattr(initializer, "value", 0.0))
                start = keras.initializers.Constant(start)
                return owner.add_weight(shape or (), start, name=name, trainable=trainable, autocast=False)._value

        self.ranges = self.quantizer.build(tf.TensorShape(shape), "kernel", Shim)

    def call(self, kernel, training=True):
        return self.quantizer(kernel, training, weights=self.ranges)


def test_the_optimization_toolkit_quantises_at_the_kernel():
    tfmot = toolkit()
    quantizers = tfmot.quantization.keras.quantizers
    linear = built(LinearConfig(inputs=8, outputs=6), name="x")
    linear.kernel.assign(np.random.default_rng(0).normal(size=(8, 6)))
    quantizer = quantizers.LastValueQuantizer(num_bits=4, per_axis=False, symmetric=True, narrow_range=True)
    linear.attach("kernel", FakeQuantised(quantizer))
    x = np.eye(8, dtype=np.float32)
    with tf.GradientTape() as tape:
        kernel = linear(x)  # the bias is zero
        loss = tf.reduce_sum(kernel**2)
    step = np.abs(linear.kernel.numpy()).max() / 7
    expected = np.round(linear.kernel.numpy() / step) * step
    assert np.allclose(kernel, expected, atol=1e-5) and len(np.unique(np.round(kernel / step))) <= 15
    gradient = tape.gradient(loss, linear.kernel.value)
    assert np.allclose(gradient, 2 * expected, atol=1e-4)  # straight through
