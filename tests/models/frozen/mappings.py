"""The weights of references that no importer in `models.published` reads, as our variables are named and laid out.

The tests of `tests.models.references` and `tests.models.test_frozen` share these: a variable that is renamed is renamed
here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary

Arrays = Mapping[str, np.ndarray]


def transformer_xl(weights: Arrays, size: Size) -> dict[str, np.ndarray]:
    """`transformers.TransfoXLLMHeadModel`, by the paths of our variables."""
    values = {"loss/output_bias": weights["crit.out_layers.0.bias"]}
    values["encoder/embeddings/tokens/table"] = weights["transformer.word_emb.emb_layers.0.weight"]
    values["encoder/content_bias"] = weights["transformer.r_w_bias"][:, None]
    values["encoder/position_bias"] = weights["transformer.r_r_bias"][:, None]
    for index in range(size.layers):
        layer, place = f"transformer.layers.{index}.", f"encoder/stack/layer_{index}/"
        qkv = weights[f"{layer}dec_attn.qkv_net.weight"].T
        own = f"{place}attention/"
        values[f"{own}query/kernel"], values[f"{own}key_value/kernel"] = np.split(qkv, [size.width], axis=1)
        values[f"{own}distance/kernel"] = weights[f"{layer}dec_attn.r_net.weight"].T
        values[f"{own}projection/kernel"] = weights[f"{layer}dec_attn.o_net.weight"].T
        for ours, theirs in (("inner", "pos_ff.CoreNet.0"), ("outer", "pos_ff.CoreNet.3")):
            values[f"{place}feed_forward/{ours}/kernel"] = weights[f"{layer}{theirs}.weight"].T
            values[f"{place}feed_forward/{ours}/bias"] = weights[f"{layer}{theirs}.bias"]
        for ours, theirs in (("attention_norm", "dec_attn.layer_norm"), ("norm", "pos_ff.layer_norm")):
            values[f"{place}{ours}/scale"] = weights[f"{layer}{theirs}.weight"]
            values[f"{place}{ours}/bias"] = weights[f"{layer}{theirs}.bias"]
    return values


def reordered(value: np.ndarray, ours: str, theirs: str) -> np.ndarray:
    """``value`` with the gates in the last axis in the order ``ours``, from the order ``theirs``."""
    parts = dict(zip(theirs, np.split(value, len(theirs), axis=-1), strict=True))
    return np.concatenate([parts[gate] for gate in ours], axis=-1)


def from_torch(value: np.ndarray) -> np.ndarray:
    """A weight of torch's LSTM, outputs first, in our layout."""
    return reordered(value.T, "gifo", "ifgo")


def to_torch(value: np.ndarray) -> np.ndarray:
    """A weight of our LSTMs, or its gradient, in torch's layout."""
    return reordered(np.asarray(value), "ifgo", "gifo").T


def lstm(layer: Any, weights: Arrays, names: tuple[str, str, str, str]) -> None:
    """One layer of torch's LSTM, of which ``names`` are the input's and the state's weights, then both biases, which
    add up to our one."""
    layer.gates.kernel.assign(from_torch(weights[names[0]]))
    layer.recurrent.kernel.assign(from_torch(weights[names[1]]))
    layer.gates.bias.assign(from_torch(weights[names[2]] + weights[names[3]]))


def awd_lstm(network: Any, weights: Arrays) -> None:
    """fastai 2's language model with an AWD_LSTM; its output layer is `awd_variables`' first."""
    network.token_embedding.assign(weights["0.encoder.weight"])
    for index, layer in enumerate(network.stack):
        place = f"0.rnns.{index}."
        module = (f"{place}module.{name}_l0" for name in ("weight_ih", "bias_ih", "bias_hh"))
        inputs, *biases = module
        lstm(layer, weights, (inputs, f"{place}weight_hh_l0_raw", *biases))


def awd_variables(network: Any, output_bias: Any) -> dict[str, Any]:
    """Our variables by fastai's names; the gradients of the recurrent ones are in our layout (`to_torch`)."""
    found = {"1.decoder.bias": output_bias, "0.encoder.weight": network.token_embedding}
    for index, layer in enumerate(network.stack):
        found[f"0.rnns.{index}.module.weight_ih_l0"] = layer.gates.kernel
        found[f"0.rnns.{index}.weight_hh_l0_raw"] = layer.recurrent.kernel
        found[f"0.rnns.{index}.module.bias_ih_l0"] = layer.gates.bias
    return found


def qrnn(network: Any, weights: Arrays) -> None:
    """fastai 1's QRNN, and ``tokens`` for what it reads. The window is 2 in the first layer, 1 above. Its gate f says
    what comes in, where ours, as the paper's, says what stays; the token before stands behind the token there."""
    network.token_embedding.assign(weights["tokens"])
    for index, layer in enumerate(network.stack):
        kernel, bias = (np.array(weights[f"layers.{index}.linear.{name}"]) for name in ("weight", "bias"))
        cells = len(bias) // 3
        kernel = kernel.T
        kernel[:, cells : 2 * cells], bias[cells : 2 * cells] = (
            -kernel[:, cells : 2 * cells],
            -bias[cells : 2 * cells],
        )
        window = 1 if index else 2
        layer.gates.kernel.assign(np.concatenate(np.split(kernel, window)[::-1]))
        layer.gates.bias.assign(bias)


def flair(network: Any, loss: Any, weights: Arrays) -> None:
    """flair's language models of both directions, their names behind "forward." and "backward."; the table of
    characters and the bias of the output layer are one for both."""
    network.token_embedding.assign(weights["encoder.weight"])
    loss.output_bias.assign(weights["decoder.bias"])
    for way, layers in (("forward", network.forward_stack), ("backward", network.backward_stack)):
        for index, layer in enumerate(layers):
            names = tuple(f"{way}.rnn.{name}_l{index}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            lstm(layer, weights, names)


def filters(speller: Any) -> list[Any]:
    """The layers of filters of a `models.layers.spelling.Spelled`, by their windows."""
    return [getattr(speller, f"filters_{window}") for window, _ in speller.config.filters]


def elmo(network: Any, weights: Arrays, vocabulary: Vocabulary) -> None:
    """The file of weights that ELMo's authors published theirs in. It has the gates in the order i, g, f, o and leaves
    the 1 out that is added to f; of the special tokens it knows [CLS] and [SEP] and the marks around words."""
    speller, first = network.embeddings, 256 + vocabulary.first
    letters = np.zeros(speller.letters.table.shape, np.float32)
    letters[[*range(256), 256 + vocabulary.cls, 256 + vocabulary.sep, *range(first, first + 3)]] = weights["char_embed"]
    speller.letters.table.assign(letters)
    for index, layer in enumerate(filters(speller)):
        layer.kernel.assign(weights[f"CNN/W_cnn_{index}"][0])
        layer.bias.assign(weights[f"CNN/b_cnn_{index}"])
    for index, layer in enumerate((speller.highway_0.gates, speller.highway_1.gates)):
        for kind, variable in (("W", layer.kernel), ("b", layer.bias)):
            parts = [weights[f"CNN_high_{index}/{kind}_{part}"] for part in ("carry", "transform")]
            variable.assign(np.concatenate(parts, axis=-1))
    speller.projection.kernel.assign(weights["CNN_proj/W_proj"])
    speller.projection.bias.assign(weights["CNN_proj/b_proj"])
    for direction, layers in enumerate((network.forward_stack, network.backward_stack)):
        for index, layer in enumerate(layers):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            both = reordered(weights[f"{place}/W_0"], "gifo", "igfo")
            layer.gates.kernel.assign(both[: network.state])
            layer.recurrent.kernel.assign(both[network.state :])
            bias = weights[f"{place}/B"] + np.repeat(np.float32([0, 0, 1, 0]), layer.config.cells)
            layer.gates.bias.assign(reordered(bias, "gifo", "igfo"))
            layer.projection.kernel.assign(weights[f"{place}/W_P_0"])


def elmo_shapes(network: Any) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the arrays in that file, for a network of ours."""
    speller = network.embeddings
    found = {"char_embed": (261, speller.config.symbol_width)}
    for index, layer in enumerate(filters(speller)):
        found[f"CNN/W_cnn_{index}"] = (1, *layer.kernel.shape)
        found[f"CNN/b_cnn_{index}"] = tuple(layer.bias.shape)
    wide = speller.projection.config.inputs
    for index in range(2):
        for part in ("carry", "transform"):
            found |= {f"CNN_high_{index}/W_{part}": (wide, wide), f"CNN_high_{index}/b_{part}": (wide,)}
    found |= {"CNN_proj/W_proj": (wide, network.state), "CNN_proj/b_proj": (network.state,)}
    for direction, layers in enumerate((network.forward_stack, network.backward_stack)):
        for index, layer in enumerate(layers):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            found[f"{place}/W_0"] = (2 * network.state, 4 * layer.config.cells)
            found[f"{place}/B"] = (4 * layer.config.cells,)
            found[f"{place}/W_P_0"] = (layer.config.cells, network.state)
    return found


def mobilebert(weights: Arrays, settings: Any) -> dict[str, np.ndarray]:
    """`transformers.MobileBertModel` with or without the heads of `MobileBertForPreTraining`, by the paths of our
    variables; ``settings`` is our encoder's configuration. The vector of padding is zeros on both sides."""
    values, start = {}, "mobilebert." if any(name.startswith("mobilebert.") for name in weights) else ""

    def linear(ours: str, *theirs: str) -> None:
        values[f"{ours}/kernel"] = np.concatenate([weights[f"{one}.weight"].T for one in theirs], axis=1)
        values[f"{ours}/bias"] = np.concatenate([weights[f"{one}.bias"] for one in theirs])

    def norm(ours: str, theirs: str) -> None:
        values[f"{ours}/scale"], values[f"{ours}/bias"] = weights[f"{theirs}.weight"], weights[f"{theirs}.bias"]

    given = f"{start}embeddings."
    for ours, theirs in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        values[f"encoder/embeddings/{ours}/table"] = weights[f"{given}{theirs}_embeddings.weight"].copy()
    values["encoder/embeddings/tokens/table"][0] = 0.0
    linear("encoder/embeddings/trigrams", f"{given}embedding_transformation")
    norm("encoder/embeddings/norm", f"{given}LayerNorm")
    block = settings.stack.block
    for index in range(settings.stack.layers):
        layer, place = f"{start}encoder.layer.{index}.", f"encoder/stack/layer_{index}/"
        entries = {"entry": "input"} | ({"query_entry": "attention"} if block.reads == "shared" else {})
        for ours, theirs in entries.items():
            linear(f"{place}{ours}", f"{layer}bottleneck.{theirs}.dense")
            norm(f"{place}{ours}_norm", f"{layer}bottleneck.{theirs}.LayerNorm")
        linear(f"{place}attention/query_key", f"{layer}attention.self.query", f"{layer}attention.self.key")
        linear(f"{place}attention/value", f"{layer}attention.self.value")
        linear(f"{place}attention/projection", f"{layer}attention.output.dense")
        norm(f"{place}attention_norm", f"{layer}attention.output.LayerNorm")
        fed = {f"feed_forward_{number}": f"{layer}ffn.{number}." for number in range(block.feed_forwards - 1)}
        for ours, theirs in (fed | {"feed_forward": layer}).items():
            linear(f"{place}{ours}/inner", f"{theirs}intermediate.dense")
            linear(f"{place}{ours}/outer", f"{theirs}output.dense")
            norm(f"{place}{ours}_norm", f"{theirs}output.LayerNorm")
        linear(f"{place}exit", f"{layer}output.bottleneck.dense")
        norm(f"{place}norm", f"{layer}output.bottleneck.LayerNorm")
    if settings.pooler is not None:
        linear("encoder/pooler", f"{start}pooler.dense")
    if "cls.predictions.bias" in weights:
        linear("mlm/transform", "cls.predictions.transform.dense")
        norm("mlm/norm", "cls.predictions.transform.LayerNorm")
        values["mlm/extra/table"] = weights["cls.predictions.dense.weight"].T
        values["mlm/output_bias"] = weights["cls.predictions.bias"]
        linear("nsp/scores", "cls.seq_relationship")
        for name in ("nsp/scores/kernel", "nsp/scores/bias"):  # their class 1 is a random second text
            values[name] = values[name][..., ::-1]
    return values
