"""The table of `docs/annotations.md`: which annotations reach the rows of each adaptation, compared with the code."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench import adapt
from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.acceptability import network as acceptability
from ptmbench.bench.adapt.cloze import network as cloze
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.prompt import network as prompt
from ptmbench.bench.adapt.surprises import encode
from ptmbench.bench.adapt.words import network as words
from ptmbench.models.channels import CHANNELS
from ptmbench.models.channels import TEXT as TEXTS
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import BLANK, Form, Part, Target
from ptmbench.tasks.task import Example, Mention
from tests.bench.processes import ROOT

TEXT = "a dull town . Berlin is dull ."
TOKENIZER = Tokenizer.train("word", [TEXT, f"it {BLANK} Stadt"] * 3, 60).with_symbols(
    {"entities": ["Q64"], "languages": ["en"]}, {"entities": 4, "regions": 4}
)
GIVEN = {"languages": ("en",) * 9, "entities": (Mention(0, 0, 1, "Q64"),),
         "regions": np.ones((2, 4)), "boxes": np.ones((2, 4))}  # fmt: skip
ALL = tuple(CHANNELS)
COLUMNS = ("languages", "entities", "regions")
MODELS = {name: models.load(name) for name in models.names()}


def example(*inputs, gold=None):
    return Example(id="0", inputs=inputs, gold=gold, channels=GIVEN)


ROWS = {
    Form.CLASSIFICATION: ("sst2", example(TEXT, gold="1")),
    Form.TAGGING: ("conll2003", example(*TEXT.split(), gold=("O",) * len(TEXT.split()))),
    Form.RANKING: ("word_translation", example("town", gold=Target("Stadt", {"Stadt": "Stadt"}))),
    Form.GENERATION: ("aeslc", example("a dull town .\nBerlin is dull .", gold=("dull .",))),
}


def trained_arrays(name):
    """Returns the arrays of a training row of the adaptation ``name``."""
    form = next(iter(adapt.load(name).heads or (Form.CLASSIFICATION,)))
    task, given = ROWS[form]
    if name == "infill":
        task, given = "sentiment_transfer", example(TEXT, "1")
    if name == "unsupervised":
        task, given = "multi30k", example(TEXT, gold=(TEXT,))
    task = load(task)
    codec = heads.of(form, name).Codec(task, TOKENIZER, settings.defaults(form, name), [given])
    if codec.first:
        sentences = given.inputs[0].split("\n")
        codec.follow([given], [SimpleNamespace(note=sentences, example=0)], [np.zeros(len(sentences))])
    return codec.rows([given])[0].arrays


def untrained_arrays(name):
    own = settings.defaults(next(iter(adapt.load(name).only or (Form.CHOICE,))), name)
    if name == "prompt":
        (row, _) = prompt.rows(load("sst2"), TOKENIZER, own, [], [example(TEXT, gold="1")], 0, ALL)
        return row.text.channels()
    if name == "likelihood":
        return likelihood.windows(TOKENIZER, own, [example(TEXT)], ALL)[0][2].channels()
    if name == "acceptability":
        (text, _), _ = encode(TOKENIZER, [example(TEXT, TEXT, gold=Part("x"))], ALL)
        return list(acceptability.rows_of(TOKENIZER, [text], None))[-1].arrays
    if name == "cloze":
        text = f"a dull {BLANK} ."
        return cloze.rows(TOKENIZER, own, [example(text)], causal=False)[0].arrays
    (row, *_), _ = words.rows(TOKENIZER, own, Form.SIMILARITY, [example("Berlin", "town", gold=1.0)], ALL)
    return row.arrays


def table():
    """Returns the cells of each adaptation in the table, "yes" or "no"."""
    text = (ROOT / "docs/annotations.md").read_text()
    found = re.findall(r"^\| `(\w+)` \| (yes|no) \| (yes|no) \| (yes|no) \|", text, re.MULTILINE)
    return {name: dict(zip(COLUMNS, cells, strict=True)) for name, *cells in found}


@pytest.mark.parametrize("name", adapt.names())
def test_the_table_matches_the_channels_in_rows(name):
    arrays = trained_arrays(name) if adapt.load(name).learns else untrained_arrays(name)
    assert table()[name] == {channel: "yes" if np.any(arrays.get(channel, 0)) else "no" for channel in COLUMNS}


def test_the_table_names_every_adaptation_and_every_model_that_reads_a_channel():
    assert tuple(table()) == adapt.names()
    text = (ROOT / "docs/annotations.md").read_text()
    reading = {name: module.CARD for name, module in MODELS.items() if set(module.CARD.reads) - set(TEXTS)}
    for card in reading.values():
        row = rf"^\| {re.escape(card.title.split(' (')[0])}.* \| {', '.join(card.reads)} \|"
        assert re.search(row, text, re.MULTILINE), card.title


def test_no_left_to_right_model_reads_a_channel():
    """The page states this for prompts and likelihoods. If this fails, the page has to be changed."""
    for module in MODELS.values():
        model = module.describe(module.SIZES["tiny"], TOKENIZER.vocabulary)
        assert not (model.tells_likelihood and set(module.CARD.reads) - set(TEXTS)), module.CARD.title
