"""Tests of channels: every card and every task names existing channels, and messages name those that a model does not
read."""

import pytest

from ptmbench import models, tasks
from ptmbench.models.channels import CHANNELS, lacking
from tests.models.networks import every_model


@every_model
def test_cards_name_channels(name):
    reads = models.load(name).CARD.reads
    assert reads[0] == "tokens" and set(reads) <= set(CHANNELS)


@pytest.mark.parametrize("name", tasks.names())
def test_tasks_name_channels(name):
    assert set(tasks.load(name).needs) <= set(CHANNELS)


def test_message_names_the_missing_channels():
    assert lacking(("tokens", "segments"), ()) == lacking(("tokens", "regions", "boxes"), ("regions",)) == ""
    assert lacking(("tokens",), ("regions", "boxes")) == (
        "because this model does not read image regions or the boxes of image regions."
    )


def test_card_with_an_unknown_channel_is_reported(monkeypatch):
    from dataclasses import replace

    from ptmbench.models import _contract

    module = models.load("bert")
    monkeypatch.setattr(module, "CARD", replace(module.CARD, reads=("tokens", "smells")))
    assert any(
        "CARD.reads names 'smells', which is no channel" in one
        for one in _contract.mistakes(module, ("mlm", "nsp"), ("bert",))
    )
