"""Channels in prompts, likelihoods, infilling and mapping: rows against hand-written ones, and scores that depend on
the channels."""

import json
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.acceptability import Own as Scores
from ptmbench.bench.adapt.acceptability import network as acceptability
from ptmbench.bench.adapt.asking import AnsweringInput
from ptmbench.bench.adapt.built import adapted
from ptmbench.bench.adapt.channels import Annotation, Text
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.infill import Own as Infilling
from ptmbench.bench.adapt.infill import head as infilling
from ptmbench.bench.adapt.infill import network as infill
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.prompt import Own as Prompting
from ptmbench.bench.adapt.prompt import network as prompt
from ptmbench.bench.adapt.settings import Settings, baked
from ptmbench.bench.adapt.surprises import encode, masked
from ptmbench.bench.engine import networks
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Part, Target
from ptmbench.tasks.task import Example, Mention

WORDS = "Berlin lies on the Spree . Paris is a dull fine town ist eine Stadt so , it bad good"
PLAIN = Tokenizer.train("word", [WORDS] * 3, 80)
SYMBOLS = {"entities": ["Q1707", "Q64", "Q90"], "languages": ["de", "en"]}
KNOWING = PLAIN.with_symbols(SYMBOLS, {"entities": 4})
SEEING = PLAIN.with_symbols({}, {"regions": 4})
SHAPE = Size(layers=1, width=16, heads=2, inner=24, length=24)
DEEP = replace(SHAPE, layers=4)
"""Two of ERNIE's layers read entities. After the first of them, other tokens depend on them."""
EVERYTHING = ("tokens", "segments", "languages", "entities")
RIVER = "Berlin lies on the Spree ."
TOWN = "Berlin ist eine Stadt ."


def shape_of(model):
    return DEEP if model == "ernie_thu" else SHAPE


@lru_cache
def network(model, tokenizer=KNOWING):
    """Returns a network with the same weights, far from 0, for every tokenizer."""
    made = networks.build(model, shape_of(model), tokenizer, 0)
    made.encoder.dropout = 0.0
    for variable in made.loss.variables:
        drawn = np.random.default_rng(list(variable.path.encode())).normal(0.0, 0.4, variable.shape)
        variable.assign(drawn.astype(variable.dtype))
    return made


def answering_input(model, task, examples, own, tokenizer=KNOWING):
    return AnsweringInput(
        network=network(model, tokenizer), module=models.load(model), shape=shape_of(model), tokenizer=tokenizer,
        task=load(task), settings=own, train=[], report=examples, seed=0,
    )  # fmt: skip


def pair(first=RIVER, second=TOWN, **channels):
    return Example(id="0", inputs=(first, second), gold=Part("x"), channels=channels)


def scored(model, *examples, tokenizer=KNOWING, **changes):
    found, _ = acceptability.respond(answering_input(model, "blimp", list(examples), Scores(**changes), tokenizer))
    return np.array(found)


def test_masking_a_token_removes_its_mention():
    mentions = Annotation(0, np.array([2, -2, 0, 3, -3, -3, 1], np.int32))
    text = Text(list(range(40, 47)), {"entities": mentions, "languages": Annotation(1, np.ones(7, np.int32))})
    for place, left in ((1, [0, 0, 0, 3, -3, -3, 1]), (2, [2, -2, 0, 3, -3, -3, 1]), (4, [2, -2, 0, 0, 0, 0, 1])):
        shown = text.hidden([place], 4)
        assert shown.ids == [4 if i == place else 40 + i for i in range(7)]
        assert shown.layers["entities"].tokens.tolist() == left
        assert shown.layers["languages"].tokens.tolist() == [1] * 7
    assert text.layers["entities"].tokens.tolist() == [2, -2, 0, 3, -3, -3, 1] and text.ids[1] == 41


def test_masked_rows_keep_the_language_and_the_visible_mentions_of_a_sentence():
    example = pair(languages=("en", "de"), entities=(Mention(0, 0, 6, "Q64"), Mention(0, 19, 24, "Q1707")))
    (first, words), (second, _) = encode(KNOWING, [example], EVERYTHING)
    berlin, spree = (masked(KNOWING, first, place, words).arrays for place in (0, 4))
    mask, cls, sep = KNOWING.vocabulary.mask, KNOWING.vocabulary.cls, KNOWING.vocabulary.sep
    assert berlin["tokens"].tolist() == [cls, mask, *first.ids[1:], sep]
    assert berlin["entities"].tolist() == [0, 0, 0, 0, 0, 1, 0, 0]  # Q1707 at "Spree"
    assert spree["entities"].tolist() == [0, 2, 0, 0, 0, 0, 0, 0]
    assert berlin["languages"].tolist() == spree["languages"].tolist() == [2] * 8
    assert masked(KNOWING, second, 1).arrays["languages"].tolist() == [1] * 7
    assert set(encode(KNOWING, [example])[0][0].layers) == set()


def test_the_pseudo_likelihood_of_xlm_uses_the_language_of_the_sentence():
    """Computed by hand from a batch with the language of every token, and positions from 0."""
    question = answering_input("xlm", "blimp", [pair(languages=("en", "de"))], Scores())
    ((river, town),) = acceptability.respond(question)[0]
    for text, score, language in ((RIVER, river, 2), (TOWN, town, 1)):
        ids, total = KNOWING.encode([text])[0], 0.0
        for place, token in enumerate(ids):
            own = [KNOWING.vocabulary.mask if i == place else other for i, other in enumerate(ids)]
            tokens = tf.constant([[KNOWING.vocabulary.cls, *own, KNOWING.vocabulary.sep]])
            batch = {"tokens": tokens, "languages": tokens * 0 + language, "places": tf.constant([place + 1])}
            batch["positions"] = tf.range(len(ids) + 2)[None]
            total += float(tf.nn.log_softmax(question.network.fill(batch))[0, token])
        assert score == pytest.approx(total, abs=1e-4)
    other, none = scored("xlm", pair(languages=("de", "en"))), scored("xlm", pair())
    assert np.abs(other - [river, town]).min() > 1e-3 and np.abs(none - [river, town]).min() > 1e-3


def test_equal_sentences_in_two_languages_get_different_scores():
    ((one, other),) = scored("xlm", pair(TOWN, TOWN, languages=("en", "de")))
    assert one != other
    ((one, other),) = scored("bert", pair(TOWN, TOWN, languages=("en", "de")))
    assert one == other


@pytest.mark.slow
def test_ernie_reads_the_entities_of_a_sentence():
    berlin, paris = ((Mention(0, 0, 6, symbol),) for symbol in ("Q64", "Q90"))
    found = [scored("ernie_thu", pair(entities=given))[0] for given in (berlin, paris, ())]
    assert len({row[0] for row in found}) == 3 and len({row[1] for row in found}) == 1
    unknown = scored("ernie_thu", pair(entities=(Mention(0, 0, 6, "Q1"),)))[0]
    np.testing.assert_array_equal(unknown, found[2])  # an unknown entity equals no entity


def seen(*names, seed=0):
    """Returns a pair of sentences with a picture of three regions. "Spree" names the second region."""
    rng, words = np.random.default_rng(seed), ((), (Mention(0, 19, 24, ""),), ())
    given = {"regions": rng.normal(size=(3, 4)), "boxes": np.full((3, 4), 0.5), "alignments": words}
    return pair(**{name: given[name] for name in names})


@pytest.mark.slow
def test_visualbert_reads_the_picture_for_both_sentences():
    picture = ("regions", "boxes", "alignments")
    (text, _), _ = encode(SEEING, [seen(*picture)], models.load("visualbert").CARD.reads)
    row = masked(SEEING, text, 0).arrays
    assert row["regions"].shape == (3, 4) and row["alignments"].tolist() == [[-1], [5], [-1]]  # counted from [CLS]
    assert masked(SEEING, text, 4).arrays["alignments"].shape == (3, 0)  # a masked word names no region
    one, other, none = (scored("visualbert", example, tokenizer=SEEING)
                        for example in (seen(*picture), seen(*picture, seed=1), pair()))  # fmt: skip
    assert np.abs(one - other).min() > 1e-5 and np.abs(one - none).min() > 1e-5
    with_picture, without = (
        answering_input("visualbert", "blimp", [e], Scores(), SEEING) for e in (seen(*picture), pair())
    )
    assert acceptability.respond(with_picture)[1] > acceptability.respond(without)[1]


@pytest.mark.slow
def test_models_without_channels_ignore_the_symbols_of_the_tokenizer():
    full = pair(languages=("en", "de"), entities=(Mention(0, 0, 6, "Q64"),))
    for model in ("bert", "gpt", "electra"):
        np.testing.assert_array_equal(scored(model, full), scored(model, pair(), tokenizer=PLAIN))


@pytest.mark.slow
def test_pseudo_likelihoods_of_running_text_depend_on_language_and_entities():
    """Windows have four tokens. Only windows that contain the mention of the second half show it."""
    text = Example(id="0", inputs=(f"{RIVER} {TOWN}",), gold=1, channels={"languages": ("en",)})
    own = Settings(length=6, stride=2)

    def nats(model, **channels):
        question = answering_input(model, "bits_per_byte-pseudo", [replace(text, channels=channels)], own)
        return likelihood.respond(question)[0][0][0]

    assert len({nats("xlm", languages=said) for said in (("en",), ("de",), ())}) == 3
    entities = [(), (Mention(0, 27, 33, "Q64"),), (Mention(0, 27, 33, "Q90"),)]
    assert len({nats("ernie_thu", entities=given) for given in entities}) == 3


class Reader:
    """A left-to-right model whose log likelihood of a token depends only on its channels."""

    log_likelihood, encoder = None, SimpleNamespace(causal=True)

    def __init__(self):
        self.log_likelihood = lambda batch: -tf.cast(10 * batch["languages"] + tf.abs(batch["entities"]), tf.float32)


def test_windows_of_a_left_to_right_model_are_cut_with_their_channels():
    given = {"languages": ("en",), "entities": (Mention(0, 0, 6, "Q64"), Mention(0, 19, 24, "Q1707"))}
    text, own = Example(id="0", inputs=(RIVER,), channels=given), Settings(length=4, stride=3)
    found = likelihood.windows(KNOWING, own, [text], EVERYTHING)
    assert [one.layers["entities"].tokens.tolist() for _, _, one in found] == [[2, 0, 0], [0, 1, 0]]
    assert [one.layers["languages"].tokens.tolist() for _, _, one in found] == [[2] * 3] * 2
    ((nats, _, _),) = likelihood.predictions(Reader(), "x", KNOWING, own, [text], found)
    assert nats == 6 * 20 + 2 + 1
    assert not likelihood.windows(KNOWING, own, [text])[0][2].layers


def spelled(row, layer):
    """Returns the tokens of a prompt, grouped by their symbol."""
    found = {}
    for piece, value in zip(KNOWING.pieces(row.ids), row.text.layers[layer].tokens, strict=True):
        found.setdefault(int(value), []).append(piece)
    return found


def test_prompts_shift_mentions_with_the_template_and_solved_examples_keep_theirs():
    shown = Example(
        id="0", inputs=("eine Stadt",), gold="1",
        channels={"languages": ("de",), "entities": (Mention(0, 5, 10, "Q90"),)},
    )  # fmt: skip
    ask = Example(
        id="1", inputs=("a  dull town ,  ",), channels={"languages": ("en",), "entities": (Mention(0, 8, 12, "Q64"),)}
    )
    for row in prompt.rows(load("sst2"), KNOWING, Prompting(shots=1), [shown], [ask], 0, EVERYTHING):
        answer = ["bad", "good"][row.answer]
        assert spelled(row, "languages") == {
            1: ["eine", "Stadt", "it", "is", "good", "."], 2: ["a", "dull", "town", ",", "it", "is", answer]
        }  # fmt: skip
        assert {2: ["town"], 3: ["Stadt"]}.items() <= spelled(row, "entities").items()
    (short, _) = prompt.rows(load("sst2"), KNOWING, Prompting(length=5), [], [ask], 0, EVERYTHING)
    assert short.text.layers["entities"].tokens.tolist() == [0] * 4  # truncation at the front removed the town
    assert short.text.layers["languages"].tokens.tolist() == [2] * 4


def test_each_choice_has_the_annotations_of_its_input():
    ask = Example(
        id="0", inputs=("Berlin lies on", " the Spree .", "eine Stadt"), gold=0,
        channels={"languages": ("en", "en", "de"), "entities": (Mention(1, 5, 10, "Q1707"), Mention(0, 0, 6, "Q64"))},
    )  # fmt: skip
    river, town = prompt.rows(load("copa"), KNOWING, Prompting(), [], [ask], 0, EVERYTHING)
    assert river.text.layers["entities"].tokens.tolist() == [2, 0, 0, 0, 1, 0]
    assert river.text.layers["languages"].tokens.tolist() == [2] * 6
    assert town.text.layers["entities"].tokens.tolist() == [2, 0, 0, 0, 0]
    assert town.text.layers["languages"].tokens.tolist() == [2, 2, 2, 1, 1]
    assert river.text.layers["languages"].whole == 2 and town.text.layers["languages"].whole == 0
    own = Prompting(per_token=0)
    found = [river, town]
    assert prompt.predictions(Reader(), "x", load("copa"), KNOWING, own, found, 1) == [1]  # -20 and not -61
    assert prompt.predictions(Reader(), "x", load("copa"), KNOWING, own, [replace(river, answer=1), town], 1) == [1]


def test_a_prompt_has_the_picture_of_its_question():
    (row, _) = prompt.rows(
        load("sst2"), SEEING, Prompting(shots=1), [replace(seen("regions", "boxes", seed=1), gold="1")],
        [replace(seen("regions", "boxes"), gold="1")], 0, ("tokens", "regions", "boxes"),
    )  # fmt: skip
    np.testing.assert_array_equal(row.text.channels()["regions"], np.float32(seen("regions").channels["regions"]))


TRANSFER = [
    Example(id="0", inputs=(text, wanted))
    for wanted, texts in {"1": ["a dull town", "dull it is"], "0": ["a fine town", "fine it is"]}.items()
    for text in texts * 9
]


def test_blanks_lose_their_mentions_and_other_words_keep_theirs():
    made = infilling.Codec(load("sentiment_transfer"), KNOWING, Infilling(length=9), TRANSFER)
    given = Mention(0, 3, 7, "Q90"), Mention(0, 9, 15, "Q64"), Mention(0, 16, 20, "Q1707")
    said = {"entities": given, "languages": ("en",)}
    text = Example(id="0", inputs=("a  dull  Berlin town dull", "1"), channels=said)
    (row,) = made.rows([text])
    a, dull, berlin, town = KNOWING.encode(["a dull Berlin town"])[0]
    cls, sep = KNOWING.vocabulary.cls, KNOWING.vocabulary.sep
    assert row.arrays["tokens"].tolist() == [cls, a, dull, berlin, town, dull, sep]
    assert row.arrays["places"].tolist() == [2, 5]
    assert row.arrays["entities"].tolist() == [0, 0, 0, 2, 1, 0, 0]
    assert row.arrays["languages"].tolist() == [2] * 7


def test_ernie_fills_blanks_depending_on_the_entities_around_them():
    made = infilling.Codec(load("sentiment_transfer"), KNOWING, Infilling(length=9), TRANSFER)
    decoding = infill.Decoding(network("ernie_thu"), KNOWING.vocabulary, Infilling())
    texts = [
        Example(id="0", inputs=("a dull Berlin , dull Spree", "1"), channels={"entities": (Mention(0, 7, 13, symbol),)})
        for symbol in ("Q64", "Q90", "?")
    ]
    batches = [stack(made.rows([text])) for text in texts]
    one, other, none = (decoding.decode(batch).numpy()[0, :2] for batch in batches)  # two blanks
    assert np.abs(one - other).max() > 1e-3 and np.abs(one - none).max() > 1e-3
    # By hand, the second blank. The first blank keeps the word of the text, and "Berlin" has the number 2.
    tokens = batches[0]["tokens"].copy()
    tokens[0, 5] = KNOWING.vocabulary.mask
    entities = np.int32([[0, 0, 0, 2, 0, 0, 0, 0]])
    batch = {"tokens": tokens, "segments": np.where(tokens > 0, 0, 0), "entities": entities, "places": np.int32([5])}
    fits = decoding.network.fill({name: tf.constant(array, tf.int32) for name, array in batch.items()})
    np.testing.assert_allclose(one[1], fits[0], atol=1e-4)
    plain = {name: array for name, array in batches[2].items() if name not in ("entities", "languages")}
    again = infill.Decoding(decoding.network, KNOWING.vocabulary, Infilling())
    assert (decoding.written(batches[2]) == again.written(plain)).all()


PAIRS = {"Stadt": "town", "eine": "a", "ist": "is"}


def dictionary(*said):
    candidates = {word: word for word in PAIRS.values()}
    return [
        Example(id=word, inputs=(word,), gold=Target(other, candidates, {other}), channels={"languages": said})
        for word, other in PAIRS.items()
    ]


def mapped(train):
    own = settings.defaults(Form.RANKING, "mapping")
    return heads.of(Form.RANKING, "mapping").Codec(load("word_translation"), KNOWING, own, train)


def test_words_and_their_translations_have_separate_languages():
    train = dictionary("de", "en")
    made = mapped(train)
    first = made.training_rows(train)[0].arrays
    assert first["languages"].tolist() == [[1, 1, 1], [2, 2, 2]] and not first["entities"].any()
    restored = type(made).restored(
        load("word_translation"), KNOWING, made.settings, json.loads(json.dumps(made.state()))
    )
    for codec in (made, restored):
        rows = codec.rows(dictionary("de", "en")[:1])  # rows hold all words of the training dictionary
        assert [row.arrays["languages"].tolist() for row in rows] == [[[1] * 3]] * 3 + [[[2] * 3]] * 3
    unsaid = mapped(dictionary("de")).rows(dictionary("de"))
    assert [row.arrays["languages"].tolist() for row in unsaid] == [[[1] * 3]] * 3 + [[[0] * 3]] * 3
    assert mapped(dictionary()).state()["known"] == tuple(PAIRS)


def test_word_vectors_depend_on_the_language():
    own = settings.changed(settings.defaults(Form.RANKING, "mapping"), {"layers": "top"})
    made = adapted("xlm", SHAPE, KNOWING, Form.RANKING, "mapping", 1, baked(own))
    for variable in made.network.encoder.variables:
        if variable.path.endswith("languages/table"):
            variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    spoken = [dictionary(*said) for said in (("de", "en"), ("en", "de"), ())]
    one, other, none = (made.forward(stack(mapped(given).rows(given))) for given in spoken)
    assert np.abs(one - other).max() > 1e-3 and np.abs(one - none).max() > 1e-3


def test_trained_ranking_rows_include_the_language_of_the_candidates():
    own = settings.defaults(Form.RANKING, "finetune")
    train = dictionary("de", "en")
    codec = heads.of(Form.RANKING, "finetune").Codec(load("word_translation"), KNOWING, own, train)
    assert codec.training_rows(train)[0].arrays["languages"].tolist() == [[1, 1, 1], [2, 2, 2]]
    asked_for = codec.rows(dictionary("de", "en"))
    assert [row.arrays["languages"][0].tolist() for row in asked_for] == [[1] * 3] * 3 + [[2] * 3] * 3
