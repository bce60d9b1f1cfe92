"""Unsupervised translation: which texts are seen, rows and losses against values by hand, and two toy languages."""

import dataclasses
import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import channels, settings
from ptmbench.bench.adapt.built import adapted
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.seq2seq import topped_flops
from ptmbench.bench.adapt.unsupervised import Own
from ptmbench.bench.adapt.unsupervised import head as monolingual
from ptmbench.bench.adapt.unsupervised import network as unsupervised
from ptmbench.bench.adapt.unsupervised.head import Text
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import pretrain
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bleu import bleu
from ptmbench.tasks.task import Example, Mention

WORDS = Vocabulary(size=60)
SMALL = Size(layers=1, width=16, heads=2, inner=24, length=12)
TOKENIZER = Tokenizer.train("wordpiece", ["one two three four five eins zwei drei vier"] * 20, 90)
HERE, THERE = monolingual.symbols(WORDS)


def pair(number, source, target):
    return Example(id=str(number), inputs=(source,), gold=(target,))


def codec(train, **changes):
    return monolingual.Codec(load("multi30k"), TOKENIZER, Own(**changes), train)


def test_both_sides_of_a_pair_are_never_seen():
    """Each of 40 examples, many of them repeated, gives one side. No pair gives both."""
    rng = np.random.default_rng(1)
    kinds = [("one two", "eins zwei"), ("three", "drei"), ("four four", "vier vier"), ("five one", "zwei eins")]
    train = [pair(i, *kinds[k]) for i, k in enumerate(rng.integers(4, size=40))]
    rows = codec(train).training_rows(train)
    seen = [(TOKENIZER.decode(row.note.ids), row.note.language) for row in rows]
    assert len(rows) == 40 and {language for _, language in seen} == {0, 1}
    for source, target in kinds:
        assert ((source, 0) in seen) != ((target, 1) in seen)
    for row, example in zip(rows, train, strict=True):
        sides = (example.inputs[0], example.gold[0])
        own = TOKENIZER.encode([sides[row.note.language]])[0]
        assert row.note.ids.tolist() == own == row.arrays["targets"][1:-1].tolist()
        assert row.arrays["tokens"].tolist()[1:-2] == own  # between [CLS] and [SEP], before the language symbol


def test_pairs_are_translated_in_the_direction_of_the_task():
    train = [pair(0, "one", "eins"), pair(1, "two", "zwei")]
    made = codec(train, length=6)
    (row,) = made.rows([pair(0, "one two three four five", "eins zwei drei")])
    vocabulary, symbols = TOKENIZER.vocabulary, monolingual.symbols(TOKENIZER.vocabulary)
    source, target = TOKENIZER.encode(["one two three four five", "eins zwei drei"])
    expected = [vocabulary.cls, *source[:3], vocabulary.sep, symbols[1]]  # six tokens, including the language symbol
    assert row.arrays["tokens"].tolist() == expected
    assert row.arrays["targets"].tolist() == [vocabulary.cls, *target, vocabulary.sep]
    assert row.arrays["denoising"] == 0.0


def test_unsuitable_tasks_and_training_sets_give_the_reason():
    with pytest.raises(NotApplicable, match="because the task is not to translate"):
        monolingual.Codec(load("aeslc"), TOKENIZER, Own(), [])
    train = [pair(0, "one", "eins")]
    with pytest.raises(NotApplicable, match="because the training set has no text of one"):
        codec(train).training_rows(train)


def test_noise_moves_drops_and_blanks_whole_words():
    ids = np.arange(40, 60, dtype=np.int32)
    text = Text(ids, np.arange(20) % 2 == 0, 0)  # ten words of two pieces
    rng = np.random.default_rng(0)
    still = Own(drop=0.0, blank=0.0, shuffle=0)
    assert unsupervised.noise(text, rng, still, WORDS) == ids.tolist()
    far = []
    for _ in range(200):
        found = unsupervised.noise(text, rng, Own(drop=0.0, blank=0.0, shuffle=3), WORDS)
        assert sorted(found) == ids.tolist() and all(a + 1 == b for a, b in zip(found[::2], found[1::2], strict=True))
        far.append(max(abs(place - (word - 40) // 2) for place, word in enumerate(found[::2])))
    assert max(far) == 3 and min(far) < 3
    dropped = [unsupervised.noise(text, rng, Own(drop=0.3, blank=0.0, shuffle=0), WORDS) for _ in range(200)]
    assert all(found == sorted(found) and len(found) % 2 == 0 for found in dropped)
    assert np.mean([len(found) for found in dropped]) == pytest.approx(14, abs=0.8)  # four standard deviations
    blanked = np.array([unsupervised.noise(text, rng, Own(drop=0.0, blank=0.3, shuffle=0), WORDS) for _ in range(200)])
    where = blanked == WORDS.mask
    assert (where[:, ::2] == where[:, 1::2]).all() and where.mean() == pytest.approx(0.3, abs=0.041)
    assert (np.where(where, ids, blanked) == ids).all()
    lone = Text(ids[:1], np.array([True]), 0)
    assert {tuple(unsupervised.noise(lone, rng, Own(drop=0.99, blank=0.0), WORDS)) for _ in range(20)} == {(40,)}


def test_a_step_combines_back_translation_and_denoising():
    texts = [
        Text(np.array([41, 42, 43], np.int32), np.ones(3, bool), 0),
        Text(np.array([51], np.int32), np.ones(1, bool), 1),
    ]
    rows = [
        monolingual.row(WORDS, Own(), t.in_language(t.language, t.ids), t.ids, t.language, i, note=t)
        for i, t in enumerate(texts)
    ]
    calls = []

    def write(how, inputs, longest, seed):
        calls.append((how, inputs["tokens"].tolist(), longest, seed))
        return np.array([[52, 53, 3], [44, 3, 0]], np.int32)

    met, constrains = [], []
    decoding = SimpleNamespace(meet=met.extend, constrains=SimpleNamespace(assign=constrains.append))
    adapted = SimpleNamespace(
        vocabulary=WORDS, write=write, decoding=decoding, forward_flops=lambda rows: 7.0 * len(rows)
    )
    made, flops = unsupervised.make(adapted, rows, Own(denoising=0.5, drop=0.0, blank=0.0, shuffle=0), (3, 9))
    # Each text is translated into the other language, to at most 1.5 times the longest length plus five tokens.
    assert calls == [(Writing(), [[2, 41, 42, 43, 3, THERE, 0, 0], [2, 51, 3, HERE, 0, 0, 0, 0]], 9, (3 << 32) + 9)]
    assert flops == 14.0 and met == texts and constrains == [1.0, 0.0]
    found = [(r.arrays["tokens"].tolist(), r.arrays["targets"].tolist(), float(r.arrays["denoising"])) for r in made]
    assert found == [
        ([2, 52, 53, 3, HERE], [2, 41, 42, 43, 3], 0.0),
        ([2, 44, 3, THERE], [2, 51, 3], 0.0),
        ([2, 41, 42, 43, 3, HERE], [2, 41, 42, 43, 3], 0.5),
        ([2, 51, 3, THERE], [2, 51, 3], 0.5),
    ]
    made, _ = unsupervised.make(adapted, rows, Own(denoising=0.0, back_sample=1, constrained=10), (3, 10))
    assert constrains[2:] == [0.0, 0.0] and len(made) == 2 and calls[-1][0].sample and calls[-1][3] != calls[0][3]
    again, _ = unsupervised.make(adapted, rows, Own(), (3, 11))
    other, _ = unsupervised.make(adapted, rows, Own(), (3, 11))
    assert [r.arrays["tokens"].tolist() for r in again] == [r.arrays["tokens"].tolist() for r in other]


def test_texts_have_their_own_language_and_the_picture_of_their_example():
    """Back-translations have them too. Generated texts have no entity mentions, so the other texts have none either."""
    knowing = TOKENIZER.with_symbols({"languages": ["de", "en"], "entities": ["Q1"]}, {"entities": 4, "regions": 2})
    one, two = (dataclasses.replace(pair(i, *texts), channels={
        "languages": ("en",), "entities": (Mention(0, 0, 3, "Q1"),), "regions": np.full((1, 2), i + 1.0),
        "boxes": np.ones((1, 4)),
    }) for i, texts in enumerate([("one", "eins"), ("two", "zwei drei")]))  # fmt: skip
    own = Own(drop=0.0, blank=0.0, shuffle=0)
    made = monolingual.Codec(load("multi30k"), knowing, own, [one, two])
    german, english = (knowing.numbers["languages"][name] for name in ("de", "en"))

    def annotated(row):
        arrays = row.arrays
        assert len(arrays["languages"]) == len(arrays["tokens"]) and arrays["languages"][-1] == 0  # at the symbol
        assert not arrays["entities"].any() and "segments" not in arrays
        return set(arrays["languages"][:-1].tolist()), float(arrays["regions"][0, 0])

    rows = made.training_rows([one, two])
    assert [annotated(row) for row in rows] == [({english}, 1.0), ({german}, 2.0)]
    assert [annotated(row) for row in made.rows([one, two])] == [({english}, 1.0), ({english}, 2.0)]

    calls, vocabulary = [], knowing.vocabulary

    def write(how, inputs, longest, seed):
        calls.append(inputs)
        return np.full((2, 2), vocabulary.first, np.int32)

    decoding = SimpleNamespace(meet=list, constrains=SimpleNamespace(assign=float))
    counted = []
    adapted = SimpleNamespace(vocabulary=vocabulary, write=write, decoding=decoding,
                              forward_flops=lambda rows: counted.extend(rows) or 1.0)  # fmt: skip
    made, _ = unsupervised.make(adapted, rows, own, (0, 0))
    languages = calls[0]["languages"]
    assert [set(row[row > 0].tolist()) for row in languages] == [{english}, {german}]
    assert [annotated(row) for row in made] == [({german}, 1.0), ({english}, 2.0), ({english}, 1.0), ({german}, 2.0)]
    assert [float(row.arrays["regions"][0, 0]) for row in counted] == [1.0, 2.0]  # pictures cost, too


def test_the_language_of_the_source_affects_training_and_generation_alike():
    """For XLM with a new decoder, logits in training and in generation are the same.

    They change with the language of the source.
    """
    knowing = TOKENIZER.with_symbols({"languages": ["de", "en"]}, {})
    own = settings.changed(settings.defaults(Form.GENERATION, "unsupervised"), {"length": 12, "target_length": 6})
    network = adapted("xlm", SMALL, knowing, Form.GENERATION, "unsupervised", own.label_smoothing, own)
    rng = np.random.default_rng(0)
    for variable in (*network.pretrained, *network.own):
        variable.assign(rng.normal(0.0, 0.5, variable.shape))
    text = Text(np.array(knowing.encode(["one two"])[0], np.int32), np.ones(2, bool), 0)
    seen_logits = []
    for number in (0, 1, 2):
        whole = channels.Text([], {"languages": channels.Annotation(number, np.zeros(0, np.int32))})
        row = monolingual.row(knowing.vocabulary, own, whole.filled(text.ids.tolist()), text.ids.tolist(), 1, 0)
        batch = stack([row])
        logits = network.decoding.decode(batch).numpy()
        begun, writer = tf.fill([1, 1, 1], knowing.vocabulary.cls), network.decoding.writer
        memory = writer.begin(tf.constant(batch["tokens"]), languages=tf.constant(batch["languages"]))
        written = writer.step(*memory, begun, tf.fill([1, 1, 1], True))[0].numpy()
        assert written[0, 0] == pytest.approx(logits[0, 0], abs=1e-4)
        seen_logits.append(logits)
    assert min(np.abs(one - other).max() for one, other in zip(seen_logits, seen_logits[1:], strict=False)) > 1e-3


def test_the_loss_matches_a_hand_computed_value():
    """Two tokens of a translation with p = 1/4 each, and one of denoising with p = 1/8 and the weight 0.3."""
    logits = np.log(np.array([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], [[0.75, 0.125, 0.125], [1.0, 1.0, 1.0]]]))
    logits = np.pad(logits, [(0, 0), (0, 1), (0, 0)]).astype(np.float32)
    batch = {"targets": np.array([[2, 2, 1], [2, 1, 0]]), "denoising": np.array([0.0, 0.3], np.float32)}
    loss = float(monolingual.Head(0.0).loss(logits, batch))
    assert loss == pytest.approx((np.log(4) + np.log(4)) / 2 + 0.3 * np.log(8), rel=1e-5)
    alone = {name: array[:1] for name, array in batch.items()}
    assert float(monolingual.Head(0.0).loss(logits[:1], alone)) == pytest.approx(np.log(4), rel=1e-5)


def built(name, **changes):
    network = model(name).build(SMALL, WORDS)
    network.encoder.dropout = 0.0
    made = unsupervised.Decoding(network, WORDS, Own(dropout=0.0, **changes))
    rng = np.random.default_rng(2)
    for variable in [*network.loss.trainable_variables, *made.own]:
        variable.assign(rng.normal(float(variable.path.endswith("_scale")), 0.5, variable.shape))
    return network, made


def test_the_decoder_starts_with_the_language_symbol_and_padding_is_masked():
    network, made = built("mass")
    tokens = np.array([[2, 41, 42, 3, THERE], [2, 43, 3, HERE, 0]], np.int32)
    plain, targets = np.where(tokens > 40, tokens, tokens * (tokens < 5)), np.array([[2, 50, 51], [2, 52, 3]], np.int32)
    found = made.decode({"tokens": tokens, "targets": targets}).numpy()
    begun = np.where(targets == 2, [[THERE], [HERE]], targets)
    assert found == pytest.approx(network.decode({"tokens": plain, "targets": begun}).numpy(), abs=1e-5)


@pytest.mark.slow
def test_a_batch_of_both_languages_is_decoded_as_each_alone():
    network, made = built("mass")
    made.begin()
    tokens = np.array([[2, 41, 42, 3, THERE], [2, 43, 3, HERE, 0]], np.int32)
    both = Generator(made, WORDS, Writing(beam=2))(tokens, 6)
    alone = Generator(network, dataclasses.replace(WORDS, cls=THERE), Writing(beam=2))(tokens[:1, :4], 6)
    assert both.ids[0].tolist() == alone.ids[0].tolist()


def test_back_translations_use_only_tokens_of_their_language():
    network, made = built("mass")
    made.begin()
    texts = [(0, [40, 41, 42, 50]), (1, [51, 52, 50]), (1, [53])]
    made.meet([Text(np.array(ids, np.int32), np.ones(len(ids), bool), language) for language, ids in texts])
    tokens = np.array([[2, 41, 42, 3, THERE], [2, 43, 3, HERE, 0]], np.int32)

    def scores(decoding):
        begun = tf.fill([2, 1, 1], WORDS.cls)
        if decoding.writer is None:
            return decoding.decode({"tokens": tokens, "targets": begun[:, 0]}).numpy()
        return decoding.writer.step(*decoding.writer.begin(tokens), begun, tf.fill([2, 1, 1], True))[0].numpy()

    free, special = scores(made), set(range(WORDS.first))
    assert np.abs(free).max() < 1e3
    again = unsupervised.Decoding(SimpleNamespace(decode=network.decode, writer=None), WORDS, Own())
    again.unmet.assign(made.unmet)
    for decoding in (made, again):  # without a writer, `decode` applies the constraint
        decoding.constrains.assign(1.0)
        bound = scores(decoding)
        for row, known in enumerate(({50, 51, 52, 53}, {40, 41, 42, 50})):
            assert set(np.flatnonzero(bound[row, 0] > -1e8)) == special | known
        decoding.constrains.assign(0.0)
        assert scores(decoding) == pytest.approx(free, abs=1e-4)
    made.begin()
    assert (made.unmet.numpy()[:, WORDS.first :] < -1e8).all() and (made.unmet.numpy()[:, : WORDS.first] == 0).all()


def test_an_encoder_only_model_gets_a_decoder_with_its_own_layers():
    network, made = built("roberta")
    made.begin()
    halves = made.under.decoder, network.encoder
    ours, theirs = (half.stack.layer_0.attention.query_key_value.kernel for half in halves)
    assert np.array_equal(ours.numpy(), theirs.numpy()) and made.own
    described = model("roberta").describe(SMALL, WORDS)
    assert made.counts(described).flops.func.__self__ is made.under
    cold = unsupervised.Decoding(network, WORDS, Own(warm_decoder=0, decoder_layers=2))
    assert len(cold.under.decoder.stack.blocks) == 2
    with pytest.raises(NotApplicable, match="no-warm-decoder|layers of this encoder"):
        built("elmo")
    tokens = tf.constant([[2, 41, 3, HERE]])
    assert made.decode({"tokens": tokens, "targets": tf.constant([[2, 50]])}).shape == (1, 2, 60)


@pytest.mark.parametrize("name", ["mass", "roberta"])
def test_a_dry_run_counts_back_translation_and_both_rows(name):
    """By hand from one forward pass: three for each training row, and the cost of greedy decoding."""
    module, chosen = model(name), settings.defaults(Form.GENERATION, "unsupervised")
    shape, words, length = dataclasses.replace(SMALL, inner=4 * SMALL.width), Vocabulary(size=50), chosen.length

    def decode(targets):
        if name == "mass":
            return module.describe(shape, words).decode_flops(length, targets)
        return topped_flops(module.describe(shape, words), words.size, shape, length, targets)

    start, half, whole = (decode(n) for n in (0, chosen.target_length / 2, chosen.target_length))
    for denoising, rows in ((1.0, 2), (0.0, 1)):
        network = Network(module, shape, words)
        learning, _ = dataclasses.replace(chosen, denoising=denoising).flops(network, Form.GENERATION)
        assert learning == pytest.approx(rows * 3 * whole + start + 2 * (half - start))


def planted(folder, counts):
    """Writes files of two languages that share names and word order, but no other word.

    "nb doc thd nc" translates to "nb koc mid nc". A name is followed by one of two deeds and one of two things, so
    knowledge of the language alone gives about half of them.
    """

    def lines(count, seed):
        rng = np.random.default_rng(seed)
        who = rng.integers(8, size=count)
        deed, thing, other = ((who + rng.choice(steps, count)) % 8 for steps in ((0, 1), (0, 2), (1, 3)))
        for stems in (("n", "do", "th", "n"), ("n", "ko", "mi", "n")):
            kinds = zip(stems, (who, deed, thing, other), strict=True)
            words = [[f"{stem}{'abcdefgh'[k]}" for k in numbers] for stem, numbers in kinds]
            yield [" ".join(line) for line in zip(*words, strict=True)]

    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate(counts.items()):
        for language, texts in zip(("aa", "bb"), lines(count, seed), strict=True):
            (folder / f"{name}.{language}").write_text("\n".join(texts) + "\n")


@pytest.mark.slow
def test_two_toy_languages_are_learnt_from_monolingual_texts(tmp_path, monkeypatch):
    """MASS learns from texts of both and no pair. It beats copying the source, and knowing only the names."""
    planted(tmp_path / "data/plain/aa-bb", {"train": 1600, "valid": 60, "test": 100})
    planted(tmp_path / "corpus", {"one": 2000, "other": 2000})
    for half in ("one.bb", "other.aa"):  # no text remains in both languages
        (tmp_path / "corpus" / half).unlink()
    tokenizer = Tokenizer.train("word", [file.read_text() for file in (tmp_path / "corpus").iterdir()], 100)
    monkeypatch.setitem(model("mass").SIZES, "tiny", Size(layers=1, width=48, heads=4, inner=96, length=16))
    first = pretrain.pretrain(
        "mass",
        "tiny",
        corpus=corpora.load(tuple(map(str, sorted((tmp_path / "corpus").iterdir()))), tokenizer),
        tokenizer=tokenizer,
        budget=Budget(steps=300),
        out=tmp_path / "first",
        recipe=recipe_of({"batch": 32, "length": 12, "learning_rate": 3e-3, "dropout": 0.0}),
    )
    task, shape = load("plain-aa-bb"), Size(**first.about["shape"])
    context = Context(
        data=tmp_path / "data",
        out=tmp_path,
        shape=shape,
        tokenizer=tokenizer,
        weights=checkpoint.read(tmp_path / "first"),
    )
    changes = {"epochs": 10, "batch": 32, "length": 12, "target_length": 12, "beam": 1, "patience": 9}
    changes |= {"learning_rate": 3e-3, "dropout": 0.0, "shuffle": 1, "drop": 0.05}  # sentences have only four words
    chosen = settings.changed(settings.defaults(Form.GENERATION, "unsupervised"), changes)
    cell = Cell(
        row=Row(name="mass", kind="pretrained", model="mass", size="tiny"),
        task=task.name,
        task_version=1,
        form=Form.GENERATION,
        data_sha256="x",
        adaptation="unsupervised",
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    with gzip.open(tmp_path / result.predictions["file"], "rt") as file:
        rows = [json.loads(line) for line in file]
    pairs = [(row["prediction"].split(), row["gold"][0].split()) for row in rows]
    middle = np.mean([guess[k : k + 1] == gold[k : k + 1] for guess, gold in pairs for k in (1, 2)])
    test = task.examples(tmp_path / "data", "test")
    copied = bleu([e.gold for e in test], [e.inputs[0] for e in test])["bleu"]
    assert result.scores["bleu"]["value"] > copied + 20
    assert middle > 0.58  # of 200 words; knowing only the names gives half of them
    assert result.cost["steps"] == 10 * 50 and result.cost["flops"] > 0
