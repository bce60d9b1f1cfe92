"""Vocabularies of published folders: read, renumbered to the ids that objectives know, and written back.

Here every tokenizer has its special tokens at ids 0 to 4, sentinels to 36, and text behind them, in the order of the
original. What plays each part there (its [CLS] may be called <s>) is looked up by its role. Special tokens are out of
the reach of texts here: "[MASK]" in a text is five letters between brackets, as `tokenizers` has it with
``encode_special_tokens``. Otherwise the pieces of every text are those of the original, because its own normalizer,
pre-tokenizer and merges go on working.

The note that goes with such a tokenizer (`models.text.tokenizers.Tokenizer.imported`):

    rows      the original id of each of our special ids 0 ... 36, or None for one that was not there
    size      how many ids the original has
    pieces    the original tokenizer in the form of `tokenizers`, config its tokenizer_config.json
    template  `models.text.template.Template` in our ids; not there where it is the default
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.published import PublishedError, _slow, _templates
from ptmbench.models.published._slow import SLOW, slow
from ptmbench.models.text.template import BERT, Template
from ptmbench.models.text.tokenizer_kinds import SENTINELS, SPECIALS, SPELLINGS
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary

FILES = ("tokenizer.json", *SLOW)
_MOST = 1 << 22
"""Ids that a vocabulary may have; the largest published ones have a quarter of that."""
LARGEST = 1 << 26
"""Bytes of a file of settings or of a vocabulary; the largest published ones have half of that."""
_UNUSED = 1 << 16
"""Rows that a model's tables may have beyond its vocabulary; they are there to make sizes round."""
_KINDS = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}
_ROLES = {
    "pad": (("pad_token",), ("[PAD]", "<pad>"), "pad_token_id"),
    "unk": (("unk_token",), ("[UNK]", "<unk>"), "unk_token_id"),
    "cls": (("cls_token", "bos_token"), ("[CLS]", "<cls>", "<s>", "<|endoftext|>"), "decoder_start_token_id"),
    "sep": (("sep_token", "eos_token"), ("[SEP]", "<sep>", "</s>", "<|endoftext|>"), "eos_token_id"),
    "mask": (("mask_token",), ("[MASK]", "<mask>"), "mask_token_id"),
}
"""Our names to the settings of tokenizer_config.json that name the token there, the usual spellings where none does,
and the setting of config.json that has its id."""


def read(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of ``folder``, renumbered; `PublishedError` where there is none that can be read."""
    settings = settings_of(folder)
    if (folder / "tokenizer.json").is_file():
        spec = json_of(folder / "tokenizer.json")
    else:
        spec = slow(folder, config, settings)
    return of(spec, config, settings, folder)


def of(spec: dict[str, Any], config: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> Tokenizer:
    """The tokenizer ``spec`` of ``folder``, renumbered; ``settings`` are those of tokenizer_config.json."""
    try:
        _check_charsmaps(spec.get("normalizer"))
        ids = numbers_of(spec)
        rows = [_role(name, ids, settings, config) for name in _ROLES] + _sentinels(ids)
        template = _templates.found(spec, rows, str(config.get("model_type")))
        size = _size(ids, rows, config)
        rows = [None if place is None or place >= size else place for place in rows]
        return _renumbered(spec, ids, rows, size, settings, template)
    except PublishedError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise PublishedError(
            f"The tokenizer in {folder} is not in the form that the `tokenizers` package writes ({error!r}). "
            "Save it anew with a recent release of transformers."
        ) from error


def settings_of(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say together; {} where neither is there."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            found |= json_of(folder / name)
    return found


def json_of(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; `PublishedError` for anything else."""
    check_size(path)
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise PublishedError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise PublishedError(
            f"{path} is not a complete JSON file: it is damaged or cut short. Fetch it again."
        ) from error
    if not isinstance(found, dict):
        raise PublishedError(f"{path} holds no JSON object. Fetch it again.")
    return found


def check_size(path: Path) -> None:
    """`PublishedError` for a file of more than `LARGEST` bytes: parsed, it would take many times as much memory."""
    if path.is_file() and path.stat().st_size > LARGEST:
        raise PublishedError(
            f"{path} has {path.stat().st_size:,} bytes, and files of settings and vocabularies have {LARGEST:,} at "
            "most. Is it the right file? Fetch it again."
        )


def permutation(tokenizer: Tokenizer) -> tuple[list[int | None], int]:
    """The original id of each id of an imported tokenizer (None for those that it did not have), and how many it
    had."""
    rows, size = tokenizer.imported["rows"], tokenizer.imported["size"]
    special = set(rows)
    return [*rows, *(i for i in range(size) if i not in special)], size


def to_ours(array: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Rows in our order; rows that the original lacks are the mean of all, rows that no token has are left out."""
    places, size = permutation(tokenizer)
    if any(place >= len(array) for place in places[len(SPECIALS) :]):
        raise PublishedError(
            f"The vocabulary has {size} pieces, but the table of their vectors only {len(array)} rows. Are both from "
            "one model?"
        )
    known = [place if place is not None and place < len(array) else -1 for place in places]
    found = array[known]
    found[[place < 0 for place in known]] = array.mean(axis=0)
    return found


def to_theirs(array: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """The inverse: rows that only we have are left out; of several copies the first one counts."""
    places, size = permutation(tokenizer)
    found = np.zeros((size, *array.shape[1:]), array.dtype)
    for ours in range(len(places) - 1, -1, -1):
        if places[ours] is not None:
            found[places[ours]] = array[ours]
    return found


def original(tokenizer: Tokenizer) -> Vocabulary:
    """The ids of the special tokens in the original numbering; those that it lacks stand at its padding."""
    rows, size = tokenizer.imported["rows"], tokenizer.imported["size"]
    pad = rows[0] or 0
    named = {name: pad if place is None else place for name, place in zip(_ROLES, rows, strict=False)}
    return Vocabulary(size=size, **named)


def texts(tokenizer: Tokenizer, length: int, segmented: bool) -> dict[str, str]:
    """The files of a published folder for an imported or `numbered` tokenizer; a network that is not ``segmented`` is
    given no segments, which some in `transformers` would read as words."""
    spec, settings = tokenizer.imported["pieces"], tokenizer.imported["config"]
    spec = _templates.marked(spec, tokenizer.imported["rows"], tokenizer.vocabulary.template)
    settings = settings | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings.setdefault("model_max_length", length)
    inputs = ["input_ids", *(["token_type_ids"] if segmented else []), "attention_mask"]
    settings.setdefault("model_input_names", inputs)
    return {
        "tokenizer.json": json.dumps(spec, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=1),
    }


def numbered(tokenizer: Tokenizer, padding: int) -> Tokenizer:
    """A tokenizer that was trained here as one that was imported from ids in which [PAD] has the number ``padding``,
    and what stands there here has 0.

    RoBERTa counts positions over what is not padding, whose id is 1 in its code; with [UNK] there every text with an
    unknown word would lose a position.
    """
    rows = list(range(len(SPECIALS)))
    rows[0], rows[padding] = padding, 0
    settings = {f"{name}_token": SPECIALS[i] for i, name in enumerate(_ROLES)}
    note = {"rows": rows, "size": tokenizer.vocabulary.size, "pieces": _ours(tokenizer, rows), "config": settings}
    return Tokenizer(tokenizer.kind, tokenizer.spec, note)


def _ours(tokenizer: Tokenizer, rows: Sequence[int]) -> dict[str, Any]:
    """A tokenizer that was trained here, with special tokens that others can find, in the template of our rows; the
    special tokens have the ids ``rows``."""
    spec = tokenizer.spec
    model, place = spec["model"], dict(zip(SPECIALS, rows, strict=True))
    if isinstance(model["vocab"], list):
        scores = [score for _, score in model["vocab"]]
        named = sorted(zip(SPECIALS, scores, strict=False), key=lambda pair: place[pair[0]])
        model["vocab"] = [*map(list, named), *model["vocab"][len(SPECIALS) :]]
        model["unk_id"] = rows[1]
    else:
        model["vocab"] = place | {piece: i for piece, i in model["vocab"].items() if piece not in SPELLINGS}
    if model.get("unk_token"):
        model["unk_token"] = SPECIALS[1]
    plain = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokens = sorted(place.items(), key=lambda pair: pair[1])
    spec["added_tokens"] = [{"id": i, "content": name, **plain} for name, i in tokens]
    cls, sep = ({"SpecialToken": {"id": SPECIALS[i], "type_id": 0}} for i in (2, 3))
    first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    spec["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [cls, first, sep],
        "pair": [cls, first, sep, second, {"SpecialToken": {"id": SPECIALS[3], "type_id": 1}}],
        "special_tokens": {SPECIALS[i]: {"id": SPECIALS[i], "ids": [rows[i]], "tokens": [SPECIALS[i]]} for i in (2, 3)},
    }
    return spec


def numbers_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Every token's id in the original, added tokens included."""
    vocab = spec["model"]["vocab"]
    pieces = {piece: i for i, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    pieces |= {token["content"]: token["id"] for token in spec.get("added_tokens") or ()}
    owners: dict[int, str] = {}
    for piece, number in pieces.items():
        if type(number) is not int or not 0 <= number < _MOST:
            raise ValueError(f"It gives {piece!r} the id {number!r}, not one of 0 to {_MOST - 1}")
        if number in owners:
            raise ValueError(f"It gives {owners[number]!r} and {piece!r} the same id, {number}")
        owners[number] = piece
    if max(owners, default=0) >= len(owners) + _UNUSED:
        raise ValueError(f"It has {len(owners)} pieces with ids up to {max(owners)}")
    return pieces


def _role(name: str, ids: Mapping[str, int], settings: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    named, usual, number = _ROLES[name]
    for setting in named:
        token = settings.get(setting)
        token = token["content"] if isinstance(token, Mapping) else token
        if token in ids:
            return ids[token]
    for token in usual:
        if token in ids:
            return ids[token]
    found = config.get(number)
    return found if found in ids.values() else None  # -1 and ids behind the last stand for none there


def _check_charsmaps(part: Any) -> None:
    """`ValueError` where a normalizer's table of characters is shorter than its first four bytes say: the package
    allocates what they say, and the process ends."""
    if isinstance(part, Mapping):
        if "precompiled_charsmap" in part:
            _slow.check_charsmap(base64.b64decode(part["precompiled_charsmap"] or "", validate=True))
        for inner in part.get("normalizers") or ():
            _check_charsmaps(inner)


def _size(ids: Mapping[str, int], rows: Sequence[int | None], config: Mapping[str, Any]) -> int:
    """How many ids the model knows. Its tables may be longer than its vocabulary (T5's have 32,128 rows for 32,100
    pieces): every row counts in its softmax. They may also lack rows for special tokens that were added later."""
    size, told = max(ids.values()) + 1, config.get("vocab_size")
    if type(told) is not int or told < 1:
        return size
    if told > size + _UNUSED:
        raise PublishedError(
            f"config.json tells of {told} ids (vocab_size), but the tokenizer has only {size}. Are both from one "
            "model? Fetch them again."
        )
    return told if told >= size or {i for i in ids.values() if i >= told} <= set(rows) else size


def _sentinels(ids: Mapping[str, int]) -> list[int | None]:
    """Our own sentinels, T5's, or BERT's pieces without use for our 32; None for each that is not there."""
    found = [ids.get(name, ids.get(f"<extra_id_{i}>")) for i, name in enumerate(SPECIALS[-SENTINELS:])]
    if found[0] is None:
        numbers = (re.fullmatch(r"\[unused(\d+)\]", piece) for piece in ids)
        unused = sorted(int(match[1]) for match in numbers if match)[:SENTINELS]
        found = [ids[f"[unused{i}]"] for i in unused]
    return found + [None] * (SENTINELS - len(found))


def _renumbered(
    spec: dict[str, Any],
    ids: Mapping[str, int],
    rows: list[int | None],
    size: int,
    settings: Mapping[str, Any],
    template: Template,
) -> Tokenizer:
    """``spec`` with our special tokens in front; ``rows`` are the original ids that become them, of ``size`` ids."""
    old = json.loads(json.dumps(spec))
    model, added = old["model"], old.get("added_tokens") or []
    kind = _KINDS.get(model["type"])
    bytewise = '"ByteLevel"' in json.dumps([old.get("pre_tokenizer"), old.get("normalizer")])
    if kind is None or (kind == "bpe" and not bytewise and not model.get("end_of_word_suffix")):
        raise PublishedError(
            f"A tokenizer of the kind {model['type']} is not read here, only WordPiece, BPE over bytes, GPT's BPE, "
            "Unigram and WordLevel."
        )
    pieces = {i: piece for piece, i in ids.items()}
    special = {token["id"] for token in added if token["special"]}
    taken = set(rows)
    kept = [i for i in range(size) if i not in taken]
    # A space ends what no text may spell, as in the special tokens of those trained here.
    names = [f"{pieces.get(i, f'<{i}>')} " if i in special or i not in pieces else pieces[i] for i in kept]
    number = {name: len(SPECIALS) + n for n, name in enumerate(names)}
    if isinstance(model["vocab"], list):
        scores = {piece: score for piece, score in model["vocab"]}
        model["vocab"] = [[name, 0.0] for name in SPELLINGS] + [[name, scores.get(name, 0.0)] for name in names]
        model["unk_id"] = 1
    else:
        model["vocab"] = {name: i for i, name in enumerate(SPELLINGS)} | number
        if model.get("unk_token") is not None or kind in ("wordpiece", "word"):
            model["unk_token"] = SPELLINGS[1]
    old["added_tokens"] = [t | {"id": number[t["content"]]} for t in added if t["content"] in number]
    old |= {"truncation": None, "padding": None, "post_processor": None}
    note = {
        "rows": rows,
        "size": size,
        "pieces": spec | {"truncation": None, "padding": None},
        "config": dict(settings),
    }
    if template != BERT:
        note["template"] = json.loads(json.dumps(asdict(template)))  # tuples are lists, as they will be read
    try:
        return Tokenizer(kind, old, note)
    except BaseException as error:  # the package raises bare Exceptions, and a panic in it is a BaseException
        _slow.no_interrupt(error)
        raise PublishedError(
            f"The `tokenizers` package cannot read this tokenizer: {error}. Save it anew with a recent release of "
            "transformers."
        ) from error
