"""Acceptability: each kind of score against its definition, masking, ties, and whole cells."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt import surprises
from ptmbench.bench.adapt.acceptability import Own
from ptmbench.bench.adapt.acceptability import network as acceptability
from ptmbench.bench.adapt.asking import AnsweringInput
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.engine import networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.task import Example

TEXTS = ["the dogs bark at night", "a dog barks at the moon", "dogs like the moonlight", "unbarkable nights"] * 5
TOKENIZER = Tokenizer.train("wordpiece", TEXTS, 60)
SHAPE = Size(layers=1, width=32, heads=2, inner=64, length=32)
PAIRS = [("the dogs bark", "the dogs barks"), ("a dog barks at night", "a dog bark at night"), ("dogs", "the")]


def example(good, bad, number=0):
    return Example(id=f"x-{number}", inputs=(good, bad), gold=Part("x", kind="agreement"))


def asked(model, *pairs, tokenizer=TOKENIZER, **changes):
    """Returns the input of the adaptation: a random ``model`` and ``pairs`` of sentences to score."""
    network = networks.build(model, SHAPE, tokenizer, 0)
    network.encoder.dropout = 0.0
    return AnsweringInput(
        network=network, module=models.load(model), shape=SHAPE, tokenizer=tokenizer, task=load("blimp"),
        settings=Own(**changes), train=[], report=[example(*pair, i) for i, pair in enumerate(pairs)], seed=0,
    )  # fmt: skip


def scores_of(answering_input):
    found, flops = acceptability.respond(answering_input)
    assert flops > 0
    return np.array(found)


def test_a_left_to_right_model_scores_sentences_by_log_likelihood():
    answering_input = asked("gpt", *PAIRS)
    assert acceptability.choose_score(answering_input) == "likelihood"
    for pair, found in zip(PAIRS, scores_of(answering_input), strict=True):
        for text, score in zip(pair, found, strict=True):
            ids = [TOKENIZER.vocabulary.cls, *TOKENIZER.encode([text])[0]]
            alone = answering_input.network.log_likelihood({"tokens": tf.constant([ids])}).numpy()[0]
            assert score == pytest.approx(alone.sum(), abs=1e-4) and score < 0


@pytest.mark.parametrize("within_word", [False, True])
@pytest.mark.parametrize("model", ["bert", "mpnet", "xlnet"])
def test_a_masked_model_masks_and_scores_each_token_in_turn(model, within_word):
    """Expected: one row per token, softmax over the vocabulary, and the sum of logarithms."""
    answering_input = asked(model, *PAIRS, score="within_word" if within_word else "auto")
    found, mask = scores_of(answering_input), TOKENIZER.vocabulary.mask
    for pair, scores in zip(PAIRS, found, strict=True):
        for text, score in zip(pair, scores, strict=True):
            ((ids, words),) = TOKENIZER.encode_words([text.split()])
            total = 0.0
            for place, token in enumerate(ids):
                own = [
                    mask if i == place or (within_word and i > place and words[i] == words[place]) else other
                    for i, other in enumerate(ids)
                ]
                tokens = np.array([[TOKENIZER.vocabulary.cls, *own, TOKENIZER.vocabulary.sep]], np.int32)
                batch = {"tokens": tokens, "segments": tokens * 0, "places": np.array([place + 1], np.int32)}
                logits = answering_input.network.fill({name: tf.constant(x) for name, x in batch.items()}).numpy()[0]
                logits = logits.astype(np.float64) - logits.max()
                total += logits[token] - np.log(np.exp(logits).sum())
            assert score == pytest.approx(total, abs=1e-4)


def log_probability(logits, token):
    logits = logits.numpy().astype(np.float64)
    return logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum())


@pytest.mark.parametrize("model", ["t5", "bart", "mass"])
def test_an_encoder_decoder_hides_each_token_as_in_its_pre_training(model):
    """Expected, by encoder and decoder: one sentinel or [MASK] in the source, and the tokens decoded before."""
    answering_input = asked(model, *PAIRS)
    network, vocabulary = answering_input.network, TOKENIZER.vocabulary
    assert acceptability.choose_score(answering_input) == "pseudo"
    mask_token = vocabulary.sentinels[0] if model == "t5" else vocabulary.mask
    for pair, scores in zip(PAIRS, scores_of(answering_input), strict=True):
        for text, score in zip(pair, scores, strict=True):
            ids, total = [vocabulary.cls, *TOKENIZER.encode([text])[0], vocabulary.sep], 0.0
            for place in range(1, len(ids) - 1):
                source = tf.constant([[*ids[:place], mask_token, *ids[place + 1 :]]])
                if model == "mass":  # its decoder begins with [MASK], at the position of the fragment
                    memory = network.encoder({"tokens": source}).tokens
                    logits = network.loss.decoder(tf.constant([[4]]), memory, source, first=tf.constant([place]))
                else:
                    written = [ids[0], mask_token] if model == "t5" else ids[:place]
                    logits = network.decode({"tokens": source, "targets": tf.constant([written])})
                total += log_probability(logits[0, -1], ids[place])
            assert score == pytest.approx(total, abs=1e-4)


def test_a_model_that_generates_gap_sentences_scores_the_whole_sentence():
    answering_input = asked("pegasus", *PAIRS)
    assert acceptability.choose_score(answering_input) == "gap"
    vocabulary = TOKENIZER.vocabulary
    source = tf.constant([[vocabulary.cls, vocabulary.mask, vocabulary.sep]])
    for pair, scores in zip(PAIRS, scores_of(answering_input), strict=True):
        for text, score in zip(pair, scores, strict=True):
            ids = [vocabulary.cls, *TOKENIZER.encode([text])[0]]
            logits = answering_input.network.decode({"tokens": source, "targets": tf.constant([ids])})[0]
            total = sum(log_probability(logits[place], token) for place, token in enumerate(ids[1:]))
            assert score == pytest.approx(total, abs=1e-4)


def test_sentences_that_differ_in_one_token_share_the_row_that_masks_it():
    ids = [list(range(40, 45)), [40, 41, 50, 43, 44]]
    rows = acceptability.rows_of(TOKENIZER, [Text(one) for one in ids], None)
    shared = {row: asked for row, asked in rows.items() if len(asked) > 1}
    assert len(rows) == 9 and list(shared.values()) == [[(0, 42), (1, 50)]]
    assert sorted(pair for asked in rows.values() for pair in asked) == sorted(
        (number, token) for number, row in enumerate(ids) for token in row
    )


def test_a_replaced_token_detector_scores_tokens_as_originals():
    answering_input = asked("electra", *PAIRS)
    assert acceptability.choose_score(answering_input) == "replaced"
    loss = answering_input.network.loss
    for pair, found in zip(PAIRS, scores_of(answering_input), strict=True):
        for text, score in zip(pair, found, strict=True):
            tokens = np.array([[TOKENIZER.vocabulary.cls, *TOKENIZER.encode([text])[0], TOKENIZER.vocabulary.sep]])
            batch = {"tokens": tf.constant(tokens, tf.int32), "segments": tf.zeros_like(tokens, tf.int32)}
            logits = loss.replacement_logits(loss.encoder(batch)).numpy()[0, 1:-1]
            assert score == pytest.approx(float(np.log(1 / (1 + np.exp(logits.astype(np.float64)))).sum()), abs=1e-4)


def test_the_score_of_a_replaced_token_detector_is_its_pre_training_loss():
    """If no token is replaced, the loss is the negative mean of `originality`."""
    answering_input = asked("electra", *PAIRS)
    ids = [TOKENIZER.vocabulary.cls, *TOKENIZER.encode([PAIRS[1][0]])[0], TOKENIZER.vocabulary.sep]
    tokens = tf.constant([ids, [*ids[:3], *[0] * (len(ids) - 3)]], tf.int32)
    none = tf.zeros([2, 1], tf.int32)
    batch = {"tokens": tokens, "original": tokens, "segments": tokens * 0, "masked_positions": none,
             "masked_labels": none, "masked_weights": tf.zeros([2, 1])}  # fmt: skip
    log_originality = answering_input.network.originality(batch).numpy()
    assert (log_originality[1, 3:] == 0).all() and (log_originality[0] < 0).all()
    assert float(answering_input.network.loss(batch)["rtd_loss"]) == pytest.approx(
        -log_originality.sum() / (len(ids) + 3), abs=1e-5
    )


def test_sentences_with_the_same_tokens_are_a_tie():
    pairs = [("ж dogs bark", "щ dogs bark"), *PAIRS, ("щ dogs bark", "ж dogs bark")]
    for model in ("gpt", "bert", "electra"):
        found = scores_of(asked(model, *pairs))
        assert found[0, 0] == found[0, 1] and found[-1, 0] == found[-1, 1], "letters that no vocabulary has"
        assert load("blimp").score([Part("x")] * 2, [tuple(found[0]), tuple(found[-1])])["accuracy"] == 0


def test_long_sentences_are_truncated_and_empty_ones_score_zero():
    answering_input = asked("bert", ("dogs " * 50, "dogs " * 40), ("", "dogs"), length=12)
    found = scores_of(answering_input)
    assert found[0, 0] == found[0, 1], "the part that is read is the same"
    assert found[1, 0] == 0 > found[1, 1]


def test_scores_do_not_depend_on_the_batch_size(monkeypatch):
    for model in ("gpt", "bert", "electra", "bart", "hibert"):
        answering_input = asked(model, *PAIRS)
        whole = scores_of(answering_input)
        monkeypatch.setattr(surprises, "_TOKENS", 5)
        np.testing.assert_allclose(scores_of(answering_input), whole, atol=1e-4)
        monkeypatch.undo()


def test_without_a_start_symbol_all_first_tokens_are_equally_likely():
    answering_input = asked("gpt", ("dogs bark", "a dog"))
    template = replace(TOKENIZER.vocabulary.template, start=())
    vocabulary = replace(TOKENIZER.vocabulary, template=template)
    tokenizer = SimpleNamespace(
        vocabulary=vocabulary, encode_with_offsets=TOKENIZER.encode_with_offsets, numbers={}, widths={}
    )
    (found,) = scores_of(replace(answering_input, tokenizer=tokenizer))
    for text, score in zip(("dogs bark", "a dog"), found, strict=True):
        ids = TOKENIZER.encode([text])[0]
        rest = answering_input.network.log_likelihood({"tokens": tf.constant([ids])}).numpy()[0, 1:].sum()
        assert score == pytest.approx(rest - np.log(vocabulary.size - len(vocabulary.absent)), abs=1e-4)


def test_models_without_the_wanted_score_are_not_applicable():
    for model, wanted in (
        ("word2vec", "auto"),
        ("sa_lstm", "auto"),
        ("pegasus", "pseudo"),
        ("gpt", "pseudo"),
        ("bert", "likelihood"),
        ("bert", "replaced"),
    ):
        with pytest.raises(NotApplicable, match="gives no score"):
            acceptability.choose_score(asked(model, *PAIRS, score=wanted))


@pytest.mark.parametrize(
    "model, signature",
    [
        ("bert", "sentences by pseudo"),
        ("gpt", "sentences by likelihood"),
        ("t5", "sentences by pseudo"),
        ("pegasus", "sentences by gap"),
        ("word2vec", None),
    ],
)
def test_cells_run_from_data_to_a_sealed_record(model, signature, tmp_path):
    folder = tmp_path / "data" / "blimp" / "data"
    folder.mkdir(parents=True)
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "UID": "x", "linguistics_term": "agreement", "pairID": str(i)}
        for i, (good, bad) in enumerate(PAIRS)
    ]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = adaptation_settings.recorded(adaptation_settings.defaults(Form.MINIMAL_PAIR, "acceptability"))
    cell = Cell(
        row=Row(name=f"random-{model}", kind="random", model=model, size="tiny"), task="blimp", task_version=1,
        form=Form.MINIMAL_PAIR, data_sha256="x", adaptation="acceptability", settings=settings | {"length": 32},
        seed=0, tokenizer="x",
    )  # fmt: skip
    context = Context(data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == ("ok" if signature else "not_applicable"), result.reason
    found = record.read(record.write(context.out, result))
    if signature:
        assert found.task["examples"] == 3 and found.task["signatures"] == {"accuracy": signature}
        assert found.cost["flops"] == 0 and found.cost["flops_evaluate"] > 0
    else:
        assert found.reason["text"].startswith("because ")
