"""The tokenizer of an export as a file of the package tokenizers, which computes the network's inputs without ptmbench.

    encoding = tokenizers.Tokenizer.from_file("tokenizer.json").encode("a film of rare warmth")
    encoding.ids, encoding.type_ids    # "tokens" and "segments"

The file adds special tokens in a post-processor, and truncates texts to the length of the network. Lists of words,
which taggers read, are encoded with ``is_pretokenized=True``.
"""

import json
from pathlib import Path
from typing import Any

import tokenizers

from ptmbench.bench.adapt.heads import layout
from ptmbench.bench.errors import EnvironmentProblem
from ptmbench.bench.runs.exports import hard_texts
from ptmbench.models.text.tokenizers import Tokenizer

TEXTS = 200
"""Number of texts whose inputs are compared, alone and in pairs."""


def write(tokenizer: Tokenizer, path: Path, length: int) -> None:
    """Writes the file for rows of at most ``length`` tokens.

    Raises `EnvironmentProblem` if the package computes other inputs with it than ptmbench. The package cuts pairs by
    its own rule: if both texts are too long, one may have a token more, and the other one less, than in ptmbench.
    """
    text = json.dumps(_content(tokenizer, length), ensure_ascii=False)
    _check(tokenizer, tokenizers.Tokenizer.from_str(text), length)
    path.write_text(text, encoding="utf-8")


def _content(tokenizer: Tokenizer, length: int) -> dict[str, Any]:
    template, pieces = tokenizer.vocabulary.template, tokenizer.vocabulary.pieces
    used = sorted({*template.front, *template.middle, *template.end})
    names = {pieces[token]: {"id": pieces[token], "ids": [token], "tokens": [pieces[token]]} for token in used}
    around = {
        "type": "TemplateProcessing",
        "single": _laid(tokenizer, 1),
        "pair": _laid(tokenizer, 2),
        "special_tokens": names,
    }
    cut = {"direction": "Right", "max_length": length, "strategy": "LongestFirst", "stride": 0}
    return {**tokenizer.spec, "post_processor": around, "truncation": cut, "padding": None}


def _laid(tokenizer: Tokenizer, texts: int) -> list[dict[str, Any]]:
    """Returns the template of ``texts`` texts: their order, with the special tokens around them."""
    vocabulary = tokenizer.vocabulary
    # The tokens -1 and -2 stand for the first and the second text.
    tokens, segments = vocabulary.template.lay([[-1 - number] for number in range(texts)])
    return [
        {"SpecialToken": {"id": vocabulary.pieces[token], "type_id": segment}}
        if token >= 0
        else {"Sequence": {"id": "AB"[-1 - token], "type_id": segment}}
        for token, segment in zip(tokens, segments, strict=True)
    ]


def _check(tokenizer: Tokenizer, read: tokenizers.Tokenizer, length: int) -> None:
    texts = list(hard_texts.texts(TEXTS))
    pairs = zip(texts, reversed(texts), *(tokenizer.encode(side) for side in (texts, texts[::-1])), strict=True)
    for first, second, *ids in pairs:
        if not ids[0]:  # without special tokens the package writes nothing, and ptmbench [SEP]
            continue
        wanted, given = [layout(tokenizer.vocabulary, ids[:1], length)], [read.encode(first)]
        if sum(map(len, ids)) + tokenizer.vocabulary.template.added(2) <= length:
            wanted, given = [*wanted, layout(tokenizer.vocabulary, ids, length)], [*given, read.encode(first, second)]
        for one, ours in zip(given, wanted, strict=True):
            if one.ids != ours["tokens"].tolist() or one.type_ids != ours["segments"].tolist():
                raise EnvironmentProblem(
                    f"The package tokenizers {tokenizers.__version__} reads other token ids from the exported file "
                    f"than ptmbench makes, first in {first!r:.200}. Nothing was written. Install the version that "
                    "constraints.txt has."
                )
