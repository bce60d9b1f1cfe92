"""Layers to test: a configuration of each kind, networks around them, and extensions for their seams."""

import importlib
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
from ptmbench.models.layers import fused as _fused  # noqa: F401
from ptmbench.models.layers import recurrent_config, translator  # noqa: F401
from ptmbench.models.layers.config import LinearConfig, NormConfig, TableConfig
from ptmbench.models.layers.transformers import built
from ptmbench.models.layers.vectors import WordVectors  # noqa: F401
from ptmbench.models.text.tokenizers import Vocabulary

SIZE = Size(layers=2, width=32, heads=2, inner=48, length=40)
WORDS = 60
TOKENS = np.array([[2, 40, 41, 42, 43, 3], [2, 50, 51, 3, 0, 0]], np.int32)
TARGETS = np.array([[2, 44, 45, 46], [2, 52, 53, 3]], np.int32)
MEMORY = np.random.default_rng(2).normal(size=(2, 6, 12)).astype(np.float32)
PLACES, NUMBERS = np.array([[0, 1, 2, 3], [0, 1, 0, 1]], np.int32), np.array([[0, 0, 0, 0], [0, 0, 1, 1]], np.int32)
DECODERS = ("decoder", "prophetnet", "hibert_decoder", "fused_decoder")
SPECIAL = ("mpnet", "unilm_v2", "xlnet", "transformer_xl", "cloze", "hibert", "star_transformer")
SPECIAL += ("universal_transformer", "prophetnet", "hibert_decoder", "mobilebert", "blend_cnn")
"""Models that need a network other than the three usual ones."""
NETWORKS = ("encoder", "causal", "decoder", "fused_decoder")
NETWORKS += tuple(pytest.param(name, marks=pytest.mark.slow) for name in SPECIAL)
CONVERTED = (
    *("bert", "roberta", "spanbert", "structbert", "infoword", "albert", "electra"),
    *("gpt", "gpt2", "ctrl", "bart", "mass", "pegasus", "t5", "t5_1_1"),
    *("mpnet", "unilm", "unilm_v2", "prophetnet"),
)
DESCRIBED = (*CONVERTED, "xlnet", "transformer_xl", "cloze", "hibert", "star_transformer", "universal_transformer")
DESCRIBED += ("mobilebert", "blend_cnn")


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
    "mobilebert": "bottleneck",
    "blend_cnn": "convolution",
}
"""The module of `models.layers` with the network of each model."""

RECURRENT = (
    *("lm_lstm", "sa_lstm", "ulmfit", "multifit", "skip_thought", "cove", "elmo", "elmo_cnn", "flair", "context2vec"),
    *("cbow", "cbow_hs", "word2vec", "word2vec_hs", "fasttext", "glove", "nnlm", "cw", "biskip", "pv_dm", "pv_dbow"),
)


def every_config():
    """Returns a configuration of each kind, by name, with values other than the defaults."""
    narrow = replace(SIZE, embedding=16)
    bart, t5 = (made(SIZE, WORDS) for made in (encoder_decoders.bart, encoder_decoders.t5))
    gated = encoder_decoders.t5(SIZE, WORDS, gated=True)
    result = {
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
    result["fused_encoder"], result["fused_decoder"] = fused(SIZE, WORDS)
    result |= {f"{name}_embeddings": result[name].embeddings for name in ("encoder", "ctrl")}
    for name in SPECIAL:
        model = described(name)
        result[name] = model.decoder if name in DECODERS else model.encoder
    return result | recurrent_configs()


def fused(size, words):
    """Returns the configurations of an encoder and of a decoder with a second memory, `MEMORY`."""
    return encoder_decoders.fused(size, words, memory=MEMORY.shape[-1])


def described(name):
    """Returns the description of the model ``name``, after importing the module of its layers."""
    importlib.import_module(f"ptmbench.models.layers.{LIBRARY[name]}")
    return models.load(name.removesuffix("_decoder")).describe(SIZE, Vocabulary(size=WORDS))


def recurrent_configs():
    """Like `every_config`, for recurrent layers, recurrent networks and word vectors."""
    words = Vocabulary(size=WORDS, pieces=tuple(f"[{n}]" for n in range(37)) + tuple("abcdefghijklmnopqrstuvw"))
    recurrent = recurrent_config
    result = {
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
    return result | {f"{name}_stack": result[name].stack for name in ("lm_lstm", "awd_lstm", "cove")}


def heads():
    """Yields the configurations of the heads of all these models, by model and index."""
    for name in (*DESCRIBED, *RECURRENT):
        model = models.load(name).describe(SIZE, Vocabulary(size=WORDS))
        one = (model.head,) if hasattr(model, "head") else ()
        for index, head in enumerate(getattr(model, "heads", one)):
            yield f"{name}_{index}", head


def layer_of(name, config):
    """Returns the built layer of ``config``."""
    if name in DECODERS:
        theirs = every_config()["fused_encoder"] if name == "fused_decoder" else described(name).encoder
        return built(config, built(theirs, name="encoder"), name="layer")
    if isinstance(config, recurrent_config.AttendingConfig):
        return built(config, built(every_config()["cove"], name="encoder"), name="layer")
    if not isinstance(config, configs.DecoderConfig):
        return built(config, name="layer")
    encoder = built(every_config()["bart_encoder" if name == "bart_decoder" else "t5_encoder"], name="encoder")
    return built(config, encoder, name="layer")


def own(layer):
    """Returns the variables of ``layer``, without those of an encoder that it refers to."""
    return [v for v in layer.variables if v.path.startswith("layer/")]


def network(kind, seed=0):
    """Returns a `keras.Model` from tokens (and targets) to vectors or logits, around one of the networks, and that
    network. All weights are random, so that each one matters."""
    keras.utils.set_random_seed(seed)
    tokens = keras.Input([None], dtype="int32", name="tokens")
    if kind in DECODERS:
        plain = {"decoder": encoder_decoders.bart, "fused_decoder": fused}.get(kind)
        ours, theirs = plain(SIZE, WORDS) if plain else described(kind).layers
        encoder = built(ours, name="encoder")
        layer = built(theirs, encoder, name="decoder")
        targets = keras.Input([None], dtype="int32", name="targets")
        if kind == "fused_decoder":
            more = [keras.Input([None, MEMORY.shape[-1]], name="memory")]
            decoder_inputs = ((encoder({"tokens": tokens, "memory": more[0]}).tokens, more[0]), tokens)
        elif kind == "hibert_decoder":
            more = [keras.Input([None], dtype="int32", name=name) for name in ("places", "numbers")]
            decoder_inputs = (*more, encoder({"tokens": tokens}).tokens)
        else:
            more, decoder_inputs = [], (encoder({"tokens": tokens}).tokens, tokens)
        model = keras.Model([tokens, targets, *more], layer(targets, *decoder_inputs))
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
    more = {"hibert_decoder": [PLACES, NUMBERS], "fused_decoder": [MEMORY]}.get(kind, [])
    return [TOKENS, TARGETS, *more] if kind in DECODERS else TOKENS


def answers(model, kind):
    return model(inputs(kind), training=False).numpy()


def reloaded(model, path):
    model.save(path / "m.keras")
    return keras.saving.load_model(path / "m.keras", safe_mode=True)


def layers_of(layer, kind):
    """Returns the layers of ``kind`` inside ``layer``."""
    return [one for one in layer._flatten_layers() if type(one) is kind]


@keras.saving.register_keras_serializable(package="tests")
class Scale(keras.layers.Layer):
    """Multiplies its input, one tensor or several, by a learned number."""

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
    """Multiplies a kernel by a mask, which is all ones at first."""

    def build(self, shape):
        self.mask = self.add_weight(shape, "ones", trainable=False, name="mask")

    def call(self, kernel):
        return kernel * self.mask


@keras.saving.register_keras_serializable(package="tests")
class Shift(keras.layers.Layer):
    """Adds a learned vector. Records the ``index`` and the names in ``batch`` of each call."""

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
    """Puts learned keys and values in front of the others: Li and Liang (2021), section 4."""

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
