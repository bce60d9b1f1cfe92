"""``ls models`` with the options that filter models by the survey's taxonomy."""

import json

import pytest

from ptmbench.bench.__main__ import main


def list_models(capsys, *options):
    assert main(["ls", "models", "--json", *options]) == 0
    return {one["name"] for one in json.loads(capsys.readouterr().out)["models"]}


def test_taxonomy_terms_filter_models(capsys):
    assert list_models(capsys, "--in", "Seq2Seq MLM") >= {"t5", "mass"}
    encoders = list_models(capsys, "--architecture", "Transformer encoder")
    assert encoders >= {"bert", "xlnet"} and not encoders & {"gpt", "bart"}
    encoders_with_rtd = list_models(capsys, "--architecture", "Transformer encoder", "--objective", "rtd")
    assert encoders_with_rtd == {"electra"}
    assert list_models(capsys, "--extension", "sharing") == {"albert"}  # a value on the card
    assert list_models(capsys, "--representation", "non-contextual") >= {"glove", "nnlm"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "--objective", "LSTM"], "--objective takes a term of the survey"),
        (["models", "--in", "nonsense"], "not 'nonsense'. Terms: Non-contextual"),
        (["tasks", "--in", "MLM"], "`ptmbench ls models --in TERM`"),
        (["--extension", "sharing"], "--extension chooses models"),
    ],
)
def test_invalid_terms_and_options_are_reported(arguments, said, capsys):
    assert main(["ls", *arguments]) == 2
    assert said in capsys.readouterr().err
