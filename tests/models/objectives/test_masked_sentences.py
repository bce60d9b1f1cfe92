"""Tests of masked sentences: which sentences are hidden, how, and what their prediction depends on; HIBERT's equations,
term by term."""

import math

import numpy as np
import pytest

from ptmbench.models.layers import hierarchical as network
from ptmbench.models.objectives import masked_sentences
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.weights import numbers

VOCABULARY = Vocabulary(size=5000)
FIRST, CLS, SEP, MASK = VOCABULARY.first, VOCABULARY.cls, VOCABULARY.sep, VOCABULARY.mask
SMALL = Vocabulary(size=120)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """480 sentences of 3 to 14 tokens. Every token is unique: id - FIRST is its position in the corpus."""
    sizes = np.random.default_rng(2).integers(3, 15, 480)
    total = int(sizes.sum())
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Corpus(np.arange(FIRST, FIRST + total, dtype=np.int32), bounds, np.arange(0, 481, 12), np.ones(total, bool))


def sentences(row: np.ndarray) -> list[list[int]]:
    """The tokens of each sentence of a row, including its [SEP]. The last sentence may be truncated before it."""
    result = [[]]
    for token in row[1:].tolist():
        result[-1].append(token)
        if token == SEP:
            result.append([])
    return result if result[-1] else result[:-1]


def test_rows_are_full_and_consist_of_consecutive_sentences(corpus):
    rows = masked_sentences.SentenceRows(corpus, VOCABULARY, 64)
    bounds = set(corpus.sentences.tolist())
    for step in range(30):  # beyond the end of the corpus
        tokens, ends = rows(step, 8, 1)
        assert tokens.shape == (8, 64)
        assert (tokens[:, 0] == CLS).all()
        assert (tokens > 0).all()
        for row, marks in zip(tokens, ends, strict=True):
            assert np.flatnonzero(row == SEP).tolist() == marks[marks < 64].tolist()
            result, following = sentences(row), None
            for index, words in enumerate(result):
                offsets = np.array([word for word in words if word != SEP]) - FIRST
                assert (np.diff(offsets) == 1).all()
                assert offsets[0] in bounds
                assert (words[-1] == SEP and offsets[-1] + 1 in bounds) or index == len(result) - 1
                assert following in (None, offsets[0])
                following = (offsets[-1] + 1) % corpus.tokens


def test_share_of_the_sentences_is_chosen_and_at_least_one():
    rng = np.random.default_rng(0)
    whole = np.repeat([1, 4, 20], 2000)
    numbers, used = masked_sentences.choose_sentences(whole, rng)
    assert (numbers[used] < np.repeat(whole, used.sum(axis=1))).all()
    assert set(used[whole == 1].sum(axis=1)) == set(used[whole == 4].sum(axis=1)) == {1}
    assert set(used[whole == 20].sum(axis=1)) == {3}
    assert all(len(set(row.tolist())) == 3 for row in numbers[whole == 20])
    share = np.bincount(numbers[whole == 20].ravel(), minlength=20) / 2000
    assert np.abs(share - 0.15).max() < 4 * math.sqrt(0.15 * 0.85 / 2000)


def test_hidden_sentences_are_masked_kept_or_replaced(corpus):
    make, plain = (
        masked_sentences.batches(corpus, VOCABULARY, 8, 128),
        masked_sentences.SentenceRows(corpus, VOCABULARY, 128),
    )
    kinds = {"masked": 0, "kept": 0, "other": 0}
    bounds = set(corpus.sentences.tolist())
    for step in range(150):
        batch, (whole, _) = make(step, 1), plain(step, 8, 1)
        assert {key: value.shape for key, value in batch.items()} == {
            "tokens": (8, 128),
            **dict.fromkeys(("targets", "previous", "places", "sentences"), (8, 26)),
        }
        assert (((whole == SEP) | (whole == CLS)) == ((batch["tokens"] == SEP) | (batch["tokens"] == CLS))).all()
        for row in range(8):
            shown, true = sentences(batch["tokens"][row]), sentences(whole[row])
            chosen = list(dict.fromkeys(batch["sentences"][row][batch["targets"][row] > 0].tolist()))
            # 15 % of the complete sentences are drawn. The 26 slots hold the first ones.
            complete = len(true) - (true[-1][-1] != SEP)
            assert 1 <= len(chosen) <= max(1, round(0.15 * complete))
            assert max(chosen) < complete
            column = 0
            for number in chosen:
                words = true[number]
                size = min(len(words), 26 - column)
                place = slice(column, column + size)
                assert batch["targets"][row, place].tolist() == words[:size]
                assert batch["previous"][row, place].tolist() == [CLS, *words[: size - 1]]
                assert batch["places"][row, place].tolist() == list(range(size))
                column += size
                if set(shown[number][:-1]) == {MASK}:
                    kinds["masked"] += 1
                elif shown[number] == words:
                    kinds["kept"] += 1
                else:
                    kinds["other"] += 1
                    offsets = np.array(shown[number][:-1]) - FIRST
                    assert offsets[0] in bounds
                    assert (np.diff(offsets) % corpus.tokens == 1).all()
            assert not batch["targets"][row, column:].any()
            if column < 26:  # nothing is truncated, so all hidden sentences are known
                assert all(shown[i] == true[i] for i in range(len(true)) if i not in chosen)
    total = sum(kinds.values())
    assert abs(kinds["masked"] / total - 0.8) < 4 * math.sqrt(0.16 / total)
    assert abs(kinds["kept"] / total - 0.1) < 4 * math.sqrt(0.09 / total)


def test_batches_are_determined_by_step_and_seed(corpus):
    make = masked_sentences.batches(corpus, VOCABULARY, 4, 64)
    assert all(np.array_equal(value, make(3, 1)[key]) for key, value in make(3, 1).items())
    assert not np.array_equal(make(3, 1)["targets"], make(3, 2)["targets"])
    assert not np.array_equal(make(3, 1)["targets"], make(4, 1)["targets"])


def test_sentence_that_fills_the_row_is_hidden():
    corpus = Corpus(np.arange(FIRST, FIRST + 900), np.array([0, 300, 600, 900]), np.array([0, 3]), np.ones(900, bool))
    batch = masked_sentences.batches(corpus, VOCABULARY, 16, 40)(0, 1)
    assert (batch["targets"] > 0).all()
    assert (batch["sentences"] == 0).all()
    assert (np.diff(batch["targets"], axis=1) == 1).all()
    assert (batch["tokens"][:, 1:] == MASK).all(axis=1).mean() > 0.5


def test_too_short_rows_raise_an_error(corpus):
    with pytest.raises(ValueError, match="at least 8"):
        masked_sentences.batches(corpus, VOCABULARY, 4, 7)


def test_structure_numbers_sentences_by_their_separators():
    tokens = np.array([[CLS, 40, 41, SEP, 42, SEP, 43, 44, 0, 0], [CLS, 40, 41, 42, 43, 44, 45, SEP, 0, 0]])
    result = network.structure(tokens, SEP)
    assert result.number.numpy()[0, :8].tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert result.number.numpy()[1, :8].tolist() == [0] * 8
    assert result.place.numpy()[0, :8].tolist() == [0, 1, 2, 3, 0, 1, 0, 1]
    assert result.place.numpy()[1, :8].tolist() == list(range(8))
    assert result.filled.numpy().tolist() == [[True] * 3 + [False] * 3, [True] + [False] * 5]
    assert result.last.numpy()[0, :3].tolist() == [3, 5, 7]
    assert result.last.numpy()[1, 0] == 7
    words = result.words.numpy()[0, 0] == 0
    assert words[4].tolist() == [False] * 4 + [True] * 2 + [False] * 4
    assert words[7].tolist() == [False] * 6 + [True] * 2 + [False] * 2
    assert (result.sentences.numpy()[:, 0, 0] == 0).tolist() == result.filled.numpy().tolist()


def test_sentences_beyond_the_last_position_share_it():
    tokens = np.full((1, 80), SEP)
    tokens[0, ::2] = 40  # 40 sentences
    result = network.structure(tokens, SEP)
    assert result.number.numpy()[0].tolist() == [min(index // 2, 31) for index in range(80)]
    assert result.last.numpy()[0, -2:].tolist() == [61, 79]


@pytest.fixture(scope="module")
def built():
    import keras

    from ptmbench import models
    from ptmbench.models.card import Size

    keras.utils.set_random_seed(2)
    model = models.load("hibert").build(Size(layers=2, width=32, heads=2, inner=64, length=40), SMALL)
    rng = np.random.default_rng(3)
    for variable in model.loss.variables:  # including biases and norms, so that every term matters
        variable.assign_add(0.2 * rng.normal(size=variable.shape))
    return model


def case():
    """Two rows of three sentences. In the first row, the second sentence is hidden; in the second row, the first and
    the third."""
    tokens = np.array(
        [
            [CLS, 50, 51, 52, SEP, MASK, MASK, MASK, SEP, 57, 58, SEP, 0, 0],
            [CLS, MASK, MASK, SEP, 60, 61, 62, 63, SEP, MASK, MASK, SEP, 0, 0],
        ],
        np.int32,
    )
    return {
        "tokens": tokens,
        "targets": np.array([[53, 54, 55, SEP, 0, 0], [70, 71, SEP, 72, 73, SEP]], np.int32),
        "previous": np.array([[CLS, 53, 54, 55, CLS, CLS], [CLS, 70, 71, CLS, 72, 73]], np.int32),
        "places": np.array([[0, 1, 2, 3, 0, 0], [0, 1, 2, 0, 1, 2]], np.int32),
        "sentences": np.array([[1, 1, 1, 1, 0, 0], [0, 0, 0, 2, 2, 2]], np.int32),
    }


def logits(built, batch):
    return np.asarray(built.loss.logits(batch))


def logit_change(built, batch, key, row, place, to=99):
    """Returns the change of the logits, [B, S], when one number of the batch changes."""
    changed = batch[key].copy()
    changed[row, place] = to
    return np.abs(logits(built, batch | {key: changed}) - logits(built, batch)).max(axis=2)


def test_words_are_generated_from_the_previous_words_of_their_sentence(built):
    batch = case()
    for place in range(6):
        result = logit_change(built, batch, "previous", 1, place)
        assert result[0].max() < 1e-6
        same = batch["sentences"][1] == batch["sentences"][1, place]
        assert ((result[1] > 1e-4) == (same & (np.arange(6) >= place))).all()
        assert result[1][~same].max() < 1e-6


def test_hidden_sentences_do_not_reach_the_encoder(built):
    """The encoder never reads the words of a hidden sentence, so its first word is predicted from the surrounding text
    alone."""
    batch = case()
    for row, number in ((0, 1), (1, 0), (1, 2)):
        words = set(batch["targets"][row][batch["sentences"][row] == number].tolist()) - {SEP, 0}
        assert not words & set(batch["tokens"][row].tolist())
    other = np.where((batch["targets"] > SEP), batch["targets"] + 20, batch["targets"])
    assert (logits(built, batch | {"targets": other}) == logits(built, batch)).all()
    # Words of the sentences before and after it reach it, but only those of the same row.
    for place in (1, 3, 10):
        result = logit_change(built, batch, "tokens", 0, place)
        assert result[0, :4].min() > 1e-5
        assert result[1].max() < 1e-6


def test_words_attend_within_sentences_and_sentences_within_documents(built):
    batch = case()
    changed = batch["tokens"].copy()
    changed[0, 2] = 99
    before, after = (built.encoder.hidden(tokens) for tokens in (batch["tokens"], changed))
    for layer, (old, new) in enumerate(zip(before[0], after[0], strict=True)):
        gap = np.abs(np.reshape(new - old, (2, 14, -1))).max(axis=2)
        assert gap[1].max() < 1e-6
        assert gap[0, 5:12].max() < 1e-6  # the other sentences
        assert gap[0, :5].min() > 1e-4 if layer else gap[0, [0, 1, 3, 4]].max() < 1e-6
    old, new = before[1], after[1]
    assert np.abs(new[0] - old[0])[0, 1:].max() < 1e-6
    assert np.abs(new[-1] - old[-1])[0, :3].max(axis=1).min() > 1e-4
    tokens = [built.encoder({"tokens": tokens}).tokens.numpy() for tokens in (batch["tokens"], changed)]
    assert np.abs(tokens[1] - tokens[0])[0, :12].max(axis=1).min() > 1e-4  # each word of the row, through its sentence


def test_sentence_vectors_and_the_encoding_for_tasks(built):
    """A sentence is the vector of its [SEP] plus a position. A task gets each word's vector plus that of its
    sentence."""
    tokens = case()["tokens"]
    words, documents, _ = (part for part in built.encoder.hidden(tokens))
    last = np.reshape(words[-1], (2, 14, 32))
    marks = [np.flatnonzero(row == SEP) for row in tokens]
    table = np.array(built.encoder.sentence_positions.table)
    for row in range(2):
        assert np.allclose(documents[0][row, :3], last[row, marks[row]] + table[:3], atol=1e-6)
    encoding = built.encoder({"tokens": tokens})
    final = documents[-1].numpy()
    number = [0] * 5 + [1] * 4 + [2] * 3
    assert np.allclose(encoding.tokens[0, :12], last[0, :12] + final[0, number], atol=1e-6)
    assert np.allclose(encoding.pooled, final[:, :3].mean(axis=1), atol=1e-6)
    assert len(encoding.layers) == built.encoder.depth + 1 == 5


def norm(x, scale, bias):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * np.array(scale) + np.array(bias)


def test_decoder_matches_the_equations(built):
    """The second word of a sentence, section 3.3: attention over the words so far, d is added, then a layer with
    ReLU."""
    batch = case()
    encoder, decoder = built.encoder, built.loss.decoder
    d = encoder.hidden(batch["tokens"])[1][-1].numpy()[0, 1]
    table, places = np.array(encoder.token_embedding), np.array(encoder.embeddings.positions.table)
    x = [table[CLS] + places[0], table[53] + places[1]]
    for w in map(numbers, decoder.stack):
        qkv = [word @ w.qkv_kernel + w.qkv_bias for word in x]
        outputs = []
        for at in (0, 1):
            heads = []
            for head in (slice(0, 16), slice(16, 32)):
                q = qkv[at][:32][head]
                scores = [q @ qkv[to][32:64][head] / 4 for to in range(at + 1)]
                weights = np.exp(scores) / np.exp(scores).sum()
                heads.append(sum(weights[to] * qkv[to][64:][head] for to in range(at + 1)))
            h = np.concatenate(heads) @ w.output_kernel + w.output_bias
            u = norm(x[at] + h + d, w.attention_norm_scale, w.attention_norm_bias)
            f = np.maximum(u @ w.inner_kernel + w.inner_bias, 0)
            f = f @ w.outer_kernel + w.outer_bias
            outputs.append(norm(u + f, w.norm_scale, w.norm_bias))
        x = outputs
    assert np.allclose(logits(built, batch)[0, :2], np.stack(x) @ table.T, atol=2e-4)


def test_loss_is_the_mean_over_target_tokens(built):
    batch = case()
    scores = logits(built, batch).astype(np.float64)
    logp = scores - np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1, keepdims=True))
    logp -= scores.max(-1, keepdims=True)
    each = [-logp[0, place, token] for place, token in enumerate((53, 54, 55, SEP))]
    each += [-logp[1, place, token] for place, token in enumerate((70, 71, SEP, 72, 73, SEP))]
    whole = float(built.loss(batch)["loss"])
    assert whole == pytest.approx(sum(each) / 10, rel=1e-5)
    totals = built.loss.totals(batch)
    assert int(totals["targets"]) == 10
    halves = [built.loss({key: value[row : row + 1] for key, value in batch.items()}, None, totals) for row in (0, 1)]
    assert sum(float(half["loss"]) for half in halves) == pytest.approx(whole, rel=1e-5)
