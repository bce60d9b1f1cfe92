"""Maps weights of references to the names and layouts of our variables, if no importer in `models.published` does.

The tests of `tests.models.references` and `tests.models.test_frozen` use these functions. If a variable is renamed,
rename it here, too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary

Arrays = Mapping[str, np.ndarray]


def transformer_xl(weights: Arrays, size: Size) -> dict[str, np.ndarray]:
    """Returns the weights of `transformers.TransfoXLLMHeadModel` by the paths of our variables."""
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
    """Reorders the gates in the last axis of ``value`` from the order ``theirs`` to the order ``ours``."""
    parts = dict(zip(theirs, np.split(value, len(theirs), axis=-1), strict=True))
    return np.concatenate([parts[gate] for gate in ours], axis=-1)


def from_torch(value: np.ndarray) -> np.ndarray:
    """Converts a weight of torch's LSTM, whose first axis is the outputs, to our layout."""
    return reordered(value.T, "gifo", "ifgo")


def to_torch(value: np.ndarray) -> np.ndarray:
    """Converts a weight of our LSTMs, or its gradient, to torch's layout."""
    return reordered(np.asarray(value), "ifgo", "gifo").T


def lstm(layer: Any, weights: Arrays, names: tuple[str, str, str, str]) -> None:
    """Assigns the weights of one layer of torch's LSTM.

    ``names`` are those of the weights of the input and of the state, and of the two biases. Our bias is their sum.
    """
    layer.gates.kernel.assign(from_torch(weights[names[0]]))
    layer.recurrent.kernel.assign(from_torch(weights[names[1]]))
    layer.gates.bias.assign(from_torch(weights[names[2]] + weights[names[3]]))


def awd_lstm(network: Any, weights: Arrays) -> None:
    """Assigns the weights of fastai 2's AWD_LSTM.

    The bias of its output layer is the first entry of `awd_variables`.
    """
    network.token_embedding.assign(weights["0.encoder.weight"])
    for index, layer in enumerate(network.stack):
        place = f"0.rnns.{index}."
        module = (f"{place}module.{name}_l0" for name in ("weight_ih", "bias_ih", "bias_hh"))
        inputs, *biases = module
        lstm(layer, weights, (inputs, f"{place}weight_hh_l0_raw", *biases))


def awd_variables(network: Any, output_bias: Any) -> dict[str, Any]:
    """Returns our variables by fastai's names.

    Gradients of recurrent weights are in our layout: convert with `to_torch`.
    """
    result = {"1.decoder.bias": output_bias, "0.encoder.weight": network.token_embedding}
    for index, layer in enumerate(network.stack):
        result[f"0.rnns.{index}.module.weight_ih_l0"] = layer.gates.kernel
        result[f"0.rnns.{index}.weight_hh_l0_raw"] = layer.recurrent.kernel
        result[f"0.rnns.{index}.module.bias_ih_l0"] = layer.gates.bias
    return result


def qrnn(network: Any, weights: Arrays) -> None:
    """Assigns the weights of fastai 1's QRNN, and ``tokens`` as the token vectors that it reads.

    The window is 2 in the first layer, and 1 above. fastai's gate f is the share of the new input. Ours, like the
    paper's, is the share of the state that is kept. In fastai's kernel, the previous token comes after the current one.
    """
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
    """Assigns the weights of flair's language models of both directions, with the prefixes "forward." and "backward.".

    Both directions share the table of characters and the bias of the output layer.
    """
    network.token_embedding.assign(weights["encoder.weight"])
    loss.output_bias.assign(weights["decoder.bias"])
    for way, layers in (("forward", network.forward_stack), ("backward", network.backward_stack)):
        for index, layer in enumerate(layers):
            names = tuple(f"{way}.rnn.{name}_l{index}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            lstm(layer, weights, names)


def filters(speller: Any) -> list[Any]:
    """Returns the filter layers of a `models.layers.spelling.Spelled`, in the order of its configuration."""
    return [getattr(speller, f"filters_{window}") for window, _ in speller.config.filters]


def elmo(network: Any, weights: Arrays, vocabulary: Vocabulary) -> None:
    """Assigns weights in the format of the file that ELMo's authors published.

    It has the gates in the order i, g, f, o, without the 1 that is added to the bias of f. Its only special tokens are
    [CLS], [SEP], the marks at both ends of a word, and padding of characters.
    """
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
    """Returns the names and shapes of the arrays in that file, for our ``network``."""
    speller = network.embeddings
    result = {"char_embed": (261, speller.config.symbol_width)}
    for index, layer in enumerate(filters(speller)):
        result[f"CNN/W_cnn_{index}"] = (1, *layer.kernel.shape)
        result[f"CNN/b_cnn_{index}"] = tuple(layer.bias.shape)
    width = speller.projection.config.inputs
    for index in range(2):
        for part in ("carry", "transform"):
            result |= {f"CNN_high_{index}/W_{part}": (width, width), f"CNN_high_{index}/b_{part}": (width,)}
    result |= {"CNN_proj/W_proj": (width, network.state), "CNN_proj/b_proj": (network.state,)}
    for direction, layers in enumerate((network.forward_stack, network.backward_stack)):
        for index, layer in enumerate(layers):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            result[f"{place}/W_0"] = (2 * network.state, 4 * layer.config.cells)
            result[f"{place}/B"] = (4 * layer.config.cells,)
            result[f"{place}/W_P_0"] = (layer.config.cells, network.state)
    return result


def mobilebert(weights: Arrays, settings: Any) -> dict[str, np.ndarray]:
    """Returns weights of `transformers.MobileBertModel` or `MobileBertForPreTraining` by the paths of our variables.

    ``settings`` is the configuration of our encoder. The vector of padding is zero on both sides.
    """
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
        for name in ("nsp/scores/kernel", "nsp/scores/bias"):  # the class 1 of `transformers` is a random second text
            values[name] = values[name][..., ::-1]
    return values
