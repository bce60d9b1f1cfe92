"""Channels of examples reach the encoder in every form: languages of texts and mentions of entities."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.built import adapted
from ptmbench.bench.adapt.cloze import network as cloze
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import baked
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import BLANK, Answer, Answers, Form, Marked, Piece, Pointings, Target
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


FORMS = {
    Form.CLASSIFICATION: Example(id="0", inputs=TEXTS[:2], gold="entailment"),
    Form.REGRESSION: Example(id="0", inputs=TEXTS[:2], gold=2.5),
    Form.CHOICE: Example(id="0", inputs=tuple(TEXTS), gold=1),
    Form.TAGGING: Example(id="0", inputs=tuple(TEXTS[0].split()), gold=("B-LOC", "O", "O", "O", "B-LOC", "O")),
    Form.SPAN: Example(id="0", inputs=(TEXTS[1], TEXTS[0]), gold=Answers((Answer("the Spree", 15),))),
    Form.GENERATION: Example(id="0", inputs=(TEXTS[0],), gold=(TEXTS[2],)),
    Form.POINTING: Example(id="0", inputs=tuple(TEXTS[1].split()), gold=Pointings([(0, 0, 3, 3, "POS")])),
    Form.RANKING: Example(
        id="0", inputs=(Piece(TEXTS[0], name="a"), TEXTS[1]), gold=Target("b", {"a": TEXTS[0], "b": TEXTS[2]})
    ),
    Form.FEW_SHOT: Example(id="0", inputs=(Marked(TEXTS[0], (0, 19)), Marked(TEXTS[1], (0, 9), "P1")), gold="P1"),
}
TASKS = {
    Form.CLASSIFICATION: "rte",
    Form.REGRESSION: "stsb",
    Form.CHOICE: "copa",
    Form.TAGGING: "conll2003",
    Form.SPAN: "squad11",
    Form.GENERATION: "multi30k",
    Form.POINTING: "absa",
    Form.RANKING: "wn18rr",
    Form.FEW_SHOT: "fewrel",
}


def form_rows(form, tokenizer, *examples, adaptation="finetune", task=None, **changes):
    chosen = settings.changed(settings.defaults(form, adaptation), {"length": 24} | changes)
    codec = heads.of(form, adaptation).Codec(load(task or TASKS[form]), tokenizer, chosen, examples)
    return codec.training_rows(examples)


@pytest.mark.parametrize("length", [24, 12])
def test_mentions_and_languages_are_aligned_with_their_tokens(length):
    (row,) = form_rows(Form.CLASSIFICATION, KNOWING, FIRST, length=length)
    tokens, entities, languages = (row.arrays[name] for name in ("tokens", "entities", "languages"))
    assert len(tokens) == len(entities) == len(languages) <= length
    ends = np.flatnonzero(tokens == KNOWING.vocabulary.sep)
    assert languages.tolist() == [2] * (ends[0] + 1) + [1] * (ends[1] - ends[0])
    pieces = KNOWING.pieces(tokens)
    mention_texts = {"Q64": [], "Q1707": []}
    for piece, value in zip(pieces, entities, strict=True):
        if value > 0:
            mention_texts[KNOWING.symbols["entities"][value - 1]].append(piece)
        elif value < 0:
            mention_texts[KNOWING.symbols["entities"][-value - 1]][-1] += piece.removeprefix("##")
    assert mention_texts["Q64"] == ["Berlin", "Berlin"] and entities[0] == entities[-1] == 0
    assert mention_texts["Q1707"] == (["Spree"] if length == 24 else mention_texts["Q1707"])


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_plain_tokenizer_lack_annotation_layers_and_are_otherwise_the_same(form):
    english = replace(FORMS[form], channels={"languages": ("en",) * len(FORMS[form].inputs)})
    plain, knowing = form_rows(form, PLAIN, english), form_rows(form, KNOWING, english)
    assert len(plain) == len(knowing)
    for one, other in zip(plain, knowing, strict=True):
        assert not {"languages", "entities"} & set(one.arrays) and {"languages", "entities"} <= set(other.arrays)
        for name, array in one.arrays.items():
            np.testing.assert_array_equal(array, other.arrays[name], strict=True)


@pytest.mark.parametrize("form", FORMS)
def test_every_token_has_the_language_of_its_text_in_every_form(form):
    english = replace(FORMS[form], channels={"languages": ("en",) * len(FORMS[form].inputs)})
    for row in form_rows(form, KNOWING, english):
        tokens, languages = row.arrays["tokens"], row.arrays["languages"]
        if form is Form.RANKING:  # candidates have no language
            tokens, languages = tokens[:1], languages[:1]
        np.testing.assert_array_equal(languages, 2 * (tokens > 0))
        assert not row.arrays["entities"].any()


def mention_texts(row, layer):
    """Returns the texts of the mentions in a row, by symbol."""
    found = {}
    for piece, value in zip(KNOWING.pieces(row.arrays["tokens"]), row.arrays[layer], strict=True):
        if value > 0:
            found.setdefault(KNOWING.symbols[layer][value - 1], []).append(piece)
        elif value < 0:
            found[KNOWING.symbols[layer][-value - 1]][-1] += piece.removeprefix("##")
    return found


def test_each_word_has_its_own_language_and_mentions():
    words = (Mention(0, 0, 6, "Q64"), Mention(4, 0, 5, "Q1707"))
    mixed = replace(FORMS[Form.TAGGING], channels={"languages": ("en",) * 5 + ("de",), "entities": words})
    (row,) = form_rows(Form.TAGGING, KNOWING, mixed)
    assert mention_texts(row, "entities") == {"Q64": ["Berlin"], "Q1707": ["Spree"]}
    # The sentence has no language of its own, so [CLS] and [SEP] have none.
    assert row.arrays["languages"].tolist() == [0, *[2] * (len(row.arrays["tokens"]) - 3), 1, 0]


def test_context_around_a_sentence_keeps_its_own_language():
    chosen = {"languages": ("en",) * 6}, {"languages": ("de",) * 5}
    texts = TEXTS[0].split(), TEXTS[2].split()
    two = [
        Example(id=str(i), inputs=tuple(text), gold=("O",) * len(text), group="document", channels=said)
        for i, (text, said) in enumerate(zip(texts, chosen, strict=True))
    ]
    first, second = form_rows(Form.TAGGING, KNOWING, *two, context=1, length=40)
    assert first.arrays["languages"].tolist() == second.arrays["languages"].tolist()
    inside = first.arrays["languages"][1:-1]
    count = len(form_rows(Form.TAGGING, KNOWING, two[0])[0].arrays["tokens"]) - 2
    assert inside.tolist() == [2] * count + [1] * (len(inside) - count)


def test_windows_keep_the_languages_of_question_and_context_and_later_mentions():
    pieces = ("Paris is a town . " * 3, TEXTS[0])
    input_example = Example(
        id="0",
        inputs=("Berlin ist eine Stadt ?", *pieces),
        gold=Answers((Answer("the Spree", len(pieces[0]) + 15),)),
        channels={"languages": ("de", "en", "en"), "entities": (Mention(2, 19, 24, "Q1707"), Mention(0, 0, 6, "Q64"))},
    )
    windows = form_rows(Form.SPAN, KNOWING, input_example, stride=8)
    assert len(windows) > 1
    for row in windows:
        end = int(np.flatnonzero(row.arrays["tokens"] == KNOWING.vocabulary.sep)[0]) + 1
        assert row.arrays["languages"].tolist() == [1] * end + [2] * (len(row.arrays["tokens"]) - end)
        assert mention_texts(row, "entities")["Q64"] == ["Berlin"]
    assert mention_texts(windows[0], "entities").keys() == {"Q64"}
    assert mention_texts(windows[-1], "entities")["Q1707"] == ["Spree"]


def test_cloze_rows_keep_the_language_and_the_mentions_around_the_blank():
    text = f"Berlin lies on the {BLANK} in Berlin ."
    mentions = Mention(0, 0, 6, "Q64"), Mention(0, text.rindex("Berlin"), text.rindex("Berlin") + 6, "Q90")
    input_example = Example(id="0", inputs=(text,), channels={"entities": mentions, "languages": ("en",)})
    (row,) = cloze.rows(KNOWING, settings.defaults(Form.CLOZE, "cloze"), [input_example], causal=False)
    assert mention_texts(row, "entities") == {"Q64": ["Berlin"], "Q90": ["Berlin"]}
    assert set(row.arrays["languages"].tolist()) == {2}
    assert set(cloze.rows(PLAIN, settings.defaults(Form.CLOZE, "cloze"), [input_example], causal=False)[0].arrays) == {
        "tokens", "segments",
    }  # fmt: skip


def test_sentences_to_extract_have_the_language_of_their_text():
    (row,) = form_rows(
        Form.GENERATION,
        KNOWING,
        Example(id="0", inputs=("\n".join(TEXTS[:2]),), gold=(TEXTS[1],), channels={"languages": ("en",)}),
        adaptation="extract",
        task="aeslc",
    )
    assert len(row.note) == 2 and set(row.arrays["languages"].tolist()) == {2}


def test_an_example_without_channels_has_zeros_and_a_plain_tokenizer_no_channels():
    without_channels = Example(id="1", inputs=(TEXTS[0], TEXTS[1]), gold="entailment")
    first, second = form_rows(Form.CLASSIFICATION, KNOWING, FIRST, without_channels)
    assert set(first.arrays) == set(second.arrays)
    assert not second.arrays["entities"].any() and not second.arrays["languages"].any()
    assert set(form_rows(Form.CLASSIFICATION, PLAIN, FIRST)[0].arrays) == {"tokens", "segments", "label", "unused"}
    assert stack([first, second])["entities"].shape == stack([first, second])["tokens"].shape


READERS = [
    (Form.CLASSIFICATION, "finetune", 4),
    (Form.TAGGING, "finetune", (16, False)),
    (Form.SPAN, "finetune", (0, False)),
    (Form.CHOICE, "finetune", 1),
    (Form.GENERATION, "seq2seq", 0.0),
]


@pytest.mark.parametrize("form, adaptation, outputs", READERS)
@pytest.mark.parametrize("model, reads", [("xlm", True), ("bert", False)])
def test_an_encoder_reads_only_the_channels_that_it_knows(model, reads, form, adaptation, outputs):
    chosen = settings.changed(settings.defaults(form, adaptation), {"length": 24})
    network = adapted(model, SHAPE, KNOWING, form, adaptation, outputs, baked(chosen))
    english_rows, other = (
        form_rows(form, KNOWING, replace(example, channels={"languages": (said,) * len(example.inputs)}))
        for example in [FORMS[form]]
        for said in ("en", "de")
    )
    for variable in network.network.encoder.variables:  # language vectors that differ strongly
        if variable.path.endswith("languages/table"):
            variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    answers = network.mean_loss if network.decoding else lambda given: network.forward(stack(given))
    assert (np.abs(np.asarray(answers(english_rows)) - answers(other)).max() > 1e-4) == reads


def test_an_added_decoder_generates_with_the_channels_of_its_source():
    """It generates the tokens with the highest logits of training, for a source in either language."""
    chosen = settings.changed(settings.defaults(Form.GENERATION, "seq2seq"), {"length": 24, "target_length": 6})
    network = adapted("xlm", SHAPE, KNOWING, Form.GENERATION, "seq2seq", 0.0, baked(chosen))
    for variable in network.network.encoder.variables:
        if variable.path.endswith("languages/table"):
            variable.assign(np.random.default_rng(0).normal(size=variable.shape) * 9)
    generator = Generator(SimpleNamespace(decode=network.decoding.decode, writer=None), KNOWING.vocabulary, Writing())
    first_logits = []
    for said in ("en", "de"):
        example = replace(FORMS[Form.GENERATION], channels={"languages": (said,)})
        batch = stack(form_rows(Form.GENERATION, KNOWING, example))
        languages = {"languages": batch["languages"]}
        ids = generator(batch["tokens"], 5, channels=languages).ids[:, 0]
        np.testing.assert_array_equal(network.write(Writing(), batch, 5, 0), ids)
        np.testing.assert_array_equal(network.write(Writing(), batch, 5, 0), ids)  # the second call runs in threads
        memory, past = network.decoding.writer.begin(batch["tokens"], **languages)
        written = np.full((1, 1, 1), KNOWING.vocabulary.cls, np.int32)
        logits, _ = network.decoding.writer.step(memory, past, written, np.ones((1, 1, 1), bool))
        teacher_forced = network.decoding.decode(batch | {"targets": written[0]})
        np.testing.assert_allclose(logits, teacher_forced, atol=1e-5)
        first_logits.append(np.asarray(logits))
    assert np.abs(first_logits[0] - first_logits[1]).max() > 1e-3
