"""The tokenizer of an exported network, and a program that predicts with the two files and without ptmbench."""

import dataclasses
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import tokenizers

import ptmbench
from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt import predictor
from ptmbench.bench.adapt.heads import layout
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import OK, EnvironmentProblem
from ptmbench.bench.runs.exports import hard_texts, tokenizer_file
from ptmbench.models.text import template
from ptmbench.models.text.tokenizers import KINDS, Tokenizer
from tests.bench.test_exports import adapted

SCRIPT = Path(__file__).parents[2] / "docs/examples/answer_with_litert.py"
TEMPLATES = ("BERT", "ROBERTA", "PROPHETNET", "T5", "PEGASUS", "XLNET", "PLAIN")
_ = adapted  # a fixture


def rows_agree(read, ours, texts, length):
    """Whether the package `tokenizers` encodes ``texts`` as the row that the harness makes."""
    one, row = read.encode(*texts), layout(ours.vocabulary, ours.encode(texts), length)
    return one.ids == row["tokens"].tolist() and one.type_ids == row["segments"].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_tokenizer_gives_the_rows_of_the_harness(kind, text, tmp_path):
    made = Tokenizer.train(kind, [path.read_text() for path in text.files], 300)
    tokenizer_file.write(made, tmp_path / "t.json", 24)
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    hard = [one for one in hard_texts.texts(500, seed=1) if one]
    assert max(len(ids) for ids in made.encode(hard)) > 22  # some are truncated
    assert all(rows_agree(read, made, [one], 24) for one in hard)
    assert rows_agree(read, made, ["a b", "c"], 24)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_exported_tokenizer_adds_the_special_tokens_of_the_model(name, tokenizer, tmp_path):
    laid = dataclasses.asdict(getattr(template, name))
    published = Tokenizer("wordpiece", tokenizer.spec, {"template": laid})
    tokenizer_file.write(published, tmp_path / "t.json", 16)
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    assert rows_agree(read, published, ["the cat"], 16) and rows_agree(read, published, ["the cat", "a dog"], 16)
    assert rows_agree(read, published, ["the cat sat on the mat " * 9], 16)


def test_a_tokenizer_file_with_other_token_ids_is_not_written(tokenizer, tmp_path, monkeypatch):
    content = tokenizer_file._content
    monkeypatch.setattr(tokenizer_file, "_content", lambda *given: content(*given) | {"normalizer": None})
    lower = Tokenizer.train("wordpiece", ["The cat sat . "] * 9, 60, lowercase=True)
    with pytest.raises(EnvironmentProblem, match=r"reads other token ids .* Nothing was written\."):
        tokenizer_file.write(lower, tmp_path / "t.json", 16)
    assert not (tmp_path / "t.json").exists()


@pytest.mark.slow
def test_a_program_predicts_without_ptmbench(adapted, world, tmp_path):  # noqa: F811
    """The example of the documentation. Without ai-edge-litert, TensorFlow's interpreter takes its place."""
    source, out, answers = adapted("sst2"), tmp_path / "out", tmp_path / "predictions.jsonl"
    ptmbench.export(source, format="litert", out=out, verbose=False)
    path = [] if find_spec("ai_edge_litert") else [str(tmp_path)]
    (tmp_path / "ai_edge_litert").mkdir()
    (tmp_path / "ai_edge_litert/interpreter.py").write_text(
        "import tensorflow\n\n\ndef Interpreter(file, num_threads):\n    return tensorflow.lite.Interpreter(file)\n"
    )
    subprocess.run(
        [sys.executable, str(SCRIPT), str(out), str(world / "glue/SST-2/dev.tsv"), str(answers)],
        check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(path)}, capture_output=True, timeout=600,
    )  # fmt: skip
    examples = tasks.load("sst2").examples(world, "dev")
    wanted = predictor.load(checkpoint.read(source)).answer(examples).predictions
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [one["prediction"] for one in found] == wanted and len({*wanted}) == 2
    run = tmp_path / "run"
    given = ["--predictions", str(answers), "--name", "litert", "--seed", "0", "--data", str(world), "--out", str(run)]
    assert main(["record", "sst2", *given]) == OK and list((run / "records").glob("*.json"))
