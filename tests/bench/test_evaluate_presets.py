"""`evaluate` with presets of keras-hub: a backbone is adapted, and a classifier is scored without training."""

import json

import numpy as np
import pytest

import ptmbench
from ptmbench.bench.__main__ import main
from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.bench.runs import published
from ptmbench.bench.runs.external import presets as classifiers
from ptmbench.leaderboard.records.store import load
from ptmbench.tasks import load as loaded_task
from tests.models.published import presets

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def classifier(world, classes=2, activation=None, preprocessor=True, balanced=True):
    """A BERT classifier of keras-hub with large random weights, whose vocabulary is the words of SST-2."""
    import keras_hub

    texts = [" ".join(one.inputs) for one in loaded_task("sst2").examples(world, "dev")]
    words = WORDS + sorted({word for text in texts for word in text.lower().split()})
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=words, lowercase=True)
    shape = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
    found = keras_hub.models.BertTextClassifier(
        backbone=keras_hub.models.BertBackbone(vocabulary_size=len(words), **shape),
        num_classes=classes,
        activation=activation,
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=32)
        if preprocessor
        else None,
    )
    rng = np.random.default_rng(0)
    for weight in found.weights:
        weight.assign(np.asarray(weight) + rng.normal(0, 0.3, weight.shape))
    if balanced:  # so that each class is predicted for some texts
        bias, outputs = found.output_dense.bias, found.predict(texts, verbose=0)
        bias.assign(np.asarray(bias) - np.median(np.log(outputs) if activation == "softmax" else outputs, axis=0))
    return found


def evaluate(folder, world, out, *more):
    return main(["evaluate", str(folder), "--data", str(world), "--out", str(out), *map(str, more)])


def predictions_of(out, record):
    lines = (out / "predictions" / record.predictions["file"].rpartition("/")[2]).read_text().splitlines()
    return [json.loads(line)["prediction"] for line in lines]


def test_a_classifier_is_scored_with_the_predictions_of_keras_hub(tmp_path, world):
    found = classifier(world)
    found.save_to_preset(str(tmp_path / "our-classifier"))
    assert evaluate(tmp_path / "our-classifier", world, tmp_path / "run", "--tasks", "sst2,mnli,stsb") == 0
    by_task = {one.task["name"]: one for one in load([tmp_path / "run"]).records}
    record = by_task["sst2"]
    assert record.row["name"] == "our-classifier" and record.row["division"] == "external"
    assert record.adaptation["name"] == "fixed" and record.seed == 0
    assert record.cost["parameters"] == found.count_params() and record.cost["latency_seconds"] > 0
    examples = loaded_task("sst2").examples(world, "dev")
    theirs = found.predict([one.inputs[0] for one in examples], verbose=0).argmax(-1)
    assert 0 < theirs.mean() < 1
    gold = [int(one.gold) for one in examples]
    assert record.headline["value"] == pytest.approx(100 * np.mean(theirs == gold))
    assert by_task["mnli"].reason["text"] == "because our-classifier has 2 classes and MNLI-m asks for 3 labels."
    assert by_task["stsb"].reason["text"] == "because our-classifier has 2 classes and STS-B asks for a number."
    options = {"tasks": ["sst2"], "data": world, "name": "our-classifier", "out": tmp_path / "object"}
    frame, again = (ptmbench.evaluate(found, **options) for _ in range(2))  # takes the object instead of its folder
    assert frame.score.tolist() == [record.headline["value"]] and frame.key.tolist() == again.key.tolist()
    (other,) = load([tmp_path / "object"]).records
    assert other.row["external"]["sha256"] == record.row["external"]["sha256"], "whenever and wherever it is saved"
    preset = next((tmp_path / "object" / "presets").iterdir())
    assert f"evaluate {preset} --name our-classifier" in frame.command[0]


def test_text_pairs_softmax_outputs_and_regression_are_scored(tmp_path, world):
    found = classifier(world, activation="softmax")
    frame = ptmbench.evaluate(found, tasks=["mrpc"], data=world, limit=64, name="pairs", out=tmp_path / "run")
    examples = loaded_task("mrpc").examples(world, "dev")[:64]
    first, second = zip(*(one.inputs for one in examples), strict=True)
    encoded = found.preprocessor((list(first), list(second)), y=None)
    assert np.asarray(encoded["segment_ids"]).any()
    theirs = np.asarray(found(encoded)).argmax(-1)
    accuracy = 100 * np.mean(theirs == [int(one.gold) for one in examples])
    (record,) = load([tmp_path / "run"]).records
    assert record.scores["accuracy"]["value"] == pytest.approx(accuracy) and frame.status.tolist() == ["ok"]
    number = classifier(world, classes=1)
    options = {"tasks": ["stsb", "sst2"], "data": world, "limit": 64, "out": tmp_path / "numbers"}
    frame = ptmbench.evaluate(number, name="number", **options)
    assert dict(zip(frame.task, frame.status, strict=True)) == {"stsb": "ok", "sst2": "not_applicable"}


def test_presets_of_backbones_are_imported_once(tmp_path):
    presets.save("distilbert", tmp_path / "tiny-hub")
    found = [published.opened(tmp_path / "tiny-hub", tmp_path / "run", name) for name in (None, None, "renamed")]
    assert [one.about["name"] for one in found] == ["tiny-hub", "tiny-hub", "renamed"]
    assert len(list((tmp_path / "run" / "imported").iterdir())) == 2
    assert main(["import", str(tmp_path / "tiny-hub"), "--out", str(tmp_path / "ckpt")]) == 0
    ours = published.opened(tmp_path / "ckpt", tmp_path / "run")
    assert ours.folder == tmp_path / "ckpt" and ours.weights_sha256 == found[0].weights_sha256
    with pytest.raises(UsageError, match="--name is for published folders"):
        published.opened(tmp_path / "ckpt", tmp_path / "run", "renamed")
    (tmp_path / "tiny-hub" / "config.json").write_text("{}")
    with pytest.raises(published.PublishedError, match="tiny-hub"):
        published.opened(tmp_path / "tiny-hub", tmp_path / "run")


@pytest.mark.slow
def test_presets_of_backbones_are_adapted(tmp_path, world):
    presets.save("distilbert", tmp_path / "tiny-hub")
    options = ("--tasks", "sst2", "--adaptation", "features", "--seeds", 1, "--limit", 40, "--set", "length=32")
    assert evaluate(tmp_path / "tiny-hub", world, tmp_path / "run", *options) == 0
    (record,) = load([tmp_path / "run"]).records
    assert record.row["name"] == "tiny-hub" and record.row["division"] == "published" and record.status == "ok"
    assert f"evaluate {tmp_path / 'tiny-hub'}" in record.command
    assert main(["import", str(tmp_path / "tiny-hub"), "--out", str(tmp_path / "ckpt")]) == 0
    assert evaluate(tmp_path / "ckpt", world, tmp_path / "run", *options) == 0
    assert len(load([tmp_path / "run"]).records) == 1, "the same cell as of the imported checkpoint"


def test_models_other_than_text_classifiers_are_refused(tmp_path, world, capsys):
    import keras_hub

    network = presets.save("gpt2", tmp_path / "p")
    options = {"tasks": ["sst2"], "data": world, "out": tmp_path / "run"}
    for given, reason in (
        (network, "The model is GPT2Backbone, but only text classifiers of keras-hub"),
        (classifier(world, preprocessor=False, balanced=False), "no preprocessor, so it reads no texts"),
        (classifier(world, activation="relu", balanced=False), "has the activation 'relu' .* linear or softmax"),
    ):
        with pytest.raises(UsageError, match=reason):
            ptmbench.evaluate(given, **options)
    with pytest.raises(UsageError, match="'bert' would be taken for bert"):
        ptmbench.evaluate(classifier(world, balanced=False), name="bert", **options)
    assert not (tmp_path / "run").exists()
    keras_hub.models.GPT2CausalLM(network).save_to_preset(str(tmp_path / "p"))
    assert not classifiers.is_classifier(tmp_path / "p")
    classifier(world, balanced=False).save_to_preset(str(tmp_path / "c"))
    assert evaluate(tmp_path / "c", world, tmp_path / "run") == 2
    assert "name them with --tasks" in capsys.readouterr().err
    assert evaluate(tmp_path / "c", world, tmp_path / "run", "--tasks", "sst2", "--adaptation", "features") == 2
    assert "--adaptation is for checkpoints, and this model is already trained" in capsys.readouterr().err


def test_damaged_classifiers_and_custom_code_give_errors(tmp_path, world, capsys):
    folder, out = tmp_path / "c", tmp_path / "run"
    classifier(world, balanced=False).save_to_preset(str(folder))
    content = (folder / "task.json").read_text()
    (folder / "task.json").write_text(content.replace('"module": "keras"', '"module": "our_code.layers"'))
    with pytest.raises(BrokenFile, match="names a class of the module 'our_code.layers'.*adapter file"):
        classifiers.read(folder)
    assert evaluate(folder, world, out, "--tasks", "sst2") == 4 and not out.exists()
    (folder / "task.json").write_text(content[:100])
    assert evaluate(folder, world, out, "--tasks", "sst2") == 4 and not out.exists()
    assert "task.json cannot be read as JSON" in capsys.readouterr().err
    (folder / "task.json").write_text(content)
    weights = (folder / "task.weights.h5").read_bytes()
    (folder / "task.weights.h5").write_bytes(weights[: len(weights) // 2])
    assert evaluate(folder, world, out, "--tasks", "sst2") == 1
    (record,) = load([out]).records
    assert record.status == "failed" and "cannot be read by keras-hub" in record.reason["text"]
