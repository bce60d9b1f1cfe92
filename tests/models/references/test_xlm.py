"""XLM against `transformers`, on the same weights."""

import pytest

from tests.models.frozen import xlm as frozen
from tests.models.test_xlm import compare

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

pytestmark = pytest.mark.reference


def test_xlm_has_the_logits_of_transformers():
    assert transformers.XLMWithLMHeadModel
    compare(frozen.computed()["logits"])
