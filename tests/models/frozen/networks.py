"""Computes the outputs of our Transformers with the weights of `transformers`, for the inputs below."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import Frozen
from tests.models.frozen.mappings import transformer_xl as transformer_xl_names

SIZE = Size(layers=2, width=16, heads=2, inner=24, length=160)
SIZES = {
    "electra": replace(SIZE, embedding=8),
    "albert": replace(SIZE, embedding=8),
    "gpt": replace(SIZE, inner=64),
}
"""ELECTRA and ALBERT have narrower token vectors than layers. The reference of GPT fixes the inner width at 4 D."""
VOCABULARY = Vocabulary(size=41)
TABLES = {"infoword": "bert", "spanbert": "bert", "structbert": "bert", "unilm_v2": "unilm"}
"""The model whose table in `models.published` names the weights, if it is another one."""

POSITIONS = np.array([[1, 5], [2, 6]], np.int32)
FAR = slice(9, None, 20)
"""The positions of the long row whose vectors are stored."""
START = 5
"""Number of target tokens that follow the source of a language model."""
MEMORY = 6
CUT = 12
SEEN: dict[str, Callable] = {
    "bidirectional": lambda row, query, key: True,
    "left to right": lambda row, query, key: key <= query,
    "right to left": lambda row, query, key: key >= query,
    "sequence to sequence": lambda row, query, key: key < CUT or (query >= CUT and key <= query),
}
"""UniLM's attention masks: True if position ``query`` sees position ``key``. The second segment starts at `CUT`."""
SEGMENTS: dict[str, Callable] = {
    "bidirectional": lambda segments: segments,
    "left to right": lambda segments: segments * 0 + 2,
    "right to left": lambda segments: segments * 0 + 3,
    "sequence to sequence": lambda segments: segments + 4,
}


def inputs() -> dict[str, np.ndarray]:
    """Returns the inputs of most networks.

    tokens, segments  [2, 10]; the second row has 7 tokens and padding
    targets           [2, 6]; the second row has 4 tokens and padding
    labels            [2, 2] for `POSITIONS`
    far               [1, 150], because the farthest bucket of T5 begins at 128
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (2, 10)).astype(np.int32)
    tokens[1, 7:] = 0
    segments = (np.arange(10) >= 4) * (tokens > 0)
    targets = rng.integers(1, VOCABULARY.size, (2, 6)).astype(np.int32)
    targets[1, 4:] = 0
    labels = rng.integers(5, VOCABULARY.size, (2, 2)).astype(np.int32)
    far = rng.integers(5, VOCABULARY.size, (1, 150)).astype(np.int32)
    return {"tokens": tokens, "segments": segments.astype(np.int32), "targets": targets, "labels": labels, "far": far}


def assign(built: Pretrainable, table: str, arrays: Mapping[str, np.ndarray], size: Size = SIZE) -> set[str]:
    """Assigns the weights ``arrays`` to ``built``, with the names of the model ``table`` in `models.published`.

    Returns the paths of variables that are missing from the table or from ``arrays``.
    """
    entries, absent = {entry.ours: entry for entry in published.load(table).weights(size)}, set()
    for variable in built.loss.variables:
        entry = entries.get(variable.path)
        if entry is not None and set(entry.theirs) <= set(arrays):
            variable.assign(entry.read(arrays, tuple(variable.shape)))
        else:
            absent.add(variable.path)
    return absent


def build(name: str, frozen: Frozen, absent: tuple[str, ...] = ()) -> Pretrainable:
    """Builds our network ``name`` with the reference's weights.

    Only paths with a prefix in ``absent`` may have none.
    """
    size, table = SIZES.get(name, SIZE), TABLES.get(name, name)
    built = models.load(name).build(size, VOCABULARY)
    missing = assign(built, table, frozen.weights, size)
    assert all(path.startswith(absent or ("nothing",)) for path in missing), missing
    return built


def hidden(encode: Callable, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns all layers [L + 1, B, T, D] of the short rows, with zeros for padding, and the long row's last layer."""
    present = (given["tokens"] > 0)[..., None]
    far = {"tokens": given["far"], "segments": (np.arange(150) >= 70).astype(np.int32)[None]}
    return {
        "hidden": np.stack([np.asarray(layer) * present for layer in encode(given).layers]),
        "far": np.asarray(encode(far).tokens)[0, FAR],
    }


def masked_lm(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes layers, logits of masked tokens, pooled vector and loss of BERT and similar encoders."""
    absent = {"spanbert": ("sbo/",), "infoword": (), "structbert": ("sentence_order/",)}
    built, given = build(name, frozen, absent.get(name, ())), inputs()
    encode = built.encoder
    if name in ("spanbert", "infoword"):  # their reference has one segment
        given["segments"] *= 0
        encode = lambda batch: built.encoder({"tokens": batch["tokens"]})  # noqa: E731
    result, encoding = hidden(encode, given), encode(given)
    head = built.loss.mlm if hasattr(built.loss, "mlm") else built.loss.heads[0]
    result["logits"] = np.reshape(head.logits(encoding.tokens, POSITIONS), (2, 2, -1))
    if name in ("bert", "albert"):
        result["pooled"] = np.asarray(encoding.pooled)
    noise = {"masked_positions": POSITIONS, "masked_labels": given["labels"]}
    noise |= {"masked_weights": np.ones((2, 2), np.float32)}
    if name in ("bert", "albert", "roberta"):
        pair = {"next": np.array([0, 1], np.int32), "swapped": np.array([1, 0], np.int32)}
        result["loss"] = np.asarray(built.loss(given | pair | noise)["loss"])
    if name == "distilbert":  # the rest of its loss needs a teacher
        result["loss"] = np.asarray(head(encoding, noise, head.totals(noise))["mlm_loss"])
    return result


def electra(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the discriminator's layers and both losses.

    Without a seed, the generator's most likely piece is inserted.
    """
    built, given = build("electra", frozen), inputs()
    result, original = hidden(built.encoder, given), given["tokens"].copy()
    np.put_along_axis(original, POSITIONS, given["labels"], axis=1)
    hiding = original.copy()
    np.put_along_axis(hiding, POSITIONS, VOCABULARY.mask, axis=1)
    noise = {"masked_positions": POSITIONS, "masked_labels": given["labels"]}
    noise |= {"masked_weights": np.ones((2, 2), np.float32), "tokens": hiding, "original": original}
    losses = built.loss(given | noise)
    return result | {"mlm_loss": np.asarray(losses["mlm_loss"]), "rtd_loss": np.asarray(losses["rtd_loss"])}


def mpnet(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers, and the logits and the loss of one masked token. Its query stream equals masked LM."""
    built, given = build("mpnet", frozen), inputs()
    tokens = given["tokens"].copy()
    tokens[:, 4] = VOCABULARY.mask
    masked = {"tokens": tokens, "masked_positions": np.full((2, 1), 4, np.int32)}
    masked |= {"masked_labels": given["tokens"][:, 4:5], "masked_weights": np.ones((2, 1), np.float32)}
    logits = np.reshape(built.loss.logits(masked), (2, -1))
    return hidden(built.encoder, given) | {"logits": logits, "loss": np.asarray(built.loss(masked)["loss"])}


def xlnet(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers of the content stream. `tests.models.published.frozen` compares both streams."""
    return hidden(build("xlnet", frozen).encoder, inputs())


def language_model(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers, log-likelihoods, the loss, and the logits of a text that continues a padded source."""
    built, given = build(name, frozen), inputs()
    tokens = given["tokens"]
    source = {"tokens": tokens[1:, :9], "targets": tokens[:1, :START]}
    return hidden(built.encoder, given) | {
        "likelihood": np.asarray(built.log_likelihood({"tokens": tokens})),
        "loss": np.asarray(built.loss({"tokens": tokens})["loss"]),
        "decode": np.asarray(built.decode(source)),
    }


def seq2seq(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers of encoder and decoder, the logits of short and long targets, and the loss."""
    built, given = build(name, frozen), inputs()
    tokens, targets = given["tokens"], given["targets"]
    written = (targets[:, :-1] > 0)[..., None]
    encoding = built.encoder(given)
    layers = built.loss.decoder.hidden(targets[:, :-1], encoding.tokens, tokens)
    return hidden(built.encoder, given) | {
        "decoder": np.stack([np.reshape(layer, (2, 5, -1)) * written for layer in layers]),
        "logits": np.asarray(built.decode({"tokens": tokens, "targets": targets[:, :-1]})) * written,
        "far_logits": np.asarray(built.decode({"tokens": tokens[:1], "targets": given["far"]}))[0, FAR],
        "loss": np.asarray(built.loss({"tokens": tokens, "targets": targets})["loss"]),
    }


def prophetnet(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers of the encoder and of all streams [L + 1, B, 1 + N, S, D], their logits, and the loss."""
    built, given = build("prophetnet", frozen), inputs()
    tokens, previous = given["tokens"], given["targets"][:, :-1].clip(1)
    targets = given["targets"][:, 1:]
    encoding = built.encoder(given)
    layers = [np.asarray(layer) for layer in built.loss.decoder.hidden(previous, encoding.tokens, tokens)]
    far = built.loss.decoder(given["far"], encoding.tokens[:1], tokens[:1])
    positions = np.tile(np.arange(5, dtype=np.int32), (2, 1))
    batch = {"tokens": tokens, "previous": previous, "targets": targets, "positions": positions}
    return hidden(built.encoder, given) | {
        "decoder": np.stack([np.reshape(layer, (2, 3, 5, -1)) for layer in layers]),
        "logits": np.asarray(built.loss.decoder(previous, encoding.tokens, tokens)),
        "far_logits": np.asarray(far)[0, :, FAR],
        "loss": np.asarray(built.loss(batch)["loss"]),
    }


def transformer_xl(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers without and with a memory, and the log-likelihoods and the loss with a memory."""
    built, given = models.load("transformer_xl").build(SIZE, VOCABULARY), inputs()
    values = transformer_xl_names(frozen.weights, SIZE)
    assert {variable.path for variable in built.loss.variables} == set(values)
    for variable in built.loss.variables:
        variable.assign(values[variable.path])
    memory, tokens = given["far"][:, :MEMORY], given["far"][:, MEMORY:20]
    layers = built.encoder.hidden(tokens, memory=memory)
    batch = {"tokens": tokens, "memory": memory}
    return hidden(built.encoder, given) | {
        "remembering": np.stack([np.reshape(layer, (1, 20 - MEMORY, -1)) for layer in layers]),
        "likelihood": np.asarray(built.log_likelihood(batch))[:, 1:],
        "loss": np.asarray(built.loss(batch)["loss"]),
    }


def unilm_inputs() -> dict[str, np.ndarray]:
    """Returns a batch [2, 17] with masked tokens and their labels. The second row has 15 tokens and padding."""
    rng = np.random.default_rng(3)
    tokens = rng.integers(5, VOCABULARY.size, (2, 17)).astype(np.int32)
    tokens[1, 15:] = 0
    segments = (np.arange(17) >= CUT).astype(np.int32)[None].repeat(2, axis=0)
    return {
        "tokens": tokens,
        "segments": segments,
        "masked_positions": np.array([[1, 5, 14], [2, 13, 8]], np.int32),
        "masked_labels": rng.integers(5, VOCABULARY.size, (2, 3)).astype(np.int32),
        "masked_weights": np.ones((2, 3), np.float32),
        "next": np.array([1, 0], np.int32),
    }


def unilm(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes last layer and logits of masked tokens under each mask, the loss, and logits of decoding."""
    built, batch, result = build("unilm", frozen), unilm_inputs(), {}
    present = (batch["tokens"] > 0)[..., None]
    for kind, segments in SEGMENTS.items():
        given = batch | {"segments": segments(batch["segments"])}
        encoding = built.encoder(given)
        result[f"{kind}/hidden"] = np.asarray(encoding.tokens) * present
        logits = built.loss.heads[0].logits(encoding.tokens, batch["masked_positions"])
        result[f"{kind}/logits"] = np.reshape(logits, (2, 3, -1))
    result["loss"] = np.asarray(built.loss(batch)["loss"])
    given = inputs()
    result["written"] = np.asarray(built.decode({"tokens": given["tokens"], "targets": given["targets"].clip(5)}))
    return result


def unilm_v2_inputs() -> dict[str, np.ndarray]:
    """Returns a row of 150 tokens, which reaches the farthest bucket, with four masked tokens in three blocks."""
    rng = np.random.default_rng(6)
    tokens = rng.integers(5, VOCABULARY.size, (1, 150)).astype(np.int32)
    tokens[0, 145:] = 0
    positions, order = np.array([[3, 4, 140, 20]], np.int32), np.array([[5, 5, 1, 8]], np.int32)
    labels = np.take_along_axis(tokens, positions, axis=1)
    np.put_along_axis(tokens, positions, VOCABULARY.mask, axis=1)
    segments = (np.arange(150) >= 70).astype(np.int32)[None]
    batch = {"tokens": tokens, "segments": segments, "order": order, "masked_positions": positions}
    return batch | {"masked_labels": labels, "masked_weights": np.ones((1, 4), np.float32)}


def unilm_v2(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the logits of masked and pseudo-masked tokens, and the loss.

    BERT has no table of distances. It is drawn with the name "distances" as the seed.
    """
    built = build("unilm_v2", frozen, ("encoder/distances/",))
    built.encoder.distances.table.assign(frozen.weights["distances"])
    batch = unilm_v2_inputs()
    logits = np.reshape(built.loss.logits(batch), (8, -1))
    return {"logits": logits, "loss": np.asarray(built.loss(batch)["loss"])}


TEXTS = ["The dog sleeps, walking on.", "A café in Zürich"]
LINES = np.random.default_rng(5).random((2, 8))
"""The two rows of tokens whose probabilities are compared, as fractions of the vocabulary's size."""
DECODERS = ("t5", "t5_1_1", "bart", "pegasus")


def imported(frozen: Frozen, path: Path) -> tuple:
    """Imports our network from the folder that the reference saved, at ``path``. Returns it and the `Folder`."""
    from safetensors.numpy import save_file

    for name, value in frozen.given.items():
        if name.endswith(".json"):
            (path / name).write_text(str(value), encoding="utf-8")
    save_file(frozen.weights, path / "model.safetensors", metadata={"format": "pt"})
    return loaded(path)


def loaded(path: Path) -> tuple:
    """Imports the published folder ``path``. Returns our network and the `Folder`. Every array of it must be used."""
    from ptmbench.bench.engine import networks
    from ptmbench.models.published import folder

    result = folder.read(path)
    built = models.load(result.model).build(result.size, result.tokenizer.vocabulary)
    read, absent, unused = result.weights({v.path: tuple(v.shape) for v in built.loss.variables})
    assert not unused and not any(name.startswith("encoder/") for name in absent), (unused, absent)
    networks.assign([v for v in built.loss.variables if v.path in read], read)
    return built, result


def folder_of(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the outputs of an imported folder.

    They are ids and vectors of two texts and of their pair, with special tokens, and log-probabilities over exactly the
    ids of the original.
    """
    from ptmbench.bench.adapt.heads import layout
    from ptmbench.models.published import _vocabulary

    with TemporaryDirectory() as path:
        built, read = imported(frozen, Path(path))
    tokenizer, result = read.tokenizer, {}
    places, size = _vocabulary.permutation(tokenizer)
    vocabulary = tokenizer.vocabulary
    ours = np.full(size, -1)  # by the original ids
    for number in range(vocabulary.size):
        if number not in vocabulary.absent:
            ours[places[number]] = number
    for key, texts in texts_of(name).items():
        rows = layout(vocabulary, tokenizer.encode(texts), read.size.length)
        result[f"{key}/ids"] = np.array([places[number] for number in rows["tokens"]])
        encoding = built.encoder({name: row[None] for name, row in rows.items()})
        result[f"{key}/vectors"] = np.asarray(encoding.tokens)[0]
    if "lines" not in frozen.given:  # a reference without a head
        return result
    text = ours[frozen.given["lines"]].astype(np.int32)  # [2, 8]
    if name in DECODERS:
        first = np.pad(text[:, :4], [(0, 0), (1, 0)], constant_values=vocabulary.sep)
        logits = built.decode({"tokens": text, "targets": first})
    elif built.log_likelihood is not None:
        logits = built.decode({"tokens": text[:, :1], "targets": text[:, 1:]})
        result["likelihood"] = np.asarray(built.log_likelihood({"tokens": text}))[:, 1:]
    else:
        logits = built.fill({"tokens": text, "segments": 0 * text, "places": np.array([2, 5], np.int32)})
    logits = np.asarray(logits, np.float64)
    result["probabilities"] = (logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))[..., ours]
    return result


def texts_of(name: str) -> dict[str, list[str]]:
    """Returns two texts and their pair.

    There are none for CTRL and MPNet, which have tokenizers of other models here.
    """
    return {} if name in ("ctrl", "mpnet") else {"text": TEXTS[:1], "accents": TEXTS[1:], "pair": TEXTS}


LONGEST = 10
SEARCHES = ((4, 1.0, 0), (3, 0.6, 2), (1, 1.0, 0))
"""Beam width, length penalty, and the size of n-grams that may not be repeated (0: no limit)."""


def sources() -> np.ndarray:
    """Returns four source texts [4, 12], two of them padded."""
    tokens = np.random.default_rng(3).integers(5, VOCABULARY.size, (4, 12)).astype(np.int32)
    tokens[1:3, 8:] = 0
    return tokens


def beams(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the texts of each search [B, K, S], with zeros after the end, and the scores of the hypotheses."""
    from ptmbench.bench.engine.generate import Generator, Writing

    end = int(frozen.given["end"])
    built, result = build(name, frozen), {}
    for beam, penalty, repeats in SEARCHES:
        writing = Writing(beam=beam, length_penalty=penalty, no_repeat_ngram=repeats)
        texts = Generator(built, replace(VOCABULARY, sep=end), writing)(sources(), LONGEST)
        result[f"{beam}/ids"] = until(texts.ids, end)
        if beam > 1:
            result[f"{beam}/scores"] = np.asarray(texts.scores)
    return result


def until(ids: np.ndarray, end: int) -> np.ndarray:
    """Returns ``ids`` [B, K, S] with zeros after the first ``end``, padded to `LONGEST`."""
    ids = np.pad(np.asarray(ids), [(0, 0), (0, 0), (0, LONGEST - np.shape(ids)[-1])])
    return np.where(np.cumsum(np.pad(ids == end, [(0, 0), (0, 0), (1, 0)])[..., :-1], axis=-1) > 0, 0, ids)


_FOLDERS = ("bert", "electra", "gpt", "gpt2", "ctrl", "roberta", "mpnet", "xlnet", *DECODERS)
OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {
    **{
        name: partial(masked_lm, name)
        for name in ("bert", "roberta", "albert", "distilbert", "spanbert", "infoword", "structbert")
    },
    **{name: partial(language_model, name) for name in ("gpt", "gpt2", "ctrl")},
    **{name: partial(seq2seq, name) for name in DECODERS},
    **{f"folder_{name}": partial(folder_of, name) for name in _FOLDERS},
    **{f"beams_{name}": partial(beams, name) for name in ("t5", "bart")},
    "electra": electra,
    "mpnet": mpnet,
    "xlnet": xlnet,
    "prophetnet": prophetnet,
    "transformer_xl": transformer_xl,
    "unilm": unilm,
    "unilm_v2": unilm_v2,
}
"""Functions by the names of the files."""
