"""Which template a published model was trained with: what its tokenizer's post-processor adds to texts, and where that
adds nothing, what the tokenizer of its kind adds in `transformers`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tokenizers

from models._template import BERT, PEGASUS, PLAIN, PROPHETNET, ROBERTA, T5, XLNET, Template
from models.published import PublishedError

_TEMPLATES = {
    **dict.fromkeys(("roberta", "bart", "mpnet"), ROBERTA),
    **dict.fromkeys(("openai-gpt", "gpt2", "ctrl"), PLAIN),
    "prophetnet": PROPHETNET,
    "t5": T5,
    "pegasus": PEGASUS,
    "xlnet": XLNET,
}
"""By model_type, where the tokenizer itself says nothing; BERT's for all others."""


def found(spec: Mapping[str, Any], rows: Sequence[int | None], model_type: str) -> Template:
    """The template of the tokenizer ``spec``; ``rows`` are the original ids of our special ones."""
    family = _TEMPLATES.get(model_type, BERT)
    return _processed(spec, rows) or replace(family, start=() if rows[2] is None else family.start)


def _processed(spec: Mapping[str, Any], rows: Sequence[int | None]) -> Template | None:
    """The template that the post-processor of ``spec`` applies; None where it adds nothing.

    It is asked, with texts of a token each, because it may be a sequence of several.
    """
    processor = spec.get("post_processor")
    if processor is None:
        return None
    words = tokenizers.models.WordLevel({"a": 0, "b": 1, "": 2}, unk_token="")
    stand_in = json.loads(tokenizers.Tokenizer(words).to_str()) | {"post_processor": processor}
    try:
        asked = tokenizers.Tokenizer.from_str(json.dumps(stand_in))
    except Exception as error:  # the package's parser raises bare Exceptions
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
    # One token may play two parts: before a text it is its start, behind it its end.
    return Template(
        front=tuple(_part(i, rows, (2, 3)) for i in front),
        middle=tuple(_part(i, rows, (3, 2)) for i in pair.ids[first + 1 : second]),
        end=tuple(_part(i, rows, (3, 2)) for i in end),
        segmented=pair.type_ids[second] != pair.type_ids[first],
        start=() if rows[2] is None else (2,),
    )


def _part(original: int, rows: Sequence[int | None], before: Sequence[int]) -> int:
    """The special id here that is ``original`` there; of several the one that stands ``before`` the others."""
    return next(ours for ours in (*before, *range(len(rows))) if rows[ours] == original)
