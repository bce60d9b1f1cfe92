"""The command line accepts names in other spellings and continues with the registered name."""

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
def test_other_spellings_are_resolved_to_registered_names(kind, given, expected):
    assert registry.resolve(kind, given) == expected


def test_registered_names_resolve_to_themselves_and_ambiguous_ones_are_unchanged():
    for kind in ("models", "objectives", "tasks", "adaptations", "transforms", "conditions", "suites"):
        for name in registry.names(kind):
            assert registry.resolve(kind, name) == name
    assert registry.match("A-B", ("ab", "a_b")) == "A-B" and registry.match("a_b", ("ab", "a_b")) == "a_b"


@pytest.mark.parametrize(
    ("name", "heading"),
    [("BERT", "bert (model)"), ("SST-2", "sst2 (task)"), ("Multi30k-de-FR", "multi30k-de-fr (task)"),
     ("FineTune", "finetune (adaptation)"), ("Regress", "regress (suite)")],
)  # fmt: skip
def test_info_accepts_other_spellings_and_prints_the_registered_name(capsys, name, heading):
    assert main(["info", name]) == 0
    assert capsys.readouterr().out.startswith(heading + "\n")


def test_run_and_pretrain_accept_other_spellings():
    arguments = ["Demo", "--models", "BERT,bert,Majority", "--tasks", "SST-2", "--adaptation", "FineTune"]
    given = runs.run.make_context("run", arguments).params
    expected = {"suite": "demo", "models": ("bert", "majority"), "tasks": ("sst2",), "adaptations": ("finetune",)}
    assert {name: given[name] for name in expected} == expected
    assert runs.pretrain.make_context("pretrain", ["Word2Vec", "--out", "x"]).params["model"] == "word2vec"


@pytest.mark.parametrize(
    "name, arguments",
    [("SST-9", ["info", "SST-9"]), ("SST-9", ["data", "fetch", "SST-9", "--data", "x"]),
     ("Bort", ["pretrain", "Bort", "--out", "x", "--corpus", "."]), ("Glu", ["run", "Glu", "--out", "x"])],
)  # fmt: skip
def test_unknown_names_are_reported_as_given(tmp_path, monkeypatch, capsys, name, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (2, 4)
    assert name in capsys.readouterr().err
