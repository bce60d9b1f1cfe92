"""What examples give besides texts reaches the encoder: languages of texts, mentions of entities."""

import numpy as np
import pytest

from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.adapted import adapted
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import baked
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Mention

TEXTS = ["Berlin lies on the Spree .", "Paris is a town .", "Berlin ist eine Stadt ."]
SHAPE = Size(layers=1, width=16, heads=2, inner=24, length=24)
PLAIN = Tokenizer.train("wordpiece", TEXTS * 9, 120)
KNOWING = PLAIN.with_symbols({"entities": ["Q1707", "Q64", "Q90"], "languages": ["de", "en"]})
MENTIONS = (Mention(0, 0, 6, "Q64"), Mention(0, 19, 24, "Q1707"), Mention(1, 0, 6, "Q64"), Mention(1, 11, 15, "?"))
FIRST = Example(
    id="0",
    inputs=(TEXTS[0], TEXTS[2]),
    gold="entailment",
    channels={"entities": MENTIONS, "languages": ("en", "de")},
)


def rows(tokenizer, *examples, length=24):
    task = load("rte")
    chosen = settings.changed(settings.defaults(Form.CLASSIFICATION, "finetune"), {"length": length})
    return heads.of(Form.CLASSIFICATION, "finetune").Codec(task, tokenizer, chosen, examples).rows(examples)


@pytest.mark.parametrize("length", [24, 12])
def test_mentions_and_languages_stand_beside_their_tokens(length):
    (row,) = rows(KNOWING, FIRST, length=length)
    tokens, entities, languages = (row.arrays[name] for name in ("tokens", "entities", "languages"))
    assert len(tokens) == len(entities) == len(languages) <= length
    ends = np.flatnonzero(tokens == KNOWING.vocabulary.sep)
    assert languages.tolist() == [2] * (ends[0] + 1) + [1] * (ends[1] - ends[0])
    pieces = KNOWING.pieces(tokens)
    spelled = {"Q64": [], "Q1707": []}
    for piece, value in zip(pieces, entities, strict=True):
        if value > 0:
            spelled[KNOWING.symbols["entities"][value - 1]].append(piece)
        elif value < 0:
            spelled[KNOWING.symbols["entities"][-value - 1]][-1] += piece.removeprefix("##")
    assert spelled["Q64"] == ["Berlin", "Berlin"] and entities[0] == entities[-1] == 0
    assert spelled["Q1707"] == (["Spree"] if length == 24 else spelled["Q1707"])


def test_an_example_that_says_nothing_has_zeros_and_a_plain_tokenizer_none():
    silent = Example(id="1", inputs=(TEXTS[0], TEXTS[1]), gold="entailment")
    first, second = rows(KNOWING, FIRST, silent)
    assert set(first.arrays) == set(second.arrays)
    assert not second.arrays["entities"].any() and not second.arrays["languages"].any()
    assert set(rows(PLAIN, FIRST)[0].arrays) == {"tokens", "segments", "label", "unused"}
    assert stack([first, second])["entities"].shape == stack([first, second])["tokens"].shape


@pytest.mark.parametrize("model, reads", [("xlm", True), ("bert", False)])
def test_an_encoder_reads_the_channels_that_it_knows(model, reads):
    chosen = baked(settings.defaults(Form.CLASSIFICATION, "finetune"))
    network = adapted(model, SHAPE, KNOWING, Form.CLASSIFICATION, "finetune", 4, chosen)
    spoken = rows(KNOWING, FIRST)
    other = rows(KNOWING, Example(id="1", inputs=FIRST.inputs, gold="entailment", channels={"languages": ("de", "de")}))
    for variable in network.network.encoder.variables:  # vectors of languages far apart
        if variable.path.endswith("languages/table"):
            variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    answers = [np.asarray(network.forward(stack(given))) for given in (spoken, other)]
    assert (np.abs(answers[0] - answers[1]).max() > 1e-3) == reads
