"""Computes the outputs of our recurrent networks with the weights of fastai, flair and AllenNLP."""

from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt.features.network import Reading
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.ulmfit import Own
from ptmbench.bench.adapt.ulmfit import network as ulmfit
from ptmbench.models.architectures import recurrent_decoders, recurrent_encoders
from ptmbench.models.card import Size
from ptmbench.models.layers import core, recurrent
from ptmbench.models.layers.recurrent_networks import Awd, Bidirectional, built
from ptmbench.models.layers.vector_heads import BiLmConfig
from ptmbench.models.objectives import awd_lm
from ptmbench.models.objectives.bilm import BiLm
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from tests.models.frozen import Frozen, mappings

V = 60
AWD = Size(layers=3, width=10, inner=14, length=40)
QRNN = Size(layers=3, width=12, inner=12, length=40)
TOKENS = np.random.default_rng(1).integers(1, V, (3, 17)).astype(np.int32)
PADDED = TOKENS.copy()
PADDED[1, 9:], PADDED[2, 1:] = 0, 0


def awd(frozen: Frozen) -> Awd:
    """Builds our AWD-LSTM with fastai's weights, without dropout."""
    network = built(recurrent_decoders.awd_lstm(AWD, V), name="encoder")
    network.dropout = 0.0
    mappings.awd_lstm(network, frozen.weights)
    return network


def awd_reads(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the last layer, and ULMFiT's concatenated pooling of it."""
    network = awd(frozen)
    reading = ulmfit.Reading(network, Own())
    reading.hidden = lambda x: x
    return {
        "raw": np.asarray(network.outputs(tf.constant(TOKENS))[0]),
        "pooled": np.asarray(reading(network({"tokens": PADDED}), {"tokens": PADDED}).pooled),
    }


def replay(seen: deque) -> Callable:
    """Returns a substitute for our dropout that applies the masks ``seen`` in fastai, in their order.

    It checks that rates and shapes agree. fastai has other orders of axes and gates.
    """

    def dropout(x, rate, seed, salt):
        p, mask = seen.popleft()
        assert rate == pytest.approx(p)
        if salt == 0:  # words, [V, 1]
            mask = mask[:, 0]
        elif salt >= 100:  # recurrent weights, [4 C, C]
            mask = mappings.from_torch(mask)
        elif x.shape[0] == 1:  # states, [B, 1, D], one mask for all steps
            mask = mask.transpose(1, 0, 2)
        assert mask.shape == tuple(x.shape)
        return x * mask

    return dropout


def awd_training(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the losses and all gradients by fastai's names.

    The loss has AR and TAR. The dropout masks are those that fastai drew.
    """
    network = awd(frozen)
    objective = awd_lm.AwdLm(network)
    objective.output_bias.assign(frozen.weights["1.decoder.bias"])
    network.dropout = 0.4
    seen = deque((rate, frozen.given[f"mask_{index}"]) for index, rate in enumerate(frozen.given["rates"]))
    variables = mappings.awd_variables(network, objective.output_bias)
    with pytest.MonkeyPatch.context() as patch, tf.GradientTape() as tape:
        for module in (core, recurrent):
            patch.setattr(module, "dropout", replay(seen))
        values = objective({"tokens": TOKENS}, seed=tf.constant([1, 2]))
    assert not seen
    slopes = tape.gradient(values["loss"], [variable.value for variable in variables.values()])
    outputs = {"nll": np.asarray(values["nll"]), "loss": np.asarray(values["loss"])}
    for name, slope in zip(variables, slopes, strict=True):
        slope = tf.convert_to_tensor(slope).numpy()
        outputs[f"gradient/{name}"] = mappings.to_torch(slope) if ".rnns." in name else slope
    return outputs


def awd_rates(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes ULMFiT's slanted triangular learning rates over 40 steps, and the relative rates of its layers."""
    layers = [f"encoder/stack/layer_{index}/gates/kernel" for index in range(3)]
    paths = ["encoder/tokens/table", *layers, "head/kernel"]
    step = SimpleNamespace(variables=[SimpleNamespace(path=path) for path in paths], shares=tf.Variable(tf.zeros(5)))
    ulmfit.rate(step, 39, 40, Own())
    return {"slanted": np.array([ulmfit.slanted(step, 40) for step in range(41)]), "layers": step.shares.numpy()}


def qrnn(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the last layer, with zeros for padding, and the vector of the last token."""
    network = built(recurrent_decoders.qrnn(QRNN, V), name="encoder")
    network.dropout = 0.0
    mappings.qrnn(network, frozen.weights)
    encoding = network({"tokens": PADDED})
    tokens = np.asarray(encoding.tokens) * (PADDED > 0)[..., None]
    return {"tokens": tokens, "pooled": np.asarray(encoding.pooled)}


TEXT = ["the sky is blue, and the sea is not.", "hello, a tree is an idea"] * 9
SENTENCES = [["the", "sea", ",", "hello"], ["a", "tree", "is", "blue", "and", "not"]]


def flair_rows() -> tuple[Tokenizer, np.ndarray, list]:
    """Returns the tokenizer, `SENTENCES` as tokens [2, 32], and the positions of words.

    A word has those of its first and last character.
    """
    tokenizer = Tokenizer.train("character", TEXT, 80)
    vocabulary = tokenizer.vocabulary
    rows, spans = np.zeros((2, 32), np.int32), []
    for row, sentence in zip(rows, SENTENCES, strict=True):
        words, place = tokenizer.encode(sentence), 1
        assert all(vocabulary.unk not in word for word in words)
        ids = [vocabulary.cls, *(number for word in words for number in word), vocabulary.sep]
        row[: len(ids)] = ids
        spans.append([])
        for word in words:
            spans[-1].append((place + 1, place + len(word) - 1))
            place += len(word)
    return tokenizer, rows, spans


def flair_size(layers: int) -> Size:
    return Size(layers=layers, width=16, length=64)


def flair(layers: int, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the states of both directions at every character, the losses, and word vectors.

    Word vectors are the states at the last and first character, or one character further with flair's
    ``with_whitespace`` ("spaced_words").
    """
    tokenizer, rows, spans = flair_rows()
    network = built(recurrent_encoders.flair(flair_size(layers), tokenizer.vocabulary), name="encoder")
    network.dropout = 0.0
    loss = BiLm.over(network, BiLmConfig(width=network.state, vocabulary=tokenizer.vocabulary.size))
    mappings.flair(network, loss, frozen.weights)
    encoding, outputs = network({"tokens": rows}), {}
    for number, (row, places) in enumerate(zip(rows, spans, strict=True)):
        tokens = tf.constant(row[None, : np.count_nonzero(row)])
        ahead, back = (np.asarray(layers[-1])[:, 0] for layers in network.both(tokens))
        values = loss({"tokens": tokens})
        outputs[f"{number}/forward"] = ahead[:-1]  # all but [SEP]
        outputs[f"{number}/backward"] = back[:0:-1]  # all but [CLS]
        for way in ("forward", "backward"):
            outputs[f"{number}/{way}_nll"] = np.asarray(values[f"{way}_nll"])
        outputs[f"{number}/words"] = np.stack([encoding.tokens[number, last] for _, last in places])
        # After the last word, flair has a space and we have [SEP].
        wide = [(ahead[last + 1], back[first - 1]) for first, last in places[:-1]]
        outputs[f"{number}/spaced_words"] = np.stack([np.concatenate(pair) for pair in wide])
    return outputs


ELMO = Size(layers=2, width=8, inner=5, length=30)
FILTERS = ((1, 2), (2, 3), (7, 4))
WORDS = ("the", "a", "Zoë", "unbelievable", "x" * 60, "y" * 48)
VOCABULARY = Vocabulary(size=37 + len(WORDS), pieces=(*(f"[{number}]" for number in range(37)), *WORDS))
TEXTS = [["the", "Zoë", "unbelievable", "y" * 48, "a"], ["x" * 60, "the"], ["a"]]
MIX = np.random.default_rng(0).normal(size=(3, 2, 4, 8))


def elmo_network() -> Bidirectional:
    network = built(recurrent_encoders.elmo_cnn(ELMO, VOCABULARY, FILTERS), name="encoder")
    network.dropout = 0.0
    return network


def elmo_tokens() -> np.ndarray:
    """Returns `TEXTS` as tokens [3, 7]. [CLS] and [SEP] are the sentence boundaries that AllenNLP adds."""
    tokens = np.zeros((3, 7), np.int32)
    for row, text in enumerate(TEXTS):
        ids = [VOCABULARY.first + WORDS.index(word) for word in text]
        tokens[row, : len(ids) + 2] = [VOCABULARY.cls, *ids, VOCABULARY.sep]
    return tokens


def elmo(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes all layers [3, B, T, D], the character encoder included, with zeros for padding."""
    network, tokens = elmo_network(), elmo_tokens()
    mappings.elmo(network, frozen.weights, VOCABULARY)
    layers = network({"tokens": tokens}).layers
    return {"layers": np.stack([np.asarray(layer) * (tokens > 0)[..., None] for layer in layers])}


def elmo_mix_layers() -> np.ndarray:
    """Returns layers [3, B, T, D] whose vectors have the mean 0 and the standard deviation 1.

    We normalise each vector before the weighted sum. AllenNLP does not, or optionally over all vectors of a layer.
    """
    layers = MIX - MIX.mean(axis=-1, keepdims=True)
    return (layers / layers.std(axis=-1, keepdims=True)).astype(np.float32)


def elmo_mix(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the weighted sum of layers (equation 1)."""
    reading = Reading(elmo_network(), Settings(layers="all"))
    reading.mix.assign(frozen.weights["scalars"])
    reading.gain.assign(1.7)
    ids = np.ones((2, 4), np.int32)
    encoding = Encoding(tokens=None, pooled=None, layers=tuple(elmo_mix_layers()))
    return {"mixed": np.asarray(reading(encoding, {"tokens": ids, "segments": 0 * ids}).tokens)}


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {
    "awd_lstm": awd_reads,
    "awd_lstm_rates": awd_rates,
    "awd_lstm_training": awd_training,
    "elmo": elmo,
    "elmo_mix": elmo_mix,
    "flair_1": partial(flair, 1),
    "flair_2": partial(flair, 2),
    "qrnn": qrnn,
}
"""Functions by the names of the files."""
