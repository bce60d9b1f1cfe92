"""Templates: positions of texts, words and answers for models that were not trained on [CLS] A [SEP] B [SEP]."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench.bench.adapt.heads import generation, layout, span, stack, tagging
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.prompt import Own
from ptmbench.bench.adapt.prompt import network as prompt
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.published import _vocabulary
from ptmbench.models.text import template as _template
from ptmbench.models.text.template import Template
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load
from ptmbench.tasks.forms import Answer
from ptmbench.tasks.task import Example
from tests.models.published import made

CLS, SEP = 2, 3
A, B, C = [40, 41], [50], [60, 61, 62]
TEMPLATES = {
    "BERT": ([CLS, *A, SEP], [CLS, *A, SEP, *B, SEP], [0, 0, 0, 0, 1, 1]),
    "ROBERTA": ([CLS, *A, SEP], [CLS, *A, SEP, SEP, *B, SEP], [0] * 7),
    "PROPHETNET": ([*A, SEP], [*A, SEP, *B, SEP], [0, 0, 0, 1, 1]),
    "T5": ([*A, SEP], [*A, SEP, *B, SEP], [0] * 5),
    "PEGASUS": ([*A, SEP], [*A, *B, SEP], [0] * 4),
    "XLNET": ([*A, SEP, CLS], [*A, SEP, *B, SEP, CLS], [0, 0, 0, 1, 1, 2]),
    "PLAIN": (A, [*A, *B], [0] * 3),
}
every_template = pytest.mark.parametrize("name", TEMPLATES)
TOKENIZER = Tokenizer.train("wordpiece", made.TEXT, 300)


def with_template(template: Template) -> Tokenizer:
    tokenizer = Tokenizer(TOKENIZER.kind, TOKENIZER.spec)
    tokenizer.vocabulary = replace(tokenizer.vocabulary, template=template)
    return tokenizer


@every_template
def test_texts_are_laid_out_as_in_the_papers(name):
    template, (single, pair, segments) = getattr(_template, name.upper()), TEMPLATES[name]
    vocabulary = Vocabulary(size=100, template=template)
    assert layout(vocabulary, [A], 20)["tokens"].tolist() == single
    arrays = layout(vocabulary, [A, B], 20)
    assert (arrays["tokens"].tolist(), arrays["segments"].tolist()) == (pair, segments)
    for texts in ([A], [A, B], [A, B, C]):
        arrays = layout(vocabulary, texts, 40)["tokens"].tolist()
        assert len(arrays) == sum(map(len, texts)) + template.added(len(texts))
        for begin, text in zip(template.begins([len(text) for text in texts]), texts, strict=True):
            assert arrays[begin : begin + len(text)] == text
        home = arrays[template.home(len(arrays))]
        assert home == (CLS if CLS in arrays else SEP if SEP in arrays else A[0])
    cut = layout(vocabulary, [A * 9, B * 9], 12)["tokens"].tolist()
    assert len(cut) == 12 and [i for i in cut if i < 10] == [i for i in pair if i < 10]
    assert layout(vocabulary, [[]], 12)["tokens"].size


def test_tokenizers_trained_here_keep_the_bert_template_and_their_json():
    assert TOKENIZER.vocabulary.template == _template.BERT == Template()
    assert "template" not in TOKENIZER.to_json()


@pytest.mark.parametrize(
    ("kind", "model_type", "expected"),
    [
        ("wordpiece", "bert", _template.BERT),
        ("bytewise", "roberta", _template.ROBERTA),
        ("bytewise", "bart", _template.ROBERTA),
        ("unigram", "t5", _template.T5),
        ("unigram", "pegasus", _template.PEGASUS),
        ("unigram", "xlnet", _template.XLNET),
        ("endings", "openai-gpt", replace(_template.PLAIN, start=())),
    ],
)
def test_an_imported_tokenizer_keeps_its_template(kind, model_type, expected, tmp_path):
    """The template comes from the post-processor or, if there is none, from the tokenizer kind. Saving keeps it."""
    made.KINDS[kind](tmp_path)
    start = {} if kind == "endings" else {"decoder_start_token_id": 0}
    tokenizer = _vocabulary.read(tmp_path, {"model_type": model_type} | start)
    assert tokenizer.vocabulary.template == expected
    tokenizer.save(tmp_path / "ours.json")
    assert Tokenizer.load(tmp_path / "ours.json").vocabulary == tokenizer.vocabulary
    assert ("template" in tokenizer.imported) == (expected != _template.BERT)


@every_template
def test_answers_are_located_in_the_context_of_each_template(name):
    tokenizer = with_template(getattr(_template, name.upper()))
    context = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 2
    gold = (Answer(context[4:15], 4),)
    one = Example(id="0", inputs=("Who jumps ?", context), gold=gold)
    codec = span.Codec(load("squad20"), tokenizer, Settings(length=24, stride=8), [one])
    rows = codec.rows([one])
    assert len(rows) > 1 and all(len(row.arrays["tokens"]) <= 24 for row in rows)
    scores = []
    for row in rows:
        numbers = np.zeros((len(row.arrays["tokens"]), 2))
        numbers[row.arrays["start"], 0] += 5
        numbers[row.arrays["end"], 1] += 5
        assert row.arrays["inside"][row.arrays["start"]] == row.arrays["inside"][row.arrays["end"]] == 1
        scores.append(numbers)
    assert codec.predictions([one], rows, scores) == [context[4:15]]
    home = [numbers[row.note[3], 0] for row, numbers in zip(rows, scores, strict=True)]
    assert home[-1] == 5  # the last window has no answer
    assert codec.predictions([one], rows[-1:], scores[-1:]) == [""]


@every_template
@pytest.mark.parametrize("crf", [0, 1])
def test_words_are_tagged_at_their_positions_in_each_template(name, crf):
    tokenizer = with_template(getattr(_template, name.upper()))
    words = ("The", "dog", "sleeps", ",", "walking", "on")
    gold = ("O", "B-PER", "O", "O", "O", "B-LOC")
    examples = [Example(id="0", inputs=words, gold=gold), Example(id="1", inputs=words[:2], gold=gold[:2])]
    codec = tagging.Codec(load("conll2003"), tokenizer, Settings(length=10, crf=crf), examples)
    rows = codec.rows(examples)
    pieces = {word: tokenizer.encode([word])[0][0] for word in words}
    batch, seen = stack(rows), {0: [], 1: []}
    for row, places in zip(rows, batch["places"], strict=True):
        assert len(row.arrays["tokens"]) <= 10
        seen[row.example] += [int(i) for i in row.arrays["tokens"][places[places >= 0]]]
    assert seen == {0: [pieces[word] for word in words], 1: [pieces[word] for word in words[:2]]}
    logits = np.eye(codec.outputs[0])[np.maximum(batch["tags"], 0)]
    assert codec.predictions(examples, rows, logits) == [list(gold), list(gold[:2])]
    if crf:
        _, inside = tagging._words(logits.astype(np.float32), batch)
        assert inside.numpy().sum() == len(words) + 2


def test_generation_targets_do_not_use_the_input_template():
    """Decoder targets begin with the start symbol, whatever precedes an input."""
    tokenizer = with_template(_template.T5)
    example = Example(id="0", inputs=("The dog",), gold=("walking on and on and on",))
    (row,) = generation.Codec(load("multi30k"), tokenizer, Settings(length=16, target_length=6), []).rows([example])
    (source, target) = tokenizer.encode(["The dog", example.gold[0]])
    assert row.arrays["tokens"].tolist() == [*source, SEP]
    assert row.arrays["targets"].tolist() == [CLS, *target[:4], SEP]


class Counting:
    """A language model that gives the token at position t the log probability -t, and does not predict the first."""

    def log_likelihood(self, batch):
        import tensorflow as tf

        tokens = batch["tokens"]
        return tf.where(tokens != 0, -tf.cast(tf.range(tf.shape(tokens)[1])[None], tf.float32), 0.0)


@pytest.mark.parametrize("start", [(CLS,), ()])
def test_likelihood_with_and_without_a_start_symbol(start):
    """Every token counts once. A first token that the model does not predict costs log V."""
    tokenizer = with_template(replace(_template.PLAIN, start=start))
    settings, text = Settings(length=8, stride=4, batch=2), "The dog sleeps, walking on and on."
    example = Example(id="0", inputs=(text,))
    count = len(tokenizer.encode([text])[0])
    found = likelihood.windows(tokenizer, settings, [example])
    ((nats, words, _),) = likelihood.predictions(Counting(), "it", tokenizer, settings, [example], found)
    shift, expected = len(start), 0 if start else np.log(tokenizer.vocabulary.size)
    room, scored, begin = 8 - shift, 0, 0
    while scored < count:
        begin = 0 if scored == 0 else scored - (room - 4)
        stop = min(begin + room, count)
        expected += sum(shift + place - begin for place in range(scored, stop))
        scored = stop
    assert (nats, words) == (pytest.approx(expected), len(text.split()))


@pytest.mark.parametrize("start", [(CLS,), ()])
def test_prompts_with_and_without_a_start_symbol(start):
    tokenizer = with_template(replace(_template.PLAIN, start=start))
    task, settings = load("copa"), Own(length=32, batch=4, shots=0, per_token=0)
    example = Example(
        id="0", inputs=("The dog sleeps because", "it walked on", "it walked and walked and walked"), gold=0
    )
    rows = prompt.rows(task, tokenizer, settings, [], [example], 0)
    seen = []

    def log_likelihood(batch):
        seen.append(batch["tokens"])
        return Counting().log_likelihood(batch)

    (answer,) = prompt.predictions(
        SimpleNamespace(log_likelihood=log_likelihood), "it", task, tokenizer, settings, rows, 1
    )
    assert answer == 0 and len(seen) == 1
    assert rows[0].ids[: rows[0].begin] == tokenizer.encode([example.inputs[0]])[0]
