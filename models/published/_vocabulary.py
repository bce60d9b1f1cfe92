"""Reads vocabularies of published folders, renumbers them to the ids that objectives use, and writes them back.

Here every tokenizer has its special tokens at ids 0 to 4, then sentinels up to 36, then text in the original order. The
original special tokens are found by their role, because [CLS], for example, may be called <s>. No text can spell a
special token here: "[MASK]" in a text is four letters between brackets, as in `tokenizers` with
``encode_special_tokens``. Otherwise every text has its original pieces, because the original normalizer, pre-tokenizer
and merges are used.

`models.text.tokenizers.Tokenizer.imported` of such a tokenizer is

    rows      the original id of each of our special ids 0 ... 36, or None if there is no such token
    size      the number of ids in the original
    pieces    the original tokenizer in the form of `tokenizers`
    config    its tokenizer_config.json
    template  `models.text.template.Template` in our ids; missing if it is the default
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
from ptmbench.models.published._slow import LEGACY_FILES, read_legacy_vocabulary
from ptmbench.models.text.template import BERT, Template
from ptmbench.models.text.tokenizer_kinds import SENTINELS, SPECIALS, SPELLINGS
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary

FILES = ("tokenizer.json", *LEGACY_FILES)
_MOST = 1 << 22
"""Most ids of a vocabulary. The largest published ones have a quarter of this."""
LARGEST = 1 << 26
"""Most bytes of a file of settings or of a vocabulary. The largest published ones have half of this."""
_UNUSED = 1 << 16
"""Most rows of a model's tables beyond its vocabulary. Such rows make sizes round."""
_KINDS = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}
_ROLES = {
    "pad": (("pad_token",), ("[PAD]", "<pad>"), "pad_token_id"),
    "unk": (("unk_token",), ("[UNK]", "<unk>"), "unk_token_id"),
    "cls": (("cls_token", "bos_token"), ("[CLS]", "<cls>", "<s>", "<|endoftext|>"), "decoder_start_token_id"),
    "sep": (("sep_token", "eos_token"), ("[SEP]", "<sep>", "</s>", "<|endoftext|>"), "eos_token_id"),
    "mask": (("mask_token",), ("[MASK]", "<mask>"), "mask_token_id"),
}
"""By our names: the settings of tokenizer_config.json that name the token, its usual spellings if there are none, and
the setting of config.json with its id."""


def read(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Returns the tokenizer of ``folder``, renumbered. Raises `PublishedError` if there is none, or it is damaged."""
    settings = settings_of(folder)
    if (folder / "tokenizer.json").is_file():
        spec = json_of(folder / "tokenizer.json")
    else:
        spec = read_legacy_vocabulary(folder, config, settings)
    return renumber(spec, config, settings, folder)


def renumber(spec: dict[str, Any], config: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> Tokenizer:
    """Renumbers the tokenizer ``spec`` of ``folder``. ``settings`` is its tokenizer_config.json.

    Raises `PublishedError` if ``spec`` is not in the form of the `tokenizers` package.
    """
    try:
        _check_charsmaps(spec.get("normalizer"))
        ids = numbers_of(spec)
        rows = [_role(name, ids, settings, config) for name in _ROLES] + _sentinels(ids)
        template = _templates.find_template(spec, rows, str(config.get("model_type")))
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
    """Returns special_tokens_map.json merged with tokenizer_config.json, or {} if both are missing."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            found |= json_of(folder / name)
    return found


def json_of(path: Path) -> dict[str, Any]:
    """Reads the JSON object in ``path``. Raises `PublishedError` for anything else."""
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
    """Raises `PublishedError` for a file of more than `LARGEST` bytes. Parsing takes many times as much memory."""
    if path.is_file() and path.stat().st_size > LARGEST:
        raise PublishedError(
            f"{path} has {path.stat().st_size:,} bytes, and files of settings and vocabularies have {LARGEST:,} at "
            "most. Is it the right file? Fetch it again."
        )


def permutation(tokenizer: Tokenizer) -> tuple[list[int | None], int]:
    """Returns the original id of each id of an imported tokenizer, or None, and the number of original ids."""
    rows, size = tokenizer.imported["rows"], tokenizer.imported["size"]
    special = set(rows)
    return [*rows, *(i for i in range(size) if i not in special)], size


def to_ours(array: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Reorders rows of the original to our ids. Leaves out rows without a token. Missing rows are the mean of all.

    Raises `PublishedError` if the vocabulary has more pieces than there are rows.
    """
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
    """Inverts `to_ours`. Leaves out rows without an original id. If several rows share one, the first row counts."""
    places, size = permutation(tokenizer)
    found = np.zeros((size, *array.shape[1:]), array.dtype)
    for ours in range(len(places) - 1, -1, -1):
        if places[ours] is not None:
            found[places[ours]] = array[ours]
    return found


def original_vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """Returns the original ids of the special tokens. Tokens that the original lacks get the id of its padding."""
    rows, size = tokenizer.imported["rows"], tokenizer.imported["size"]
    pad = rows[0] or 0
    named = {name: pad if place is None else place for name, place in zip(_ROLES, rows, strict=False)}
    return Vocabulary(size=size, **named)


def file_texts(tokenizer: Tokenizer, length: int, segmented: bool) -> dict[str, str]:
    """Returns the texts of the files of a published folder for an imported tokenizer or the result of `as_imported`.

    A network that is not ``segmented`` gets no segments, because some classes in `transformers` would read them as
    words.
    """
    spec, settings = tokenizer.imported["pieces"], tokenizer.imported["config"]
    spec = _templates.add_post_processor(spec, tokenizer.imported["rows"], tokenizer.vocabulary.template)
    settings = settings | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings.setdefault("model_max_length", length)
    inputs = ["input_ids", *(["token_type_ids"] if segmented else []), "attention_mask"]
    settings.setdefault("model_input_names", inputs)
    return {
        "tokenizer.json": json.dumps(spec, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=1),
    }


def as_imported(tokenizer: Tokenizer, padding: int) -> Tokenizer:
    """Returns a tokenizer that was trained here as an imported one, in which [PAD] has the original id ``padding``.

    The special token with this id here gets the original id 0. RoBERTa counts positions over tokens that are not
    padding, which has the id 1 in its code. If [UNK] had this id, a text with an unknown word would lose a position.
    """
    rows = list(range(len(SPECIALS)))
    rows[0], rows[padding] = padding, 0
    settings = {f"{name}_token": SPECIALS[i] for i, name in enumerate(_ROLES)}
    note = {"rows": rows, "size": tokenizer.vocabulary.size, "pieces": _ours(tokenizer, rows), "config": settings}
    return Tokenizer(tokenizer.kind, tokenizer.spec, note)


def _ours(tokenizer: Tokenizer, rows: Sequence[int]) -> dict[str, Any]:
    """Returns the JSON form of a tokenizer that was trained here, for use outside of this project.

    It has the usual spellings of special tokens, with the ids ``rows``, and the template of our rows.
    """
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
    """Returns every token's original id, including added tokens. Raises `ValueError` for ids that are not plausible."""
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
    return found if found in ids.values() else None  # -1 and ids after the last mean none


def _check_charsmaps(part: Any) -> None:
    """Raises `ValueError` if a normalizer's table of characters is shorter than the size in its first four bytes.

    The package would allocate that size, and the process would end.
    """
    if isinstance(part, Mapping):
        if "precompiled_charsmap" in part:
            _slow.check_charsmap(base64.b64decode(part["precompiled_charsmap"] or "", validate=True))
        for inner in part.get("normalizers") or ():
            _check_charsmaps(inner)


def _size(ids: Mapping[str, int], rows: Sequence[int | None], config: Mapping[str, Any]) -> int:
    """Returns the number of ids of the model.

    Its tables may be longer than its vocabulary (T5's have 32,128 rows for 32,100 pieces). All of their rows are in the
    softmax. They may also lack rows for special tokens that were added later. Raises `PublishedError` if they are much
    longer.
    """
    size, stated = max(ids.values()) + 1, config.get("vocab_size")
    if type(stated) is not int or stated < 1:
        return size
    if stated > size + _UNUSED:
        raise PublishedError(
            f"config.json tells of {stated} ids (vocab_size), but the tokenizer has only {size}. Are both from one "
            "model? Fetch them again."
        )
    return stated if stated >= size or {i for i in ids.values() if i >= stated} <= set(rows) else size


def _sentinels(ids: Mapping[str, int]) -> list[int | None]:
    """Returns the ids of our 32 sentinels: our own, T5's, or BERT's unused pieces. None for each that is missing."""
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
    """Returns ``spec`` with our special tokens first. ``rows`` are their original ids, out of ``size`` ids."""
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
    # A spelling that no text may match ends with a space, as in tokenizers that are trained here.
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
