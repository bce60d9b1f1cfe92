"""Tests that the folders of `models` follow the survey, and that each model is in its folder."""

import pytest

from ptmbench import models
from ptmbench.models.card import Representation
from tests.models.networks import every_model

EXTENSIONS = {
    "knowledge_enriched",
    "multilingual",
    "language_specific",
    "multi_modal",
    "domain_specific",
    "model_compression",
}


def test_model_names_are_unique_across_folders():
    folders = {path.parent for path in models.paths().values()}
    assert sum(len(list(folder.glob("[!_]*.py"))) for folder in folders) == len(models.names())


@every_model
def test_folder_matches_the_taxonomy(name):
    """Section 3.3.1 for non-contextual models, section 4 for extensions, section 3.1 for all others."""
    card, folder = models.load(name).CARD, models.paths()[name].parent.name
    if card.extensions:
        assert folder in EXTENSIONS
    elif card.representation is Representation.NON_CONTEXTUAL:
        assert folder == "non_contextual"
    else:
        assert folder not in EXTENSIONS | {"non_contextual"}


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in models.paths().values()}), ids=lambda path: path.name
)
def test_folder_docstring_names_its_section(folder):
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert "(survey, section" in text and len(text.splitlines()) == 1
