"""Finds the template that a published model was trained with.

It is the one that its tokenizer's post-processor applies. If the post-processor adds nothing, it is the template of
this model type in `transformers`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tokenizers

from ptmbench.models.published import PublishedError
from ptmbench.models.published._slow import no_interrupt
from ptmbench.models.text.template import BERT, PEGASUS, PLAIN, PROPHETNET, ROBERTA, T5, XLNET, Template

_TEMPLATES = {
    **dict.fromkeys(("roberta", "bart", "mpnet"), ROBERTA),
    **dict.fromkeys(("openai-gpt", "gpt2", "ctrl"), PLAIN),
    "prophetnet": PROPHETNET,
    "t5": T5,
    "pegasus": PEGASUS,
    "xlnet": XLNET,
}
"""Templates by model_type, for tokenizers whose post-processor adds nothing. All other types have BERT's."""


def find_template(spec: Mapping[str, Any], rows: Sequence[int | None], model_type: str) -> Template:
    """Returns the template of the tokenizer ``spec``. ``rows`` are the original ids of our special tokens."""
    family = _TEMPLATES.get(model_type, BERT)
    return _applied_template(spec, rows) or replace(family, start=() if rows[2] is None else family.start)


def add_post_processor(spec: Mapping[str, Any], rows: Sequence[int | None], template: Template) -> Mapping[str, Any]:
    """Adds a post-processor for ``template`` to ``spec``, unless it already has one that adds tokens.

    `transformers` adds one for the tokenizer classes that it knows by name. A folder that is written here names the
    class that uses tokenizer.json unchanged.
    """
    parts = {*template.front, *template.middle, *template.end}
    if not parts or any(rows[part] is None for part in parts) or _applied_template(spec, rows) is not None:
        return spec
    vocab = spec["model"]["vocab"]
    pieces = {i: piece for i, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else {}
    pieces |= {i: piece for piece, i in vocab.items()} if isinstance(vocab, Mapping) else {}
    pieces |= {token["id"]: token["content"] for token in spec.get("added_tokens") or ()}
    names = {part: pieces[rows[part]] for part in parts}

    def template_json(texts: int) -> list[dict[str, Any]]:
        tokens, segments = template.lay([[-1 - number] for number in range(texts)])
        return [
            {"Sequence": {"id": "AB"[-1 - token], "type_id": segment}}
            if token < 0
            else {"SpecialToken": {"id": names[token], "type_id": segment}}
            for token, segment in zip(tokens, segments, strict=True)
        ]

    special = {name: {"id": name, "ids": [rows[part]], "tokens": [name]} for part, name in names.items()}
    processor = {
        "type": "TemplateProcessing",
        "single": template_json(1),
        "pair": template_json(2),
        "special_tokens": special,
    }
    own = spec.get("post_processor")  # it adds nothing, but may trim offsets
    return {**spec, "post_processor": {"type": "Sequence", "processors": [own, processor]} if own else processor}


def _applied_template(spec: Mapping[str, Any], rows: Sequence[int | None]) -> Template | None:
    """Returns the template that the post-processor of ``spec`` applies, or None if it adds nothing.

    The post-processor is run on texts of one token, because it may be a sequence of several processors.
    """
    processor = spec.get("post_processor")
    if processor is None:
        return None
    words = tokenizers.models.WordLevel({"a": 0, "b": 1, "": 2}, unk_token="")
    stand_in = json.loads(tokenizers.Tokenizer(words).to_str()) | {"post_processor": processor}
    try:
        asked = tokenizers.Tokenizer.from_str(json.dumps(stand_in))
    except BaseException as error:  # the package raises bare Exceptions, and a panic in it is a BaseException
        no_interrupt(error)
        raise PublishedError(
            f"The `tokenizers` package cannot read this tokenizer's post-processor: {error}. Fetch it again."
        ) from error
    single, pair = asked.encode("a"), asked.encode("a", "b")
    (a,), (first,), (second,) = (
        [place for place, text in enumerate(encoding.sequence_ids) if text == number]
        for encoding, number in ((single, 0), (pair, 0), (pair, 1))
    )
    if len(single) == 1 and len(pair) == 2:
        return None
    front, end = single.ids[:a], single.ids[a + 1 :]
    if (pair.ids[:first], pair.ids[second + 1 :]) != (front, end):
        raise PublishedError(
            "This tokenizer puts other special tokens around a pair of texts than around one, which no template here "
            "does."
        )
    missing = set(front + end + pair.ids[first + 1 : second]) - set(rows)
    if missing:
        raise PublishedError(
            f"This tokenizer puts special tokens around texts (ids {sorted(missing)}) that are neither the start nor "
            "the end of a text, so no template here has them."
        )
    # One token may have two roles: before a text it marks the start, after a text the end.
    return Template(
        front=tuple(_part(i, rows, (2, 3)) for i in front),
        middle=tuple(_part(i, rows, (3, 2)) for i in pair.ids[first + 1 : second]),
        end=tuple(_part(i, rows, (3, 2)) for i in end),
        segmented=pair.type_ids[second] != pair.type_ids[first],
        start=() if rows[2] is None else (2,),
    )


def _part(original: int, rows: Sequence[int | None], before: Sequence[int]) -> int:
    """Returns our special id for the ``original`` id. If there are several, the ids in ``before`` have priority."""
    return next(ours for ours in (*before, *range(len(rows))) if rows[ours] == original)
