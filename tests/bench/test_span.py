"""Answer spans and answers without a span: from characters to windows of tokens and back, for any text."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ptmbench.bench.adapt.heads import span, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Answer, Answers, Piece, Reply
from ptmbench.tasks.task import Example

TEXTS = ["The old miller lives near the river .", "Who lives near the river ?", "Vodia sees Zürich , naïve café !"] * 4
TOKENIZERS = {
    kind: Tokenizer.train(kind, TEXTS, size, lowercase=lowercase)
    for kind, size, lowercase in (("wordpiece", 200, True), ("bpe", 400, False), ("unigram", 120, False))
}
CONTEXT = "The old miller lives near the river and sees Zürich , the naïve café near the old river ."
NO_DEADLINE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def codec(task, examples=(), kind="wordpiece", **changes):
    return span.Codec(load(task), TOKENIZERS[kind], Settings(**changes), list(examples))


def oracle(made, rows):
    """Returns the scores of a perfect network, which knows the answer and the evidence of each row."""
    named, evidence = made.outputs
    outputs = []
    for row in rows:
        scores = np.zeros((named + len(row.arrays["tokens"]), 2 + evidence))
        scores[row.arrays["start"], 0] = scores[row.arrays["end"], 1] = 9.0
        if evidence:
            scores[named:, 2] = np.where(row.arrays["facts"] == 1, 1.0, -1.0)
        outputs.append(scores)
    return outputs


def oracle_answer(task, one, **changes):
    made = codec(task, [one], **changes)
    rows = made.rows([one])
    return made.predictions([one], rows, oracle(made, rows))[0], rows


@pytest.mark.parametrize("length, stride", [(64, 32), (20, 4)])
@pytest.mark.parametrize("label", ["yes", "no", "unknown"])
def test_named_answers_are_recovered_from_any_window(label, length, stride):
    for start in (-1, 0, CONTEXT.index("café")):
        one = Example(id="0", inputs=("Who ?", CONTEXT), gold=(Answer(label, start),))
        found, rows = oracle_answer("coqa", one, length=length, stride=stride)
        assert found == label
        pointing = [int(row.arrays["start"]) < 3 for row in rows]
        assert all(pointing) if start < 0 else any(pointing), "windows that the answer does not follow from say nothing"
        assert all(row.arrays["start"] == 3 for row, named in zip(rows, pointing, strict=True) if not named)


def test_a_free_form_answer_is_trained_on_the_span_that_supports_it():
    start = CONTEXT.index("the naïve")
    one = Example(
        id="0", inputs=("Where ?", CONTEXT), gold=(Answer("in a café", start, start + len("the naïve café")),)
    )
    assert oracle_answer("coqa", one, length=64)[0] == "the naïve café"


def test_unanswerable_questions_keep_a_no_answer_score_and_the_best_span():
    one = Example(id="0", inputs=("Who ?", CONTEXT), gold=())
    found, rows = oracle_answer("squad20", one, length=20, stride=6)
    assert len(rows) > 1 and all(row.arrays["start"] == row.arrays["end"] == 0 for row in rows)
    assert isinstance(found, Reply) and found == "" and found.no_answer > 0 and found.span in CONTEXT
    one = Example(id="0", inputs=("Who ?", CONTEXT), gold=(Answer("Zürich", CONTEXT.index("Zürich")),))
    found, _ = oracle_answer("squad20", one, length=20, stride=6)
    assert found == "Zürich" and found.no_answer < 0 and found.span is None
    assert type(oracle_answer("squad11", one, length=20, stride=6)[0]) is str, "where every question has an answer"


def test_an_empty_context_has_no_answer():
    one = Example(id="0", inputs=("Who ?", " "), gold=())
    found, _ = oracle_answer("squad20", one)
    assert found == "" and found.no_answer > 1 and json.dumps(found.no_answer) != "Infinity"
    assert oracle_answer("squad11", one)[0] == ""
    assert oracle_answer("coqa", one)[0] in ("yes", "no", "unknown")


@pytest.mark.parametrize("length, stride", [(128, 64), (24, 6)])
def test_evidence_sentences_are_recovered_by_name(length, stride):
    sentences = ["The miller lives.", " Vodia sees Zürich.", "", " ", " The river is old."]
    pieces = [
        "River\n",
        *(Piece(text, ("River", n)) for n, text in enumerate(sentences)),
        "\n",
        Piece("Café.", ("C", 0)),
    ]
    start = "".join(pieces).index("Zürich")
    one = Example(id="0", inputs=("Who ?", *pieces), gold=Answers([Answer("Zürich", start)], [("River", 1), ("C", 0)]))
    found, rows = oracle_answer("hotpotqa", one, length=length, stride=stride)
    assert found == "Zürich" and set(found.facts) == {("River", 1), ("C", 0)}
    heads = {name for row in rows for name in row.note[2].values()}
    assert heads == {("River", 0), ("River", 1), ("River", 4), ("C", 0)}, (
        "sentences without a token cannot be asked for"
    )
    batch = stack(rows)
    assert batch["facts"].shape == batch["tokens"].shape and set(np.unique(batch["facts"])) == {-1, 0, 1}


WORD = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=3)
BETWEEN = st.text(st.characters(categories=("Zs", "P", "Sm")), max_size=2).map(lambda text: f" {text} ")


@NO_DEADLINE
@given(kind=st.sampled_from(sorted(TOKENIZERS)), words=st.lists(st.tuples(WORD, BETWEEN), min_size=3, max_size=30),
       place=st.integers(0, 1000), size=st.integers(1, 2))  # fmt: skip
@example(kind="wordpiece", words=[("İ", " "), ("ß", " "), ("ﬁ", " "), ("Ǆ", " ")], place=1, size=2)
@example(kind="bpe", words=[("𠮷", "\u2003"), ("é", " "), ("한", " ")], place=0, size=1)
def test_whole_word_answers_are_recovered_exactly(kind, words, place, size):
    pieces = [piece for pair in words for piece in pair]
    begin = 2 * (place % (len(words) - size + 1))
    text = "".join(pieces[begin : begin + 2 * size - 1])
    one = Example(id="0", inputs=("Who ?", "".join(pieces)), gold=(Answer(text, len("".join(pieces[:begin]))),))
    made = codec("squad20", kind=kind, length=72, stride=12)
    assume(len(TOKENIZERS[kind].encode([" " + text])[0]) < 30)  # longer answers are never predicted
    rows = made.rows([one])
    assert made.predictions([one], rows, oracle(made, rows)) == [text]


@NO_DEADLINE
@given(kind=st.sampled_from(sorted(TOKENIZERS)), context=st.text(max_size=200), seed=st.integers(0, 99))
@example(kind="wordpiece", context="a\u0301\u0301 \x00b\ufffd \u200dc\ud7ff", seed=0)
@example(kind="bpe", context="\r\n\t ", seed=1)
def test_every_prediction_is_an_exact_substring_of_the_context(kind, context, seed):
    rng = np.random.default_rng(seed)
    one = Example(id="0", inputs=("Who ?", context))
    made = codec("squad20", kind=kind, length=24, stride=8)
    rows = made.rows([one])
    (found,) = made.predictions([one], rows, [rng.normal(size=(len(row.arrays["tokens"]), 2)) for row in rows])
    text = str(found) if found.span is None else found.span
    assert text in context and (text or found.no_answer > 1e8)
    edges = np.concatenate([row.note[1] for row in rows])
    assert (edges[:, 0] <= edges[:, 1]).all() and (edges >= 0).all() and (edges <= len(context)).all()


@NO_DEADLINE
@given(
    contexts=st.lists(st.text(max_size=120), min_size=1, max_size=4), seed=st.integers(0, 99), padding=st.integers(0, 9)
)
def test_padding_and_row_order_do_not_change_predictions(contexts, seed, padding):
    rng = np.random.default_rng(seed)
    examples = [Example(id=str(n), inputs=("Who ?", context)) for n, context in enumerate(contexts)]
    made = codec("coqa", length=24, stride=8)
    rows = made.rows(examples)
    outputs = [rng.normal(size=(3 + len(row.arrays["tokens"]), 2)) for row in rows]
    found = made.predictions(examples, rows, outputs)
    order = rng.permutation(len(rows))
    padded = [np.concatenate([outputs[i], np.full((padding, 2), 99.0)]) for i in order]
    assert made.predictions(examples, [rows[i] for i in order], padded) == found
    for size in (1, 2, len(rows)):  # a batch keeps each row unchanged, and nothing can point at its padding
        batch = stack([rows[i] for i in order[:size]])
        for place, i in enumerate(order[:size]):
            for name, array in rows[i].arrays.items():
                kept = batch[name][place] if array.ndim == 0 else batch[name][place][: len(array)]
                assert (kept == array).all()
            assert not batch["inside"][place][len(rows[i].arrays["inside"]) :].any()
    alone = [made.rows([one]) for one in examples]
    assert [len(part) for part in alone] == [sum(row.example == n for row in rows) for n in range(len(examples))]
