"""Tests of ERNIE (Tsinghua): its rows, its corpus and its network. `tests.models.frozen` has its reference outputs."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.layers.config import from_dict
from ptmbench.models.objectives import dea
from ptmbench.models.objectives.sampling import Pairs
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.networks import VOCABULARY, corpus, made, small


def rows(steps: int, batch: int = 8, length: int = 40, **shares: float):
    """Yields the entities before noise, and the rows after noise with candidates and labels, for all rows of
    ``steps``."""
    pairs = Pairs(corpus(), VOCABULARY, length, 0.5, layers=("entities",))
    for step in range(steps):
        clean, rng = pairs(step, batch, 1)
        yield clean, dea.noise(clean, rng, **shares)


def test_pairs_include_the_layer_without_changing_the_random_draws():
    plain, annotated = Pairs(corpus(), VOCABULARY, 40, 0.5), Pairs(corpus(), VOCABULARY, 40, 0.5, layers=("entities",))
    for step in range(4):
        (bare, one), (full, two) = plain(step, 6, 3), annotated(step, 6, 3)
        assert full.keys() - bare.keys() == {"entities"} and one.random() == two.random()
        assert all(np.array_equal(bare[name], full[name]) for name in bare)
        first = full["entities"] > 0  # in the toy corpus, the first word of a mention determines its entity
        assert first.any() and (full["entities"][first] == 1 + (full["tokens"][first] - VOCABULARY.first) % 6).all()
        assert not full["entities"][full["tokens"] < VOCABULARY.first].any()


def test_candidates_are_the_entities_of_the_row_and_labels_point_to_them():
    for clean, noisy in rows(6):
        for row, entities in enumerate(clean["entities"]):
            candidates, labels = noisy["entity_candidates"][row], noisy["entity_labels"][row]
            mention_starts = np.flatnonzero(labels)
            assert mention_starts.tolist() == np.flatnonzero(entities > 0).tolist() and labels[0] == candidates[0] == 0
            assert candidates[labels[mention_starts]].tolist() == entities[mention_starts].tolist()
            assert sorted(candidates[candidates > 0]) == sorted(set(entities[entities > 0]))
            assert all(
                place == np.flatnonzero(entities == candidates[place])[0] for place in np.flatnonzero(candidates)
            )


def test_whole_mentions_are_replaced_and_hidden_at_the_rates_of_the_paper():
    kept = wrong = hidden = 0
    for clean, noisy in rows(200):
        before, after = clean["entities"], noisy["entities"]
        first = before > 0
        kept += (after[first] == before[first]).sum()
        wrong += ((after[first] > 0) & (after[first] != before[first])).sum()
        hidden += (after[first] == 0).sum()
        assert set(after[after > 0]) <= set(before[first])
        second_tokens = np.pad(first[:, :-1], [(0, 0), (1, 0)]) & (before < 0)  # the first token is in the row
        ahead = np.pad(after[:, :-1], [(0, 0), (1, 0)])
        assert (after[second_tokens] == -ahead[second_tokens]).all()
        cut_off = (before < 0) & ~second_tokens  # the rest of a mention whose first token was cut off
        assert (after[cut_off] == before[cut_off]).all() and not after[before == 0].any()
    total = kept + wrong + hidden
    assert total > 8000
    for count, share in ((kept, 0.8), (wrong, 0.05), (hidden, 0.15)):
        assert abs(count - share * total) < 4 * (share * (1 - share) * total) ** 0.5


def test_only_candidates_and_the_class_none_have_scores():
    built = made("ernie_thu").built
    candidates = np.array([[0, 3, 0, 5, 0, 0], [0, 0, 2, 0, 0, 0]], np.int32)
    encoding = built.encoder({"tokens": np.arange(40, 52, dtype=np.int32).reshape(2, 6)})
    scores = np.asarray(built.loss.heads[2].logits(encoding.tokens, candidates))
    is_candidate = np.broadcast_to((candidates > 0)[:, None], scores.shape)
    assert np.abs(scores[..., 0]).max() == 0.0 and np.abs(scores[is_candidate]).min() > 0
    assert scores[..., 1:][~is_candidate[..., 1:]].max() < -1e8


@pytest.mark.parametrize("entities", [[[0, 0, 0]], [[0, 2, -2]], [[0, 3, 3]]])
def test_rows_with_at_most_one_entity_are_not_corrupted(entities):
    given = {"entities": np.array(entities, np.int32)}
    noisy = dea.noise(given, np.random.default_rng(0), wrong=1.0, without=0.0)
    assert np.array_equal(noisy["entities"], given["entities"])  # there is no other entity to take
    loss = made("ernie_thu").built.loss
    assert int(loss.heads[2].totals(noisy)["mentions"]) == (given["entities"] > 0).sum()


def test_only_the_first_token_of_a_mention_adds_its_entity():
    encoder = made("ernie_thu").built.encoder
    tokens, entities = np.arange(40, 52, dtype=np.int32)[None], np.zeros((1, 12), np.int32)
    entities[0, 3:5] = 2, -2
    plain, named = encoder({"tokens": tokens}), encoder({"tokens": tokens, "entities": entities})
    assert np.abs(plain.tokens - encoder({"tokens": tokens, "entities": np.zeros_like(entities)}).tokens).max() == 0.0
    assert np.abs(plain.tokens - named.tokens)[0, 3].max() > 1e-3
    entities[0, 4] = 0
    assert np.abs(named.tokens - encoder({"tokens": tokens, "entities": entities}).tokens).max() == 0.0


def test_entity_vectors_are_those_of_the_corpus_and_are_not_trained():
    module = models.load("ernie_thu")
    built = module.build(small(module), VOCABULARY)
    table = built.encoder.entities.table
    assert not np.any(table[0]) and np.abs(table[1:]).min() > 0
    built.batches(corpus(), 4, 24)
    assert np.array_equal(table, corpus().vectors["entities"])
    paths = {name: {v.path for v in getattr(built.loss, name)} for name in ("variables", "trainable_variables")}
    assert paths["variables"] - paths["trainable_variables"] == {"encoder/entities/table"}
    built.loss.trainable = True
    assert table.path not in {v.path for v in built.loss.trainable_variables}


def test_text_without_entities_or_vectors_raises_an_error():
    module = models.load("ernie_thu")
    built, text = module.build(small(module), VOCABULARY), corpus()
    for unfit, words in (
        (replace(text, layers={}), "no layer 'entities'.*sidecar"),
        (replace(text, vectors={}), "has none for its layer 'entities'.*--vectors"),
        (replace(text, vectors={"entities": np.zeros((4, 12), np.float32)}), "3 entities .* made for 6 of width 12"),
        (replace(text, vectors={"entities": np.zeros((7, 5), np.float32)}), "vectors of width 5.* 6 of width 12"),
    ):
        with pytest.raises(CorpusUnfit, match=words):
            built.batches(unfit, 4, 24)


@pytest.mark.parametrize(("layers", "lower", "upper"), [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (12, 6, 6)])
def test_half_of_the_layers_read_entities(layers, lower, upper):
    module = models.load("ernie_thu")
    config = module.describe(replace(module.SIZES["base"], layers=layers), Vocabulary(size=100)).encoder
    assert (config.stack.layers, config.aggregators.layers) == (lower, upper)
    assert config.aggregators.aggregator.entity_attention.heads == 4 and config.entities.width == 100
    assert from_dict(config.to_dict()) == config


def test_base_has_as_many_parameters_as_in_the_paper():
    """114M, as section 4.1 of the paper says of the encoder with BERT's pieces, without the table of entities."""
    module = models.load("ernie_thu")
    total, _ = module.describe(module.SIZES["base"], Vocabulary(size=30522)).parameters()
    assert 113e6 < total < 116e6
