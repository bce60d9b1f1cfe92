"""``ls models`` with the options that choose models by the survey's taxonomy."""

import json

import pytest

from ptmbench.bench.__main__ import main


def listed(capsys, *options):
    assert main(["ls", "models", "--json", *options]) == 0
    return {one["name"] for one in json.loads(capsys.readouterr().out)["models"]}


def test_terms_narrow_the_choice(capsys):
    assert listed(capsys, "--in", "Seq2Seq MLM") >= {"t5", "mass"}
    encoders = listed(capsys, "--architecture", "Transformer encoder")
    assert encoders >= {"bert", "xlnet"} and not encoders & {"gpt", "bart"}
    both = listed(capsys, "--architecture", "Transformer encoder", "--objective", "rtd")
    assert both == {"electra"}
    assert listed(capsys, "--extension", "sharing") == {"albert"}  # a value on the card
    assert listed(capsys, "--representation", "non-contextual") >= {"glove", "nnlm"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "--objective", "LSTM"], "--objective takes a term of the survey"),
        (["models", "--in", "nonsense"], "not 'nonsense'. Terms: Non-contextual"),
        (["tasks", "--in", "MLM"], "`ptmbench ls models --in TERM`"),
        (["--extension", "sharing"], "--extension chooses models"),
    ],
)
def test_what_is_no_term_is_told(arguments, said, capsys):
    assert main(["ls", *arguments]) == 2
    assert said in capsys.readouterr().err
