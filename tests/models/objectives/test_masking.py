"""Tests of the variants of masking against their specification: which tokens are hidden together, how often, and which
never are."""

import numpy as np
import pytest

from ptmbench.models.objectives import masking, mlm, sampling
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST = VOCABULARY.first


def corpus() -> Corpus:
    """40 documents of 12 sentences, with words of 1 to 3 pieces. id - FIRST is the position of a token in the
    corpus."""
    rng = np.random.default_rng(2)
    words = np.cumsum(rng.choice([1, 2, 3], 2000, p=[0.6, 0.3, 0.1]))
    ends = np.concatenate([[0], np.sort(rng.choice(words[:-1], 479, replace=False)), words[-1:]])
    heads = np.zeros(words[-1], bool)
    heads[np.concatenate([[0], words[:-1]])] = True
    ids = np.arange(FIRST, FIRST + words[-1], dtype=np.int32)
    return Corpus(ids=ids, sentences=ends, documents=np.arange(0, 481, 12), heads=heads)


def drawn(noise, length: int = 128, count: int = 40):
    """Yields (tokens, heads, the output of ``noise``) for ``count`` batches of 16 rows."""
    text = corpus()
    texts = sampling.FullSentences(text, VOCABULARY, length)
    for step in range(count):
        rows, where = texts(step, 16, 1)
        heads = sampling.heads(text, where)
        yield rows["tokens"], heads, noise(rows, heads, sampling.generator(1, step), VOCABULARY)


def hidden_of(tokens: np.ndarray, noisy: dict[str, np.ndarray]) -> np.ndarray:
    """Returns bool [B, T]: the positions in used slots. Also checks that the slots agree with the tokens."""
    hidden = np.zeros(tokens.shape, bool)
    used = noisy["masked_weights"] > 0
    row = np.nonzero(used)[0]
    hidden[row, noisy["masked_positions"][used]] = True
    assert hidden.sum() == used.sum()  # no position twice
    assert np.array_equal(tokens[row, noisy["masked_positions"][used]], noisy["masked_labels"][used])
    assert (tokens[hidden] >= FIRST).all()
    assert np.array_equal(noisy["tokens"][~hidden], tokens[~hidden])
    return hidden


def test_full_sentences_fill_rows_and_have_separators_between_documents():
    text = corpus()
    starts, ends = set(text.sentences.tolist()), set(text.sentences[text.documents].tolist())
    for step in range(30):
        rows, where = sampling.FullSentences(text, VOCABULARY, 64)(step, 8, 1)
        tokens = rows["tokens"]
        assert tokens.dtype == np.int32
        assert (tokens[:, 0] == VOCABULARY.cls).all()
        assert (tokens[:, -1] == VOCABULARY.sep).all()
        assert np.array_equal(where < 0, tokens < FIRST)
        assert np.array_equal(tokens[where >= 0], FIRST + where[where >= 0] % text.tokens)
        for line in where:
            assert int(line[1]) in starts
            inner = line[1:-1]
            assert (np.diff(inner[inner >= 0]) == 1).all()  # nothing is left out
            marks = np.flatnonzero(inner < 0)
            assert {int(inner[m - 1] + 1) % text.tokens for m in marks} <= ends | {0}
            inside = (inner[inner >= 0] + 1) % text.tokens
            crossed = np.isin(inside, list(ends | {0}))
            assert crossed[:-1].sum() <= len(marks) <= crossed.sum()


def test_full_sentences_of_tiny_documents():
    text = Corpus(np.arange(FIRST, FIRST + 3), np.array([0, 1, 2, 3]), np.array([0, 1, 3]), np.ones(3, bool))
    rows, _ = sampling.FullSentences(text, VOCABULARY, 10)(0, 1, 1)
    a, b, c, sep = FIRST, FIRST + 1, FIRST + 2, VOCABULARY.sep
    cycle = {a: [a, sep, b, c, sep, a, sep, b], b: [b, c, sep, a, sep, b, c, sep], c: [c, sep, a, sep, b, c, sep, a]}
    assert rows["tokens"][0].tolist() == [VOCABULARY.cls, *cycle[int(rows["tokens"][0, 1])], sep]


@pytest.mark.parametrize("noise", [masking.whole_words, masking.ngrams, lambda *a: masking.spans(*a)[0]])
def test_fifteen_percent_is_hidden_in_whole_words_with_80_10_10_replacement(noise):
    share, kinds = [], []
    for tokens, heads, noisy in drawn(noise):
        hidden, text = hidden_of(tokens, noisy), tokens >= FIRST
        limit = np.rint(0.15 * text.sum(axis=1))
        assert (hidden.sum(axis=1) <= limit).all()
        assert (hidden.sum(axis=1) >= limit - 2).all()  # words have up to 3 pieces
        share.append(hidden.sum() / text.sum())
        tail = text[:, 1:] & ~heads[:, 1:]
        assert np.array_equal(hidden[:, 1:][tail], hidden[:, :-1][tail])  # a word is hidden as a whole
        shown = noisy["tokens"][hidden]
        kinds.append([(shown == VOCABULARY.mask).mean(), (shown == tokens[hidden]).mean()])
        assert (shown[shown != VOCABULARY.mask] >= FIRST).all()
    assert np.mean(share) == pytest.approx(0.15, abs=0.004)  # the rest of a truncated run stays unchanged
    assert np.mean(kinds, axis=0) == pytest.approx([0.8, 0.1], abs=0.025)


def test_all_words_are_equally_likely_to_be_hidden():
    counts = np.zeros(128)
    for tokens, _, noisy in drawn(masking.whole_words, count=120):
        counts += hidden_of(tokens, noisy).sum(axis=0)
    inside = counts[2:-2] / (120 * 16)
    assert inside.min() > 0.15 - 5 * np.sqrt(0.15 * 0.85 / 1920)
    assert inside.max() < 0.15 + 5 * np.sqrt(0.15 * 0.85 / 1920)


def runs_of(chosen: masking.Chosen, heads: np.ndarray) -> list[list[int]]:
    """Returns the lengths in words of each row's runs, from left to right."""
    result = []
    for row, used in enumerate(chosen.used):
        pairs = sorted(set(zip(chosen.begins[row][used].tolist(), chosen.ends[row][used].tolist(), strict=True)))
        assert all(sooner[1] <= later[0] for sooner, later in zip(pairs, pairs[1:], strict=False))
        result.append([int(heads[row, a:b].sum()) for a, b in pairs])
    return result


def expected_runs(budget: int, chances) -> np.ndarray:
    """Returns the expected number of runs of 1, 2, ... words in a row. Runs are drawn until they fill ``budget`` words,
    and the last one is truncated."""
    counts = np.zeros((budget + 1, len(chances)))
    for left in range(1, budget + 1):
        for size, chance in enumerate(chances, 1):
            counts[left, min(size, left) - 1] += chance
            counts[left] += chance * counts[max(0, left - size)]
    return counts[budget]


PSEUDO = (0.6, 0.08, 0.08, 0.08, 0.08, 0.08)


@pytest.mark.parametrize("length", [128, 512])
@pytest.mark.parametrize("chances", [masking.NGRAMS, PSEUDO], ids=["albert", "unilm_v2"])
def test_hidden_runs_have_the_drawn_lengths(chances, length):
    """In rows of one-piece words the expected counts have a closed form: only the last draw is truncated."""
    tokens = np.full((2000, length), FIRST, np.int32)
    tokens[:, 0], tokens[:, length // 2], tokens[:, -1] = VOCABULARY.cls, VOCABULARY.sep, VOCABULARY.sep
    heads = tokens >= FIRST
    chosen = masking.choose(tokens, heads, np.random.default_rng(1), VOCABULARY, chances)
    budget = round(0.15 * (length - 3))
    assert (chosen.used.sum(axis=1) == budget).all()
    per_row = np.array([np.bincount(runs, minlength=len(chances) + 1)[1:] for runs in runs_of(chosen, heads)])
    error = per_row.std(axis=0) / np.sqrt(len(per_row))
    assert (np.abs(per_row.mean(axis=0) - expected_runs(budget, chances)) < 4 * error).all()
    shares = per_row.sum(axis=0) / per_row.sum()
    assert shares == pytest.approx(chances, abs=0.6 / budget)  # only the truncation of the last run differs


def spans_by_the_definition(tokens, heads, rng, chances) -> list[int]:
    """Returns the lengths in words of the merged spans of one row, drawn one after the other as in the code of
    SpanBERT's authors.

    A draw takes a length and a token that is not hidden yet. The span begins with the whole word of this token and
    extends to the right, through words that are hidden already. Spans that meet are one span. The last span ends when
    15 % of the tokens are hidden, here at the end of a word.
    """
    text = tokens >= FIRST
    word = np.cumsum(heads | ~text)  # a special token is a word that is never hidden
    left, hidden = round(0.15 * text.sum()), np.zeros(len(tokens), bool)
    while left:
        size = 1 + rng.choice(len(chances), p=np.array(chances))
        anchor = rng.choice(np.flatnonzero(text & ~hidden))
        for number in range(word[anchor], word[anchor] + size):
            inside = word == number
            if not text[inside].all() or not inside.any():
                break  # the end of the text
            if (inside & ~hidden).sum() > left:
                if number > word[anchor] or (np.bincount(word[text & ~hidden])[1:] > left).all():
                    left = 0
                break
            left -= (inside & ~hidden).sum()
            hidden |= inside
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hidden, [0]]).astype(int))).reshape(-1, 2)
    return [int(heads[a:b].sum()) for a, b in edges]


@pytest.mark.parametrize("chances", [masking.SPANS, (0.8, 0.1, 0.1)], ids=["spanbert", "unilm"])
def test_spans_that_meet_are_merged_as_in_the_authors_code(chances):
    """Compares means and shares per row with sequential draws, in rows of 128 tokens with words of 1 to 3 pieces."""
    ours, theirs, rng = [], [], np.random.default_rng(3)
    for tokens, heads, chosen in drawn(
        lambda rows, heads, rng, vocabulary: masking.choose(
            rows["tokens"], heads, rng, vocabulary, chances, merge=True
        ),
        count=30,
    ):
        ours += runs_of(chosen, heads)
        theirs += [spans_by_the_definition(tokens[row], heads[row], rng, chances) for row in range(len(tokens))]
        for used, begins, ends in zip(chosen.used, chosen.begins, chosen.ends, strict=True):
            pairs = sorted(set(zip(begins[used], ends[used], strict=True)))
            assert all(later[0] > sooner[1] for sooner, later in zip(pairs, pairs[1:], strict=False))
    bins = np.arange(len(chances) + 2)
    one, other = (
        np.array([[len(row), sum(row), *np.histogram(np.minimum(row, len(chances)), bins)[0][1:]] for row in rows])
        for rows in (ours, theirs)
    )
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * error + 1e-9).all()
    assert max(map(max, ours)) > len(chances)  # some spans have merged


def test_geometric_spans_have_the_mean_of_the_paper():
    assert sum(masking.SPANS) == pytest.approx(1)
    assert sum((n + 1) * p for n, p in enumerate(masking.SPANS)) == pytest.approx(3.8, abs=0.01)
    assert [round(11 * p, 6) for p in masking.NGRAMS] == [6, 3, 2]


def test_all_tokens_of_a_span_are_replaced_alike():
    replacements = []
    for tokens, _, noisy in drawn(lambda *a: masking.spans(*a)[0], count=20):
        hidden = hidden_of(tokens, noisy)
        for row in range(len(tokens)):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], hidden[row].astype(int), [0]])))
            for a, b in edges.reshape(-1, 2):
                shown, true = noisy["tokens"][row, a:b], tokens[row, a:b]
                replacements.append([(shown == VOCABULARY.mask).all(), np.array_equal(shown, true)])
                assert (shown == VOCABULARY.mask).all() or not (shown == VOCABULARY.mask).any()
    masked, kept = np.mean(replacements, axis=0)
    assert masked == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / len(replacements)))
    assert kept == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / len(replacements)))


def test_padding_and_texts_of_one_word():
    tokens = np.array([[2, 60, 61, 3, 0, 0], [2, 70, 3, 71, 3, 0], [2, 3, 0, 0, 0, 0]], np.int32)
    heads = np.array([[0, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
    noisy = masking.ngrams({"tokens": tokens}, heads, np.random.default_rng(0), VOCABULARY)
    assert noisy["masked_weights"].sum(axis=1).tolist() == [0, 1, 0]  # two pieces exceed one token
    assert hidden_of(tokens, noisy)[1].nonzero()[0].tolist() in ([1], [3])


def test_static_masks_repeat_and_dynamic_masks_do_not():
    text = corpus()
    texts = sampling.FullSentences(text, VOCABULARY, 64)

    def dynamic(step, seed):
        return mlm.noise(texts(step, 8, seed)[0], sampling.generator(seed, step), VOCABULARY)

    rows = texts.runs.count
    fixed = masking.static(dynamic, rows, 8, copies=2)
    period = -(-2 * rows // 8)
    for step in (0, 3, period - 1):
        for key, value in fixed(step, 1).items():
            assert np.array_equal(value, fixed(step + period, 1)[key])
            assert np.array_equal(value, dynamic(step, 1)[key])
    assert not np.array_equal(fixed(0, 1)["tokens"], fixed(-(-rows // 8), 1)["tokens"])  # another copy
    assert not np.array_equal(dynamic(0, 1)["tokens"], dynamic(period, 1)["tokens"])


def test_masks_are_determined_by_seed_and_step():
    first, again = (list(drawn(masking.ngrams, count=3)) for _ in range(2))
    for (_, _, one), (_, _, other) in zip(first, again, strict=True):
        assert all(np.array_equal(one[key], other[key]) for key in one)
    assert not np.array_equal(first[0][2]["masked_positions"], first[1][2]["masked_positions"])
