"""Extraction and new decoders on any encoder: against hand-computed values, and one computation against another."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import extract as of_extraction
from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt import seq2seq as of_seq2seq
from ptmbench.bench.adapt.extract import head as extraction
from ptmbench.bench.adapt.extract import network as extract
from ptmbench.bench.adapt.heads import generation, stack
from ptmbench.bench.adapt.seq2seq import network as seq2seq
from ptmbench.bench.data import corpora
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load, microworld
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

SHAPE = Size(layers=2, width=32, heads=2, inner=64, length=96)
WORDS = Vocabulary(size=60)
TOKENIZER = Tokenizer.train("wordpiece", ["one two three four five six seven eight"] * 20, 90)
TEXT = "One two. Three four five.\nSix."


def codec(**changes):
    return extraction.Codec(load("samsum"), TOKENIZER, of_extraction.Own(**changes), [])


def test_an_extraction_row_concatenates_the_sentences():
    one, two = TOKENIZER.vocabulary.cls, TOKENIZER.vocabulary.sep
    (row,) = codec().rows([Example(id="0", inputs=(TEXT,), gold=("Six three four five",))])
    words = [TOKENIZER.encode([text])[0] for text in ("One two.", "Three four five.", "Six.")]
    expected = [token for ids in words for token in (one, *ids, two)]
    assert row.arrays["tokens"].tolist() == expected
    assert row.arrays["starts"].tolist() == [i for i, token in enumerate(expected) if token == one]
    assert row.arrays["ends"].tolist() == [i for i, token in enumerate(expected) if token == two]
    assert row.arrays["segments"].tolist() == [k % 2 for k, ids in enumerate(words) for _ in range(len(ids) + 2)]
    assert row.arrays["tags"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("length", [3, 4, 5, 8, 9, 10, 11, 12])
def test_sentences_beyond_the_length_limit_are_cut_off(length):
    (row,) = codec(length=length).rows([Example(id="0", inputs=(TEXT,), gold=("one",))])
    arrays, vocabulary = row.arrays, TOKENIZER.vocabulary
    assert len(arrays["tokens"]) <= length and arrays["tokens"][-1] == vocabulary.sep
    assert (arrays["tokens"][arrays["starts"]] == vocabulary.cls).all()
    assert (arrays["tokens"][arrays["ends"]] == vocabulary.sep).all() and (arrays["ends"] > arrays["starts"] + 1).all()
    assert len(row.note) == len(arrays["starts"]) == len(arrays["ends"]) == len(arrays["tags"])


def test_an_empty_text_has_a_row_and_an_empty_summary():
    made, example = codec(), Example(id="0", inputs=("",), gold=("one",))
    rows = made.rows([example])
    assert made.predictions([example], rows, [np.array([0.3, -1e9])]) == [""]


def test_chosen_sentences_keep_the_order_of_the_text():
    example = Example(id="0", inputs=("a b c d. e f. x a b c. g h.",), gold=None)
    texts = ["A b c d.", "E f.", "X a b c.", "G h."]
    example = dataclasses.replace(example, inputs=("\n".join(texts),))
    scores = [np.array([0.9, -3.0, 0.8, 0.5])]
    for changes, expected in (
        ({"sentences": 2}, [texts[0], texts[3]]),
        ({"sentences": 2, "blocking": 0}, [texts[0], texts[2]]),
        ({}, [texts[0], texts[1], texts[3]]),  # three, as in the lead baseline of the task
    ):
        made = codec(**changes)
        assert made.predictions([example], made.rows([example]), scores) == ["\n".join(expected)]


def test_sentence_vectors_are_read_where_each_encoder_has_seen_the_sentence():
    tokens = tf.constant(np.arange(14, dtype=np.float32).reshape(1, 7, 2))
    batch = {"starts": np.array([[0, 3, -1]]), "ends": np.array([[2, 6, -1]])}
    encoding = Encoding(tokens=tokens, pooled=None, layers=())

    def read(**encoder):
        return extract.Reading(SimpleNamespace(**encoder), of_extraction.Own())(encoding, batch).tokens.numpy()[0, :2]

    assert read(causal=False, depth=2).tolist() == [[0, 1], [6, 7]]
    assert read(causal=True, depth=2).tolist() == [[4, 5], [12, 13]]
    assert read(causal=False, depth=0).tolist() == [[2, 3], [9, 10]]  # token 1; the mean of tokens 4 and 5


def test_padding_does_not_change_scores_but_positions_do():
    tf.random.set_seed(0)
    head, rng = extraction.Head(2), np.random.default_rng(0)
    vectors = rng.normal(size=(1, 3, 16)).astype(np.float32)

    def scores(vectors, starts):
        reading = Encoding(tokens=tf.constant(vectors), pooled=tf.zeros([1, 16]), layers=())
        return head(reading, {"starts": tf.constant([starts])}).numpy()[0]

    alone = scores(vectors, [0, 4, 9])
    padded = scores(np.concatenate([vectors, rng.normal(size=(1, 2, 16)).astype(np.float32)], 1), [0, 4, 9, -1, -1])
    assert padded[:3] == pytest.approx(alone, abs=1e-5) and (padded[3:] < -1e8).all()
    same = scores(np.repeat(vectors[:, :1], 3, axis=1), [0, 4, 9])
    assert len(set(same.round(5))) == 3


def test_the_extraction_loss_matches_a_hand_computed_value():
    logits, tags = tf.constant([[0.0, 2.0, -1e9]]), tf.constant([[1, 0, -1]])
    expected = (np.log(2) + np.log(1 + np.exp(2.0))) / 2
    assert float(extraction.Head(0).loss(logits, {"tags": tags})) == pytest.approx(expected, rel=1e-5)


def test_label_smoothing_matches_a_hand_computed_value():
    logits = np.log(np.array([[[0.7, 0.1, 0.2], [1 / 3] * 3]], np.float32)) + 5.0
    batch = {"targets": np.array([[2, 1]])}
    sharp, smooth = (float(generation.Head(s).loss(logits, batch)) for s in (0.0, 0.3))
    assert sharp == pytest.approx(-np.log(0.1), rel=1e-5)
    assert smooth == pytest.approx(-0.7 * np.log(0.1) - 0.1 * np.log([0.7, 0.1, 0.2]).sum(), rel=1e-5)


def decoding(name, **changes):
    network = model(name).build(SHAPE, WORDS)
    network.encoder.dropout = 0.0
    made = seq2seq.Decoding(network, WORDS, of_seq2seq.Own(dropout=0.0, **changes))
    made.begin()
    return network, made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt", "elmo", "word2vec"])
def test_a_new_decoder_generates_from_any_encoder(name):
    """Greedy decoding token by token agrees with the logits of its whole output, computed at once."""
    network, made = decoding(name)
    inside = {id(v) for v in network.encoder.variables}
    assert made.own and not inside & {id(v) for v in made.own} and len({v.path for v in made.own}) == len(made.own)
    sources = np.array([[2, 40, 41, 42, 3], [2, 50, 3, 0, 0]], np.int32)
    ids = Generator(made, WORDS, Writing())(sources, 6).ids[:, 0]
    targets = np.concatenate([np.full((2, 1), WORDS.cls), ids[:, :-1]], axis=1).astype(np.int32)
    logits = made.decode({"tokens": sources, "targets": targets}).numpy()
    logits[..., [WORDS.pad, WORDS.cls]] = -np.inf
    best = logits.argmax(-1)
    for row in range(2):
        length = np.count_nonzero(ids[row])
        assert ids[row, :length].tolist() == best[row, :length].tolist()
    changed = made.decode({"tokens": np.where(sources == 41, 45, sources), "targets": targets}).numpy()
    assert np.abs(changed - made.decode({"tokens": sources, "targets": targets}).numpy())[0].max() > 1e-6


def test_a_warm_started_decoder_copies_the_encoder_layers():
    network, made = decoding("bert", warm_decoder=1)
    for ours, theirs in zip(made.decoder.stack, network.encoder.stack, strict=True):
        same = {v.path.removeprefix("decoder/"): v for v in ours.weights if "/cross" not in v.path}
        assert len(same) == 12
        for weight in theirs.weights:
            assert np.array_equal(same[weight.path.removeprefix("encoder/")], weight), weight.path
    assert np.array_equal(made.table.token_embedding, network.encoder.token_embedding)
    _, cold = decoding("bert")
    ours, theirs = (part.stack.layer_0.attention.query_key_value.kernel for part in (cold.decoder, cold.encoder))
    assert not np.array_equal(ours, theirs)
    for name, changes in (("elmo", {}), ("bert", {"decoder_layers": 3})):
        with pytest.raises(NotApplicable, match="because the decoder's layers cannot start from the layers"):
            decoding(name, warm_decoder=1, **changes)
    assert len(decoding("bert", decoder_layers=1)[1].decoder.stack.blocks) == 1


def test_encoder_and_decoder_have_separate_learning_rates():
    variables = [tf.Variable(0.0, name=name) for name in ("a", "b")]
    paths = ("encoder/layer_0_x", "decoder/layer_0_x")
    step = SimpleNamespace(
        variables=[SimpleNamespace(path=path, variable=v) for path, v in zip(paths, variables, strict=True)],
        shares=tf.Variable([1.0, 1.0]),
    )
    chosen = of_seq2seq.Own(learning_rate=1.0, warmup=0.1, encoder_rate=0.1, encoder_warmup=0.4)

    def rates(number, **changes):
        ours = seq2seq.rate(step, number, 100, dataclasses.replace(chosen, **changes))
        return [float(share) * ours for share in step.shares.numpy()]

    # Rates rise over 10 and over 40 steps, then decay with the root of the steps: (10 / 40)^.5 and (40 / 90)^.5.
    assert rates(4) == pytest.approx([0.1 * 5 / 40, 0.5])
    assert rates(39) == pytest.approx([0.1, 0.5])
    assert rates(89) == pytest.approx([0.1 * (40 / 90) ** 0.5, (10 / 90) ** 0.5])
    # The second stage and the encoder's warm-up of 20 steps begin after 50 steps.
    assert rates(49, stages=2) == pytest.approx([0.0, (10 / 50) ** 0.5])
    assert rates(54, stages=2) == pytest.approx([0.1 * 5 / 20, (10 / 55) ** 0.5])


@pytest.mark.parametrize(
    "name, value",
    [("stages", 3), ("label_smoothing", 1), ("warm_decoder", 2), ("epochs", 0.5), ("learning_rate", "inf")],
)
def test_settings_out_of_range_are_rejected(name, value):
    with pytest.raises(settings.SettingError, match=f"{name}={value} is not valid"):
        settings.changed(of_seq2seq.Own(), {name: value})


def test_settings_are_recorded_only_where_they_apply():
    found = settings.recorded(settings.defaults(Form.GENERATION, "seq2seq"))
    assert {"encoder_rate", "stages"} <= set(found) and not {"blocking", "label_smoothing"} & set(found)
    assert "stages" not in settings.recorded(settings.defaults(Form.GENERATION, "finetune"))
    assert settings.defaults(Form.GENERATION, "extract").length == 512


@pytest.mark.parametrize("adaptation", ["extract", "seq2seq"])
def test_extract_and_seq2seq_reject_other_tasks(adaptation):
    with pytest.raises(NotApplicable, match=f"because the adaptation {adaptation} is for generation tasks"):
        heads.of(Form.TAGGING, adaptation)
    with pytest.raises(NotApplicable, match="because the target text is not part of the source"):
        extraction.Codec(load("multi30k"), TOKENIZER, of_extraction.Own(), [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "task, adaptation, changes",
    [("aeslc", "extract", {}), ("multi30k-en-mw", "seq2seq", {"warm_decoder": 1, "label_smoothing": 0.1})],
)
def test_cells_run_from_data_to_a_score(tmp_path, task, adaptation, changes):
    microworld.make(tmp_path / "data")
    tokenizer = Tokenizer.load(corpora.tokenizer([tmp_path / "data" / "corpus"], "wordpiece", 400))
    shape = dataclasses.replace(SHAPE, layers=1)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=tokenizer)
    chosen = {"epochs": 2, "length": 64, "target_length": 16, "beam": 1} | changes
    chosen = settings.changed(settings.defaults(Form.GENERATION, adaptation), chosen)
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"),
        task=task,
        task_version=1,
        form=Form.GENERATION,
        data_sha256="x",
        adaptation=adaptation,
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
        limit=32,
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.cost["steps"] > 0 and len(result.curve) == 2
    assert result.curve[-1]["loss"] < result.curve[0]["loss"]
    assert result.cost["flops"] > 0 and result.cost["flops_evaluate"] > 0
    encoder = model("bert").describe(shape, tokenizer.vocabulary).parameters().total
    assert (result.cost["parameters"] > encoder) == (adaptation == "seq2seq")
    if adaptation == "extract":  # sentences of the e-mail score at most like the oracle's
        oracle = cells.run(dataclasses.replace(cell, row=Row(name="oracle", kind="baseline")), context)
        assert 0 < result.headline["value"] <= oracle.headline["value"] + 5


def test_batches_mark_missing_sentences_with_minus_one():
    rows = codec().rows([Example(id=str(i), inputs=(text,), gold=("one",)) for i, text in enumerate((TEXT, "One."))])
    batch = stack(rows)
    assert batch["starts"][1].tolist() == [0, -1, -1, -1] and batch["tags"][1].tolist() == [1, -1, -1, -1]
