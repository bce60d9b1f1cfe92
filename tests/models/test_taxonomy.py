"""Tests of the survey's taxonomy: every model has its places, and the systems of the figure are found by name."""

import pytest

from ptmbench import models
from ptmbench.models import taxonomy
from tests.models.networks import every_model

OTHERS = {"glove", "paragraph_vectors", "hierarchical_softmax", "skip_thought", "dea", "sip", "distillation", "cbow"}
OTHERS |= {"layer_distillation", "relation_distillation", "dual_training"}
"""Objectives that the survey's figure has no term for (its section 3.1.6: "others")."""


def cards():
    return {name: models.load(name).CARD for name in models.names()}


@every_model
def test_every_model_has_a_place_on_every_axis(name):
    card = models.load(name).CARD
    assert sum(part.holds(card) for part in taxonomy.REPRESENTATION.parts) == 1
    outside = card.architecture in ("lookup table", "convolution")  # not in the figure
    assert sum(part.holds(card) for part in taxonomy.ARCHITECTURES.parts) == (0 if outside else 1)
    assert taxonomy.OBJECTIVES.holds(card) or set(card.objectives) <= OTHERS
    assert taxonomy.EXTENSIONS.holds(card) or not card.extensions


def test_values_of_terms_are_values_of_cards():
    """A misspelt value would silently leave out a model."""
    known = set(models.objective_names())
    for term in taxonomy.terms(taxonomy.OBJECTIVES):
        assert set(term.values) <= known, term.title


def test_systems_of_the_figure_are_found_under_their_other_names():
    result = cards()
    terms = {one.title: one for one in taxonomy.terms()}
    assert terms["Contextual"].names(result["bert"])
    assert terms["Knowledge-enriched"].names(result["ernie_thu"])  # ERNIE(THU) there, ERNIE (THU) here
    assert terms["RTD"].names(result["cbow"]) and not terms["RTD"].fits(result["cbow"])  # CBOW-NS there
    assert terms["XLU"].names(result["xlm"]) and not terms["XLG"].holds(result["xlm"])
    assert not terms["LSTM"].names(result["bert"])


@pytest.mark.parametrize(
    ("term", "inside", "outside"),
    [
        ("mlm", {"bert", "t5", "xlm"}, {"gpt", "electra2"}),
        ("Seq2Seq MLM", {"t5", "mass", "pegasus"}, {"bert"}),
        ("masked language modelling", {"bert", "t5"}, {"gpt"}),
        ("CTL", {"electra", "bert", "word2vec"}, {"gpt", "roberta"}),
        ("transformer-enc", {"bert", "xlnet"}, {"bart", "gpt"}),
    ],
)
def test_terms_are_found_whatever_their_spelling(term, inside, outside):
    result = {name for one in taxonomy.find(term) for name in taxonomy.models_in(one, cards())}
    assert inside <= result and not outside & result


def test_facts_of_a_card_leave_out_paper_url_and_aliases():
    facts = models.load("word2vec").CARD.facts()
    assert "title" in facts and not {"paper", "url", "aliases"} & facts.keys()
