"""Names in other spellings: what the command line takes, and that it goes on with the registered name."""

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.commands import registry, runs


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("models", "BERT", "bert"),
        ("models", "Word2Vec", "word2vec"),
        ("models", "Random_BERT", "random-bert"),
        ("models", "Majority", "majority"),
        ("models", "bort", "bort"),
        ("tasks", "SST-2", "sst2"),
        ("tasks", "CoNLL_2003", "conll2003"),
        ("tasks", "Multi30k-DE-fr", "multi30k-de-fr"),
        ("tasks", "no-such-task", "no-such-task"),
        ("adaptations", "Prompt:shots=4", "prompt:shots=4"),
        ("conditions", "Misspellings:share=0.2", "misspellings:share=0.2"),
        ("transforms", "Prune:pattern=2:4", "prune:pattern=2:4"),
        ("objectives", "MLM", "mlm"),
        ("suites", "GLUE", "glue"),
    ],
)
def test_other_spellings(kind, given, expected):
    assert registry.resolve(kind, given) == expected


def test_every_registered_name_is_itself_and_ambiguous_ones_are_left():
    for kind in ("models", "objectives", "tasks", "adaptations", "transforms", "conditions", "suites"):
        for name in registry.names(kind):
            assert registry.resolve(kind, name) == name
    assert registry.match("A-B", ("ab", "a_b")) == "A-B" and registry.match("a_b", ("ab", "a_b")) == "a_b"


@pytest.mark.parametrize(
    ("name", "heading"),
    [("BERT", "bert (model)"), ("SST-2", "sst2 (task)"), ("Multi30k-de-FR", "multi30k-de-fr (task)"),
     ("FineTune", "finetune (adaptation)"), ("Regress", "regress (suite)")],
)  # fmt: skip
def test_info_takes_them_and_shows_the_registered_name(capsys, name, heading):
    assert main(["info", name]) == 0
    assert capsys.readouterr().out.startswith(heading + "\n")


def test_runs_take_them():
    arguments = ["Demo", "--models", "BERT,bert,Majority", "--tasks", "SST-2", "--adaptation", "FineTune"]
    given = runs.run.make_context("run", arguments).params
    expected = {"suite": "demo", "models": ("bert", "majority"), "tasks": ("sst2",), "adaptations": ("finetune",)}
    assert {name: given[name] for name in expected} == expected
    assert runs.pretrain.make_context("pretrain", ["Word2Vec", "--out", "x"]).params["model"] == "word2vec"


@pytest.mark.parametrize(
    "arguments",
    [["score", "SST-2", "--gold", "none", "--predictions", "none"], ["data", "fetch", "SST-9", "--out", "x"],
     ["pretrain", "Bort", "--out", "x", "--corpus", "."], ["run", "Glu", "--out", "x"]],
)  # fmt: skip
def test_unknown_names_are_told_as_they_were_given(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (2, 4)
    said = capsys.readouterr().err
    assert arguments[1] in said or "gold" in said
