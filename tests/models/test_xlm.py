"""Tests of XLM: its rows, and its corpora. `tests.models.test_frozen` compares its logits."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.layers.config import from_dict
from ptmbench.models.objectives import tlm
from ptmbench.models.text.corpus import tokenise, train_tokenizer
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.sidecars import write
from tests.models.networks import VOCABULARY, corpus, made, pairs, small


@pytest.mark.parametrize("batch, length", [(4, 24), (5, 40), (1, 64), (8, 13)])
def test_rows_alternate_between_one_language_and_pairs(batch, length):
    """Rows of one language and rows of whole pairs alternate. Languages and positions are those of each text."""
    text = pairs()
    bounds, ids = text.sentences, text.ids
    language_of = {tuple(ids[a:b]): 1 + n % 2 for n, (a, b) in enumerate(zip(bounds, bounds[1:], strict=False))}
    make = tlm.batches(text, VOCABULARY, batch, length)
    clean = [rows_of(make, step, batch) for step in range(6)]
    seen = set()
    for step, rows in enumerate(clean):
        for row in range(batch):
            tokens, languages, positions, documents = (rows[name][row] for name in
                                                       ("tokens", "languages", "positions", "documents"))  # fmt: skip
            real = tokens > 0
            if (step * batch + row) % 2 == 0:
                assert real.all() and len(set(languages)) == 1 and set(documents) == {1}
                assert positions.tolist() == list(range(length)) and tokens[0] == VOCABULARY.cls
                whole = " ".join(map(str, tokens[1:])).split(f" {VOCABULARY.sep} ")[:-1]
                texts = [tuple(map(int, part.split())) for part in whole]
                assert all(language_of[part] == languages[0] for part in texts)
                seen.add(int(languages[0]))
                continue
            assert (languages[real] > 0).all() and not languages[~real].any() and not documents[~real].any()
            opens = np.flatnonzero(tokens == VOCABULARY.cls)
            assert len(opens) % 2 == 0 and len(opens) >= 2
            for number, (first, last) in enumerate(zip(opens, [*opens[1:], real.sum()], strict=True)):
                inner = tuple(tokens[first + 1 : last - 1])
                assert tokens[last - 1] == VOCABULARY.sep and len(set(languages[first:last])) == 1
                assert positions[first:last].tolist() == list(range(last - first))
                assert set(documents[first:last]) == {number // 2 + 1}
                assert language_of.get(inner, languages[first]) == languages[first] == number % 2 + 1
                assert inner in language_of or len(inner) == length // 2 - 2
    assert seen == {1, 2}


def rows_of(make, step: int, batch: int) -> dict[str, np.ndarray]:
    """Returns the rows of ``step`` before tokens were hidden, restored from the labels."""
    rows = make(step, 3)
    tokens = rows["tokens"].copy()
    for row in range(batch):
        used = rows["masked_weights"][row] > 0
        tokens[row, rows["masked_positions"][row][used]] = rows["masked_labels"][row][used]
    return rows | {"tokens": tokens}


def test_an_epoch_begins_a_row_with_every_pair_once():
    text, batch = pairs(), 6
    make = tlm.batches(text, VOCABULARY, batch, 24)  # one pair fits into most rows
    translations = tlm.Translations(text, VOCABULARY, 24, np.arange(0, 360, 2), np.tile([1, 2], 180))
    rows = translations(0, translations.runs.count, 1)["tokens"]
    first_pairs = translations.runs.at(0, translations.runs.count, 1)
    assert translations.runs.length == 1 and len(rows) == 180 and sorted(first_pairs) == list(range(180))
    assert make(3, 5)["tokens"].tolist() == make(3, 5)["tokens"].tolist()


def test_tokens_attend_to_their_own_pair_only():
    encoder = made("xlm").built.encoder
    batch = {name: value[None] for name, value in {
        "tokens": np.arange(40, 52, dtype=np.int32), "languages": np.repeat([1, 2, 1, 2], 3).astype(np.int32),
        "positions": np.tile([0, 1, 2], 4).astype(np.int32), "documents": np.repeat([1, 1, 2, 2], 3).astype(np.int32),
    }.items()}  # fmt: skip
    other = batch["tokens"].copy()
    other[0, 7] += 30
    change = np.abs(encoder(batch).tokens - encoder(batch | {"tokens": other}).tokens).max(axis=(0, 2))
    assert change[:6].max() == 0.0 and change[6:].min() > 1e-4
    alone = {name: value[:, :6] for name, value in batch.items()}
    assert np.allclose(encoder(alone).tokens, encoder(batch).tokens[:, :6], atol=1e-6)
    for name in ("languages", "positions"):
        changed = batch[name].copy()
        changed[0, 0] = 2
        assert np.abs(encoder(batch).tokens - encoder(batch | {name: changed}).tokens).max() > 1e-4


def test_an_attention_mask_hides_tokens():
    encoder = made("xlm").built.encoder
    tokens, attention = np.arange(40, 46, dtype=np.int32)[None], np.ones((1, 6, 6), np.int32)
    attention[0, :3, 3:] = 0
    other = tokens.copy()
    other[0, 4] += 30
    before, after = (encoder({"tokens": one, "attention": attention}).tokens for one in (tokens, other))
    assert np.abs(before - after)[0, :3].max() == 0.0 and np.abs(before - after)[0, 3:].max() > 1e-4


def test_text_without_languages_or_translations_raises_an_error(tmp_path):
    with pytest.raises(CorpusUnfit, match="no layer 'languages'.*sidecar"):
        tlm.batches(corpus(), VOCABULARY, 4, 24)
    text = tmp_path / "a.txt"
    text.write_text("It is here. It is there. It was here.\n\nWhere was it? Here it was.\n")
    write(text, [], default={"languages": "en"})
    tokenizer = train_tokenizer([text], "word", 60)
    with pytest.raises(CorpusUnfit, match="translations too.*pairs.tsv"):
        tlm.batches(tokenise([text], tokenizer), tokenizer.vocabulary, 4, 24)


def test_configuration_round_trips():
    config = models.load("xlm").describe(small(models.load("xlm")), VOCABULARY).encoder
    assert from_dict(config.to_dict()) == config and dict(config.embeddings.channels)["languages"].rows == 3
