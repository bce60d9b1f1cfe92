"""Text generation: search against brute force on a toy network, and the same texts with other batches or a cache."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.adapted import Adapted, writing_of
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.engine.generate.beam import largest, source_attention
from ptmbench.bench.engine.generate.sampling import draws
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.models.layers.operations import HIDDEN, attention, collect_attention
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form

WORDS = Vocabulary(size=7)  # [PAD], [UNK], [CLS], [SEP], [MASK] and two more
SIZE = Size(layers=1, width=16, heads=2, inner=32, length=40)
SOURCES = np.array([[2, 5, 6, 3], [2, 6, 3, 0], [2, 4, 1, 3], [2, 5, 5, 3]], np.int32)


def toy(seed: int = 0, sharpness: float = 2.0) -> SimpleNamespace:
    """A network whose next token depends on the source and on all previous tokens and their order."""
    rng = np.random.default_rng(seed)
    table, source, out = (rng.normal(size=(WORDS.size, n)).astype(np.float32) for n in (8, 8, 8))

    def decode(batch, seed=None):
        read = tf.gather(source * (np.arange(WORDS.size) > 0)[:, None], batch["tokens"])
        order = tf.cast(tf.range(1, tf.shape(batch["targets"])[1] + 1), tf.float32)[:, None]
        state = tf.cumsum(tf.gather(table, batch["targets"]) / order, axis=1) + tf.reduce_sum(read, 1)[:, None]
        return sharpness * tf.matmul(tf.tanh(state), out, transpose_b=True)

    return SimpleNamespace(decode=decode, writer=None)


def log_p(network, source, texts) -> list[float]:
    """ln p of each of ``texts`` after [CLS], from one pass over the whole text."""
    most = max(map(len, texts))
    targets = np.array([[WORDS.cls, *text, *[0] * (most - len(text))] for text in texts], np.int32)
    tokens = np.repeat(source[None], len(texts), axis=0)
    logits = network.decode({"tokens": tokens, "targets": targets}).numpy().astype(np.float64)
    each = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return [sum(each[row, place, token] for place, token in enumerate(text)) for row, text in enumerate(texts)]


def every_text(longest):
    """All texts that end with [SEP], and all that are truncated at ``longest`` tokens."""
    words = [id for id in range(WORDS.size) if id not in (WORDS.pad, WORDS.cls, WORDS.sep)]
    for length in range(longest + 1):
        for text in itertools.product(words, repeat=length):
            if length < longest:
                yield (*text, WORDS.sep)
            else:
                yield text


def plain(ids) -> tuple:
    return tuple(int(id) for id in ids if id)


@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_a_beam_as_wide_as_the_search_space_finds_the_best_texts(penalty):
    """Brute force over all 256 + 64 + 16 + 4 + 1 texts of at most 4 tokens."""
    found, texts = Generator(toy(), WORDS, Writing(beam=350, length_penalty=penalty))(SOURCES, 4), list(every_text(4))
    for row, source in enumerate(SOURCES):
        each = log_p(toy(), source, texts)
        scores = {text: value / len(text) ** penalty for text, value in zip(texts, each, strict=True)}
        best = sorted(scores, key=scores.get, reverse=True)[:5]
        assert [plain(ids) for ids in found.ids[row, :5]] == best
        assert found.scores[row, :5] == pytest.approx([scores[text] for text in best], abs=1e-4)


def by_hand(network, source, longest, beam, penalty, repeats=0):
    """Beam search as the module describes it, with lists instead of arrays."""
    going, ended = [(0.0, ())], []
    for length in range(1, longest + 1):
        found = []
        for score, text in going:
            targets = np.array([[WORDS.cls, *text]], np.int32)
            logits = network.decode({"tokens": source[None], "targets": targets}).numpy()[0, -1].astype(np.float64)
            logits -= np.log(np.exp(logits).sum())
            for token in range(WORDS.size):
                whole = (WORDS.cls, *text, token)
                runs = [whole[i : i + repeats] for i in range(len(whole) - repeats + 1)] if repeats else []
                if token not in (WORDS.pad, WORDS.cls) and (not repeats or runs[-1] not in runs[:-1]):
                    found.append((score + logits[token], (*text, token)))
        found.sort(key=lambda pair: -pair[0])
        for score, text in found[:beam]:
            if text[-1] == WORDS.sep or length == longest:
                ended.append((score / length**penalty, text))
        going = [pair for pair in found[: 2 * beam] if pair[1][-1] != WORDS.sep][:beam]
        if len(ended) >= beam:
            break
    return max(ended, key=lambda pair: pair[0])


@pytest.mark.parametrize(("beam", "repeats"), [(1, 0), (2, 0), (4, 0), (3, 2), (1, 1)])
def test_beam_search_follows_the_description_of_the_module(beam, repeats):
    network = toy(3, sharpness=1.0)
    found = Generator(network, WORDS, Writing(beam=beam, no_repeat_ngram=repeats))(SOURCES, 8)
    for row, source in enumerate(SOURCES):
        score, text = by_hand(network, source, 8, beam, 1.0, repeats)
        assert plain(found.ids[row, 0]) == text
        assert found.scores[row, 0] == pytest.approx(score, abs=1e-4)


def test_no_ngram_of_blocked_length_is_repeated():
    found = Generator(toy(5), WORDS, Writing(beam=2, no_repeat_ngram=3))(SOURCES, 12)
    for ids in found.ids.reshape(-1, found.ids.shape[-1]):
        runs = [plain(ids)[i : i + 3] for i in range(len(plain(ids)) - 2)]
        assert len(set(runs)) == len(runs)


def fixed(*steps):
    """A network that ignores its inputs. ``steps`` has the logits of some tokens per position. The others are far
    lower."""
    table = np.full((len(steps), WORDS.size), -50.0, np.float32)
    for place, step in enumerate(steps):
        for token, value in step.items():
            table[place, token] = value

    def decode(batch, seed=None):
        length = tf.shape(batch["targets"])[1]
        row = tf.gather(table, tf.minimum(tf.range(length), len(steps) - 1))[None]
        return tf.repeat(row, tf.shape(batch["targets"])[0], axis=0)

    return SimpleNamespace(decode=decode, writer=None)


def test_texts_may_end_at_once_or_never():
    ids = Generator(fixed({3: 9.0}), WORDS, Writing())(SOURCES[:1], 5).ids
    assert ids.tolist() == [[[3]]]  # nothing is computed after it
    ids = Generator(fixed({5: 9.0}), WORDS, Writing())(SOURCES[:1], 5).ids
    assert ids.tolist() == [[[5, 5, 5, 5, 5]]]
    ids = Generator(fixed({5: 9.0, 3: 8.0}), WORDS, Writing())(SOURCES[:1], 1).ids
    assert ids.tolist() == [[[5]]]
    ids = Generator(fixed({0: 9.0, 2: 9.0, 6: 1.0}), WORDS, Writing())(SOURCES[:1], 2).ids
    assert ids.tolist() == [[[6, 6]]]  # padding and [CLS] are never generated


def test_the_length_penalty_decides_between_short_and_long_texts():
    """After token 5, the text ends with probability q = 1 / (1 + e^-0.3), or continues with 6 and then ends, with 1 -
    q. The shorter text is likelier. With a penalty of 2, the longer one wins: its ln p / 9 exceeds the ln p / 4."""
    odds = fixed({5: 0.0}, {3: 0.3, 6: 0.0}, {3: 0.0})
    short, long = (5, 3), (5, 6, 3)
    for penalty, wins in ((0.0, short), (2.0, long)):
        found = Generator(odds, WORDS, Writing(beam=2, length_penalty=penalty))(SOURCES[:1], 6)
        assert plain(found.ids[0, 0]) == wins
        q = 1 / (1 + np.exp(-0.3))
        expected = {short: np.log(q) / 2**penalty, long: np.log(1 - q) / 3**penalty}
        assert found.scores[0] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-4)


def test_the_lower_id_wins_a_tie():
    ids = Generator(fixed({4: 1.0, 5: 1.0, 6: 1.0}, {3: 1.0}), WORDS, Writing(beam=2))(SOURCES[:1], 4).ids
    assert ids.tolist() == [[[4, 3], [5, 3]]]


@pytest.mark.parametrize("words", [7, 97, 640, 1022, 30522])
def test_the_largest_of_the_groups_are_the_largest_of_all(words):
    """The reference is a stable sort. Inputs with few different numbers have many ties."""
    rng = np.random.default_rng(words)
    for logits in (rng.normal(size=(2, 3, words)), rng.integers(0, 4, (2, 3, words)), np.full((2, 3, words), -1e9)):
        values, ids = largest(tf.constant(logits, tf.float32), 6)
        expected = np.argsort(-logits, axis=-1, kind="stable")[..., :6]
        assert np.array_equal(ids, expected)
        assert values.numpy() == pytest.approx(np.take_along_axis(logits, expected, -1), rel=1e-6)


def attending() -> tuple[SimpleNamespace, np.ndarray, np.ndarray]:
    """A network whose last token attends to the source with two heads, and its tables: the scores [H, V, V] of each
    source token for each last token, and the next-token logits [V, H, V, V] for each last token, head and source
    token."""
    rng = np.random.default_rng(4)
    scores, out = rng.normal(size=(2, 7, 7)) * 2, rng.normal(size=(7, 2, 7, 7))
    keys, one_hot = tf.constant(scores.transpose(0, 2, 1), tf.float32), np.eye(7, dtype=np.float32)

    def begin(tokens):
        own = tf.transpose(tf.gather(keys, tokens, axis=1), [1, 0, 2, 3])  # [B, H, T, V]
        values = tf.repeat(tf.gather(one_hot, tokens)[:, None], 2, axis=1)
        return (own, values, tf.where(tokens > 0, 0.0, HIDDEN)[:, None, None]), tf.zeros([tf.shape(tokens)[0], 2, 0, 1])

    def step(memory, past, written, seen):
        last = tf.gather(one_hot, written[:, :, -1])  # [B, K, V]
        context = attention(tf.repeat(last[:, None], 2, axis=1), *memory, 0.0, None, 0)
        context = tf.reshape(context, [-1, last.shape[1], 2, 7])
        logits = tf.einsum("bku,bkhv,uhvw->bkw", last, context, tf.constant(out, tf.float32))
        return logits, tf.concat([past, tf.zeros([tf.shape(past)[0], 2, last.shape[1], 1])], axis=2)

    return SimpleNamespace(decode=step, writer=SimpleNamespace(begin=begin, step=step)), scores, out


@pytest.mark.parametrize("coverage", [0.0, 0.3, 2.0])
def test_the_coverage_penalty_equals_brute_force(coverage):
    """Computes all texts of at most 3 tokens in NumPy. The beam is as wide as the search space."""
    network, scores, out = attending()
    found = Generator(network, WORDS, Writing(beam=90, coverage=coverage))(SOURCES, 3)
    for row, source in enumerate(SOURCES):
        source, values = source[source > 0], {}
        for text in every_text(3):
            total, looked = 0.0, np.zeros(len(source))
            for last, token in itertools.pairwise((WORDS.cls, *text)):
                weights = np.exp(scores[:, last][:, source])
                weights /= weights.sum(-1, keepdims=True)  # [H, T]
                logits = np.einsum("ht,htw->w", weights, out[last][:, source])
                total += logits[token] - np.log(np.exp(logits).sum())
                looked += weights.mean(0)
            values[text] = total / len(text) + coverage * np.log(np.minimum(looked, 1.0)).sum()
        best = sorted(values, key=values.get, reverse=True)[:5]
        assert [plain(ids) for ids in found.ids[row, :5]] == best
        assert found.scores[row, :5] == pytest.approx([values[text] for text in best], abs=1e-4)


WAYS = [
    Writing(),
    Writing(beam=3, no_repeat_ngram=2),
    Writing(beam=3, sample=True, temperature=1.5, top_k=5, top_p=0.9),
]


@pytest.mark.parametrize("writing", WAYS, ids=["greedy", "beam", "sample"])
def test_other_rows_and_padding_do_not_change_texts_and_one_graph_is_traced(writing, monkeypatch):
    traces, real = [], tf.function

    def counted(function, **options):
        return real(lambda *a: traces.append(1) or function(*a), **options)

    monkeypatch.setattr(tf, "function", counted)
    write = Generator(toy(1), WORDS, writing)
    whole = write(SOURCES, 9)
    turned = write(SOURCES[::-1].copy(), 9)
    padded = write(np.pad(SOURCES, [(0, 0), (0, 3)]), 9)
    for other in (turned.ids[::-1], padded.ids):
        assert np.array_equal(whole.ids, other)
    for row in range(len(SOURCES)):
        alone = write(SOURCES[row : row + 1], 9).ids[0]
        assert [plain(ids) for ids in alone] == [plain(ids) for ids in whole.ids[row]]
    for threads in (1, 2, 99):  # each thread generates texts for some of the rows
        monkeypatch.setattr("ptmbench.bench.environment.threads", lambda: threads)  # noqa: B023
        apart = write(SOURCES, 9)
        assert np.array_equal(whole.ids, apart.ids)
        assert apart.scores == pytest.approx(whole.scores, abs=1e-4)
    assert len(traces) == 1


@pytest.mark.parametrize("device, sizes", [("CPU", [1, 1, 2]), ("GPU", [4])])
def test_an_accelerator_decodes_all_rows_at_once(device, sizes, monkeypatch):
    write, batch_sizes = Generator(toy(1), WORDS, Writing()), []
    whole, alone = write(SOURCES, 9), write._write
    monkeypatch.setattr("ptmbench.bench.environment.threads", lambda: 3)
    monkeypatch.setattr("ptmbench.bench.engine.generate.accelerated", lambda: device == "GPU")
    monkeypatch.setattr(
        write, "_write", lambda given, **how: batch_sizes.append(len(given["tokens"])) or alone(given, **how)
    )
    assert np.array_equal(write(SOURCES, 9).ids, whole.ids)
    assert sorted(batch_sizes) == sizes


def test_samples_follow_the_distribution_and_the_seed():
    """Compares 2000 first tokens with the probabilities after temperature, top k and top p, by hand. The logits 2, 1,
    0, -1 at temperature 2 are 1, .5, 0, -.5. The best three have p = .506, .307, .186, and 0.7 needs two of them."""
    network = fixed({4: 2.0, 5: 1.0, 6: 0.0, 3: -1.0})
    for settings, expected in (
        ({}, {4: 0.6439, 5: 0.2369, 6: 0.0871, 3: 0.0321}),
        ({"temperature": 2.0, "top_k": 3}, {4: 0.5065, 5: 0.3072, 6: 0.1863}),
        ({"temperature": 2.0, "top_k": 3, "top_p": 0.7}, {4: 0.6225, 5: 0.3775}),
    ):
        write = Generator(network, WORDS, Writing(beam=2000, sample=True, **settings))
        first = write(SOURCES[:1], 1, seed=7).ids[0, :, 0]
        shares = {token: float(np.mean(first == token)) for token in set(first.tolist())}
        assert shares == pytest.approx(expected, abs=0.04)
        assert np.array_equal(first, write(SOURCES[:1], 1, seed=7).ids[0, :, 0])
        assert not np.array_equal(first, write(SOURCES[:1], 1, seed=8).ids[0, :, 0])


def test_scores_of_samples_are_their_log_probabilities():
    found = Generator(toy(2), WORDS, Writing(beam=2, sample=True))(SOURCES, 6, seed=1)
    for row, source in enumerate(SOURCES):
        assert found.scores[row] == pytest.approx(log_p(toy(2), source, list(map(plain, found.ids[row]))), abs=1e-4)
    assert draws(SOURCES, 2, 6, 1).shape == (4, 2, 6)


def test_unsuitable_networks_and_settings_raise_errors():
    with pytest.raises(ValueError, match="no decoder"):
        Generator(SimpleNamespace(decode=None, writer=None), WORDS, Writing())
    for wrong in ({"beam": 0}, {"temperature": 0.0}, {"top_p": 0.0}):
        with pytest.raises(ValueError, match="beam of 1"):
            Generator(toy(), WORDS, Writing(**wrong))
    with pytest.raises(NotApplicable, match="gives no attention weights"):
        Generator(toy(), WORDS, Writing(coverage=0.1))


def real(name):
    """A network far from uniform, so that rounding decides nothing, its vocabulary, and three sources, one shorter."""
    import keras

    from ptmbench import models

    keras.utils.set_random_seed(1)
    words = Vocabulary(size=60)
    network = models.load(name).build(SIZE, words)
    for variable in network.loss.variables:
        variable.assign(variable + 0.3 * tf.random.stateless_normal(variable.shape, (0, len(variable.shape))))
    sources = np.random.default_rng(0).integers(5, 60, (3, 9)).astype(np.int32)
    sources[1, 5:] = 0
    return network, words, sources


def test_generated_text_depends_on_the_settings_and_not_on_the_gold():
    network, words, sources = real("bart")
    settings = adaptation_settings.defaults(Form.GENERATION, "finetune")
    assert settings.beam == 4
    settings = adaptation_settings.changed(settings, {"target_length": 8, "no_repeat_ngram": 2})
    adapted = Adapted(network, words, Form.GENERATION, "finetune", 0, settings, lambda rows: 0.0)
    gold = np.array([[words.cls, words.sep]] * 3, np.int32)
    found = adapted.forward({"tokens": sources, "targets": gold})
    assert np.array_equal(found, adapted.forward({"tokens": sources, "targets": np.tile(gold, (1, 9))}))
    by_hand = Generator(network, words, Writing(beam=4, no_repeat_ngram=2))(sources, 7)
    assert np.array_equal(found, by_hand.ids[:, 0])
    covering = adaptation_settings.changed(settings, {"coverage": 0.2})
    assert writing_of(covering) == Writing(beam=4, no_repeat_ngram=2, coverage=0.2)
    assert adaptation_settings.recorded(covering)["coverage"] == 0.2
    assert "coverage" not in adaptation_settings.recorded(settings)
    samples = adaptation_settings.changed(settings, {"sample": 1, "top_k": 9})
    drawn = []
    for seed in (1, 1, 2):
        adapted.set_prediction_settings(samples, seed)
        drawn.append(adapted.forward({"tokens": sources, "targets": gold}))
    assert adapted.writing == Writing(sample=True, top_k=9, no_repeat_ngram=2)
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def test_invalid_settings_are_refused_and_default_ones_are_not_recorded():
    settings = adaptation_settings.defaults(Form.GENERATION, "finetune")
    generation = ({"beam": 0}, {"top_p": 1.5}, {"temperature": 0}, {"sample": 2}, {"length_penalty": -1})
    for wrong in (*generation, {"warmup": 500}, {"dropout": 1}):
        with pytest.raises(adaptation_settings.SettingError, match=f"{next(iter(wrong))}=.* is not valid"):
            adaptation_settings.changed(settings, wrong)
    plain = adaptation_settings.recorded(adaptation_settings.defaults(Form.TAGGING, "finetune"))
    written = adaptation_settings.recorded(settings)
    assert set(written) - set(plain) == {"beam"}


@pytest.mark.parametrize("name", ["t5", "gpt"])
def test_cached_states_do_not_change_texts(name):
    """Beam search and sampling with cached states, and with `decode`, which reads the whole text at each step."""
    network, words, sources = real(name)
    for writing in (Writing(beam=3, no_repeat_ngram=3), Writing(beam=2, sample=True, top_p=0.9)):
        kept = Generator(network, words, writing)(sources, 8)
        again = Generator(SimpleNamespace(decode=network.decode, writer=None), words, writing)(sources, 8)
        assert np.array_equal(kept.ids, again.ids)
        assert kept.scores == pytest.approx(again.scores, abs=1e-3)


@pytest.mark.parametrize("name", ["t5", "prophetnet", "gpt"])
def test_real_networks_give_their_attention_to_the_source(name):
    """The attention to padding is 0. The attention to the source sums to 1 if there is nothing else to attend to."""
    network, words, sources = real(name)
    memory, past = network.writer.begin(sources)
    written = np.full((3, 2, 1), words.cls, np.int32)
    with collect_attention() as looks:
        network.writer.step(memory, past, written, np.tile(np.eye(2, dtype=bool), (3, 1, 1)))
    found = source_attention(looks, 2, 9).numpy()
    assert found.shape == (3, 2, 9) and (found[1, :, 5:] == 0).all() and (found[0] > 0).all()
    total = found.sum(-1)
    assert (total < 1).all() if name == "gpt" else total == pytest.approx(1.0, abs=1e-5)
    plain, covered = (Generator(network, words, Writing(beam=3, coverage=c))(sources, 8) for c in (0.0, 5.0))
    change = covered.scores[:, 0] - plain.scores[:, 0]  # 0 if all of a short source has full attention
    assert (change < 1e-5).all() and change.min() < -0.1
