"""Exports that read raw text: token ids and predictions equal those of ptmbench, in a process without ptmbench."""

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import ptmbench
from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt.heads import layout, stack
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.errors import USAGE, EnvironmentProblem, UsageError
from ptmbench.bench.runs.exports import hard_texts, network, texts, tokenizing
from ptmbench.bench.runs.exports.texts import Layout
from ptmbench.models.text.template import BERT, PLAIN, ROBERTA, XLNET, Template
from ptmbench.models.text.tokenizers import KINDS, Tokenizer, Vocabulary
from tests.bench.cells import SHAPE
from tests.bench.test_exports import adapted  # noqa: F401  a fixture

SERVER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "serve_texts.py"
HARD = list(hard_texts.texts(10_000))
FEW = HARD[:400]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Limits the check of each export to 400 texts."""
    monkeypatch.setattr(texts, "CHECKED", len(FEW))


def trained(kind, lowercase=False, size=1500):
    """Trains a tokenizer on texts in many scripts."""
    return Tokenizer.train(kind, list(hard_texts.LINES) * 4, size, lowercase=lowercase)


def ids_of(tokenizer, given, batch=500):
    graph = tokenizing.of(tokenizer)
    run = tf.function(graph.__call__, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])
    return [row for n in range(0, len(given), batch) for row in run(tf.constant(given[n : n + batch])).to_list()]


def differing(tokenizer, given):
    return [
        text
        for text, ours, theirs in zip(given, tokenizer.encode(given), ids_of(tokenizer, given), strict=True)
        if ours != theirs
    ]


# Token ids ------------------------------------------------------------------------------------------------------------


def test_hard_texts_are_reproducible_and_unique():
    assert len(set(HARD)) == len(HARD) and list(hard_texts.texts(50)) == HARD[:50]
    assert "" in HARD and max(map(len, HARD)) > 700
    assert {"[MASK]", "😀", "\x00", "\u0301", "𠀀"} <= {
        part for text in HARD for part in ("[MASK]", *text) if part in text
    }


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_ids_in_the_graph_equal_those_of_the_tokenizer(kind):
    assert differing(trained(kind, lowercase=kind == "wordpiece"), FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_hard_texts_have_the_same_ids(kind):
    assert differing(trained(kind, lowercase=kind in ("unigram", "bpe")), HARD) == []


def test_a_difference_in_token_ids_is_detected(monkeypatch):
    """A character map with one wrong entry gives other ids, and the comparison reports them."""
    whole = tokenizing._spaced
    monkeypatch.setattr(tokenizing, "_spaced", lambda spec: whole(spec) | {ord("e"): "f"})
    assert len(differing(trained("wordpiece", lowercase=True), FEW)) > 100


@pytest.mark.parametrize("template", [BERT, ROBERTA, XLNET, PLAIN, Template(front=())])
def test_texts_are_truncated_and_laid_out_as_in_the_harness(template):
    vocabulary, rng = Vocabulary(size=100, template=template), np.random.default_rng(0)
    for length in (9, 12, 16):
        laid = Layout(vocabulary, length)
        for count in (1, 2):
            sides = [[rng.integers(40, 99, n).tolist() for n in rng.integers(0, 14, 60)] for _ in range(count)]
            for side in sides:
                side[0] = []
            given = laid([tf.ragged.constant(side, tf.int32, row_splits_dtype=tf.int64) for side in sides])
            rows = [
                texts.InputRow(layout(vocabulary, parts, length), n) for n, parts in enumerate(zip(*sides, strict=True))
            ]
            wanted = stack(rows)
            for name, array in zip(("tokens", "segments"), given, strict=True):
                assert np.array_equal(array.numpy(), wanted[name])


def test_tokenizers_with_unsupported_steps_are_rejected():
    spec = trained("wordpiece").spec
    for change, told in (
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "its pre-tokenizer is WhitespaceSplit"),
        ({"normalizer": {"type": "NFKD"}}, "its normaliser is NFKD"),
    ):
        with pytest.raises(UsageError, match=f"{told}. Export without --texts"):
            tokenizing.of(Tokenizer("wordpiece", spec | change))


# Predictions ----------------------------------------------------------------------------------------------------------


class Served:
    """Runs the example server in a separate process."""

    def __init__(self, folder):
        command = [sys.executable, "-X", "importtime", str(SERVER), str(folder / "saved_model"), "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.imported = []
        threading.Thread(target=lambda: self.imported.extend(self.process.stderr), daemon=True).start()
        self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *raised):
        self.process.kill()
        self.process.wait()

    def post(self, **request):
        with urllib.request.urlopen(self.url, json.dumps(request).encode(), timeout=60) as answer:
            return json.load(answer)


def test_a_served_export_predicts_raw_text_as_predict_does(adapted, tmp_path):  # noqa: F811
    source = adapted("mnli")
    manifest = ptmbench.export(source, format="saved_model", texts=2, out=tmp_path / "out", verbose=False)
    assert manifest["check"]["texts"]["texts"] == len(FEW) and manifest["check"]["texts"]["difference"] < 1e-5
    assert manifest["inputs"] == {name: {"shape": [None], "dtype": "string"} for name in ("pair", "text")}
    assert sorted(manifest["outputs"]) == ["label", "logits", "probabilities"]
    pairs = list(zip(FEW[40:80], FEW[140:180], strict=True)) + [("a dog sleeps", "the cat sat")]
    with Served(tmp_path / "out") as served:
        instances = [{"text": text, "pair": pair} for text, pair in pairs]
        rows = served.post(instances=instances)["predictions"]
        (columns,) = served.post(inputs={"text": ["a dog sleeps"], "pair": ["the cat sat"]}).values()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            served.post(instances=[{"text": "a dog"}])
    imported = {line.split("|")[-1].strip().split(".")[0] for line in served.imported}
    assert {"tensorflow", "tensorflow_text"} <= imported and not {"ptmbench", "tokenizers"} & imported
    wanted = ptmbench.predict(source, pairs, verbose=False)["prediction"].tolist()
    assert [row["label"] for row in rows] == wanted and len(set(wanted)) > 1
    assert columns["label"] == wanted[-1:]
    assert np.allclose(columns["probabilities"], [rows[-1]["probabilities"]], atol=1e-6)
    assert np.allclose(np.sum([row["probabilities"] for row in rows], 1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_long_texts_are_tagged_over_several_rows(adapted, world, tmp_path):  # noqa: F811
    source = adapted("conll2003", length=16)
    out = tmp_path / "out"
    manifest = ptmbench.export(source, format="saved_model", texts=1, length=16, out=out, verbose=False)
    assert manifest["check"]["texts"]["same_tags"] == 1.0
    task = tasks.load("conll2003")
    examples = task.examples(world, task.report)[:12]
    long = [tasks.task.Example(id=f"long {n}", inputs=examples[n].inputs * 5, gold=None) for n in range(4)]
    odd = tasks.task.Example(id="odd", inputs=("a" * 90, "ab" * 60, "\u200b", "dog"), gold=None)
    examples = [*examples, *long, odd]
    serve = tf.saved_model.load(str(out / "saved_model")).signatures["serving_default"]
    given = serve(text=tf.constant([*(" ".join(one.inputs) for one in examples), ""]))
    wanted = network.of(source).trained.answer(examples).predictions
    for example, tags, words, found in zip(
        examples, wanted, given["words"].numpy(), given["tags"].numpy(), strict=False
    ):
        count = len(example.inputs)
        assert [word.decode() for word in words[:count]] == list(example.inputs)
        assert [tag.decode() for tag in found[:count]] == tags and not any(found[count:])
    assert len(given["tags"]) == len(examples) + 1 and len({tag for tags in wanted for tag in tags}) > 2


@pytest.mark.slow
def test_exports_return_scores_and_vectors_of_texts(adapted, tokenizer, tmp_path):  # noqa: F811
    source = adapted("stsb")
    ptmbench.export(source, format="saved_model", texts=2, out=tmp_path / "out", verbose=False)
    serve = tf.saved_model.load(str(tmp_path / "out" / "saved_model")).signatures["serving_default"]
    pairs = list(zip(FEW[:40], FEW[100:140], strict=True))
    sides = {name: tf.constant(side) for name, side in zip(("text", "pair"), zip(*pairs, strict=True), strict=True)}
    wanted = ptmbench.predict(source, pairs, verbose=False)["prediction"]
    assert np.allclose(serve(**sides)["score"], wanted, atol=1e-5)
    built = networks.build("bert", SHAPE, tokenizer, 3)
    about = {"kind": "pretrained", "model": "bert", "shape": vars(SHAPE)}
    arrays = {"weights": networks.weights(built.loss.variables)}
    checkpoint.write(tmp_path / "c", about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})
    ptmbench.export(tmp_path / "c", format="saved_model", texts=1, out=tmp_path / "vectors", verbose=False)
    serve = tf.saved_model.load(str(tmp_path / "vectors" / "saved_model")).signatures["serving_default"]
    found = serve(text=tf.constant(FEW[:40]))["pooled"]
    assert np.abs(found - ptmbench.encode(tmp_path / "c", FEW[:40], verbose=False)).max() < 2e-5


@pytest.mark.slow
def test_an_export_with_different_token_ids_is_not_kept(adapted, tmp_path, monkeypatch):  # noqa: F811
    source = adapted("sst2")
    monkeypatch.setattr(tokenizing._Wordpiece, "words", lambda self, given: tf.strings.split(given))
    with pytest.raises(
        EnvironmentProblem, match=r"differ from the tokenizer's in \d+ of \d+ texts, first in .* Nothing"
    ):
        ptmbench.export(source, format="saved_model", texts=1, out=tmp_path / "out", verbose=False)
    assert not (tmp_path / "out").exists()


def test_invalid_text_exports_are_rejected(adapted, tmp_path, capsys):  # noqa: F811
    source, out = adapted("conll2003"), str(tmp_path / "out")
    for arguments, told in (
        (("--format", "litert", "--texts", "1"), "--texts is for --format saved_model"),
        (("--format", "saved_model", "--texts", "2"), "tags the words of one text. Give --texts 1"),
    ):
        assert main(["export", str(source), "--out", out, *arguments]) == USAGE
        assert told in capsys.readouterr().err
