"""Writes our networks and vocabularies as presets of keras-hub, which its classes load with ``from_preset``.

`ptmbench export --format keras_hub` calls it. `models.published._keras_hub` reads such folders, and its tables are
inverted here. A preset has a backbone and no heads of the objective. keras-hub builds the network and writes its files;
this file sets the weights. `bench.runs.published` checks that keras-hub then computes the same vectors.
"""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import Unsupported, _keras_arrays, _keras_hub, _slow, _vocabulary, folder
from ptmbench.models.text.tokenizers import Tokenizer

_NAMES = {
    "DistilBertTokenizer": {},
    "RobertaTokenizer": {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
    "BartTokenizer": {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
    "GPT2Tokenizer": {"sep": "<|endoftext|>"},
    "AlbertTokenizer": {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "T5Tokenizer": {"pad": "<pad>", "unk": "<unk>", "sep": "</s>"},
}
"""The spellings of special tokens that keras-hub's tokenizer classes require, by role."""
_KINDS = {"DistilBertTokenizer": "wordpiece", "AlbertTokenizer": "unigram", "T5Tokenizer": "unigram"}
"""The kind of vocabulary that a class reads. All other classes read BPE."""
_ELSEWHERE = "Export with --format transformers."
_ROLES = ("pad", "unk", "cls", "sep", "mask")
_PROBES = {
    "no characters": "",
    "numbers of more than three digits": "in 2024 12345 it",
    "upper case before an apostrophe": "DON'T WE'LL",
    "spaces at the ends of a text": " the  dog\n",
    "spaces beyond ASCII": "the\u00a0dog\u3000and",
    "control and format characters": "do\u200bg and\x07 the\ufeffdog",
    "words of more than 100 bytes": "dog" * 40,
    "composed and decomposed accents": "caf\u00e9 cafe\u0301 Z\u00fcrich",
    "ligatures and compatibility characters": "\ufb01ne \u2460 \u212b",
    "upper case beyond ASCII": "STRASSE \u00c5NGSTR\u00d6M \u0130",
    "the sign for spaces (U+2581)": "the \u2581\u2581 dog",
    "Chinese characters": "\u6771\u4eac\u90fd",
    "Emoji": "the\U0001f600dog \U0001f468\u200d\U0001f469",
    "spelled special tokens": "[MASK] the[SEP] <s> dog</s> <mask> <|endoftext|>",
}
"""Texts that keras-hub may tokenise differently, by their special feature."""
_PLAIN = "The quick dog, 12 of it: it's walking!"


@dataclass(frozen=True, kw_only=True)
class PresetContents:
    """The contents of a new preset."""

    backbone: str
    """The name of its class in ``keras_hub.models``."""
    places: list[int | None]
    """The id in the preset for each id here, or None if the preset lacks it."""
    unwritten: list[str]
    """Weights for which the backbone has no place, by their names in `transformers`."""
    deviations: list[str]
    """Kinds of text that keras-hub's tokenizer tokenises differently."""


def write(
    path: Path, *, model: str, size: Size, tokenizer: Tokenizer, arrays: Mapping[str, np.ndarray]
) -> PresetContents:
    """Writes ``arrays``, by path of variable, and ``tokenizer`` as a preset into the empty folder ``path``.

    Raises `Unsupported` for a model or a vocabulary that keras-hub does not compute in the same way, and
    `PublishedError` for a model without a layout.
    """
    import keras_hub

    tokenizer, config, found = folder.in_their_layout(model, size, tokenizer, arrays)
    name, settings = _keras_hub.backbone_of(model, config)
    spelled = {"registered_name": f"keras_hub>{name}", "config": {"activation": "relu"} | settings}
    table = published.load(model)
    try:
        table.size(_keras_hub.settings(spelled))
    except Unsupported as error:
        raise Unsupported(f"keras-hub's {name} computes another network than {model}: {error} {_ELSEWHERE}") from error
    prefix = table.PREFIX
    found = {key.removeprefix(prefix): array for key, array in found.items()}
    if model == "roberta":
        _fold_segments(found)
    theirs = _tokenizer(keras_hub.models, name.replace("Backbone", "Tokenizer"), tokenizer)
    backbone = getattr(keras_hub.models, name)(**settings, dtype="float32")
    unwritten = _keras_arrays.fill(backbone, config, found)
    backbone.save_to_preset(str(path))
    theirs.save_to_preset(str(path))
    places, _ = _vocabulary.permutation(tokenizer)
    return PresetContents(
        backbone=name, places=places, unwritten=unwritten, deviations=_deviations(tokenizer, theirs, places)
    )


def _fold_segments(arrays: dict[str, np.ndarray]) -> None:
    """Adds RoBERTa's only segment vector to all positions, because keras-hub's RoBERTa has no segments."""
    segment = arrays.pop("embeddings.token_type_embeddings.weight")
    arrays["embeddings.position_embeddings.weight"] = arrays["embeddings.position_embeddings.weight"] + segment


def _tokenizer(classes: Any, name: str, tokenizer: Tokenizer) -> Any:
    """Makes keras-hub's tokenizer of the class ``name`` with the pieces of ``tokenizer`` and their original ids.

    Raises `Unsupported` for a vocabulary of another kind, or one that the class refuses.
    """
    spec, kind = tokenizer.imported["pieces"], _KINDS.get(name, "bpe")
    if tokenizer.kind != kind:
        raise Unsupported(
            f"keras-hub's {name} reads vocabularies of the kind {kind}, and this one is {tokenizer.kind}. Pre-train "
            f"with --tokenizer {kind}, or export with --format transformers."
        )
    pieces = _pieces(tokenizer, _NAMES[name])
    numbers = {number: piece for piece, number in pieces.items()}
    lines = [numbers.get(i, f"[none{i}]") for i in range(max(numbers) + 1)]  # also for ids without a piece
    if kind == "wordpiece":
        arguments = {"vocabulary": lines, **_wordpiece(spec)}
    elif kind == "bpe":
        arguments = {"vocabulary": pieces, **_bpe(spec)}
    else:
        arguments = {"proto": _unigram(tokenizer, lines)}
    try:
        return getattr(classes, name)(**arguments)
    except ValueError as error:
        raise Unsupported(f"keras-hub's {name} does not take this vocabulary: {error}") from error


def _pieces(tokenizer: Tokenizer, names: Mapping[str, str]) -> dict[str, int]:
    """Returns the original id of every piece. Special tokens get their spellings in ``names``, by role.

    A spelling that the vocabulary already has keeps its id.
    """
    rows = tokenizer.imported["rows"]
    found = _vocabulary.numbers_of(tokenizer.imported["pieces"])
    renamed = {rows[_ROLES.index(role)]: name for role, name in names.items() if name not in found}
    return {renamed.get(number, piece): number for piece, number in found.items()}


def _wordpiece(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of keras-hub's WordPiece for the normalizer of ``spec``.

    Raises `Unsupported` if keras-hub's WordPiece does not normalise texts in this way.
    """
    normal = spec.get("normalizer") or {}
    lower = normal.get("lowercase")
    strips = normal.get("strip_accents")
    usual = normal.get("type") == "BertNormalizer" and normal.get("clean_text")
    if not usual or (spec.get("pre_tokenizer") or {}).get("type") != "BertPreTokenizer":
        raise Unsupported(f"The vocabulary's texts are not normalised as keras-hub's WordPiece does. {_ELSEWHERE}")
    return {
        "lowercase": bool(lower),
        "strip_accents": bool(lower if strips is None else strips),
        "split_on_cjk": bool(normal.get("handle_chinese_chars")),
    }


def _bpe(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of keras-hub's BPE for the steps of ``spec``. No text can spell a special token.

    Raises `Unsupported` if keras-hub's BPE has no such steps.
    """
    normal, cut = spec.get("normalizer") or {"type": "Strip"}, spec.get("pre_tokenizer") or {}
    steps = [step["type"] for step in normal.get("normalizers", [normal])]
    if set(steps) - {"Strip"}:
        raise Unsupported(
            f"The vocabulary's texts are normalised ({', '.join(steps)}), and keras-hub's BPE takes them as they are. "
            "Pre-train with a vocabulary that keeps upper case."
        )
    if cut.get("type") != "ByteLevel" or not cut.get("use_regex", True) or spec["model"].get("end_of_word_suffix"):
        raise Unsupported("The vocabulary is no BPE over bytes that is cut into words as GPT-2's, as keras-hub's is.")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in spec["model"]["merges"]]
    return {
        "merges": merges,
        "add_prefix_space": bool(cut.get("add_prefix_space")),
        "unsplittable_tokens": [],
    }


def _unigram(tokenizer: Tokenizer, lines: list[str]) -> bytes:
    """Returns a serialised model of the sentencepiece package with the pieces ``lines``.

    No text can spell a special token. NFKC and the replacement of white space by one space become the package's rule
    nmt_nfkc. The table of characters of an imported vocabulary is kept. Raises `Unsupported` for other steps.
    """
    from sentencepiece import sentencepiece_model_pb2

    spec, rows = tokenizer.imported["pieces"], tokenizer.imported["rows"]
    normal = spec.get("normalizer") or {"type": "none"}
    steps = normal.get("normalizers", [normal])
    if others := {step["type"] for step in steps} - {"NFKC", "Precompiled", "Replace", "Strip"}:
        raise Unsupported(
            f"The vocabulary's texts are normalised ({', '.join(sorted(others))}), which keras-hub's tokenizer does "
            f"not do. {_ELSEWHERE}"
        )
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.name = _slow.MADE_HERE
    for step in steps:
        if step["type"] in ("NFKC", "Precompiled"):
            table = base64.b64decode(step["precompiled_charsmap"]) if step["type"] == "Precompiled" else _nfkc()
            model.normalizer_spec.precompiled_charsmap = table
    trainer = model.trainer_spec
    trainer.model_type, trainer.vocab_size = trainer.UNIGRAM, len(lines)
    pad, unk, cls, sep, *_ = (-1 if row is None else row for row in rows)
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = pad, unk, cls, sep
    special = {row for row in rows if row is not None}
    special |= {token["id"] for token in spec.get("added_tokens") or () if token["special"]}
    scores = [score for _, score in spec["model"]["vocab"]]
    for number, line in enumerate(lines):
        piece = model.pieces.add(piece=line, score=scores[number] if number < len(scores) else 0.0)
        known = number not in special and not line.startswith("[none")
        piece.type = piece.UNKNOWN if number == unk else piece.NORMAL if known else piece.CONTROL
    return model.SerializeToString()


def _nfkc() -> bytes:
    """Returns the sentencepiece package's table of characters for nmt_nfkc, from a small model that it trains."""
    from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2

    trained = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a"]),
        model_writer=trained,
        model_type="char",
        vocab_size=8,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def _deviations(tokenizer: Tokenizer, theirs: Any, places: list[int | None]) -> list[str]:
    """Returns the kinds of text that ``theirs`` tokenises differently, called directly or in a graph (`tf.data`).

    keras-hub has a separate implementation for each. Raises `Unsupported` if plain text is tokenised differently.
    """
    import tensorflow as tf

    traced = tf.function(theirs, input_signature=[tf.TensorSpec((), tf.string)])

    def same(text: str) -> bool:
        ours = [places[number] for number in tokenizer.encode([text])[0]]
        return ours == np.asarray(theirs(text)).tolist() == traced(tf.constant(text)).numpy().tolist()

    if not same(_PLAIN):
        raise Unsupported(f"keras-hub's {type(theirs).__name__} cuts plain text otherwise than this vocabulary does.")
    return [kind for kind, text in _PROBES.items() if not same(text)]
