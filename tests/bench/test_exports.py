"""Exports: exported files predict as the model does, and files that differ and unsuitable models are refused."""

import dataclasses
import hashlib
import json
import sys

import numpy as np
import pytest
import tensorflow as tf

import ptmbench
from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt import heads, predictor
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.adapt.settings import changed, defaults
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.errors import ENVIRONMENT, OK, USAGE, EnvironmentProblem, UsageError
from ptmbench.bench.perf import engines
from ptmbench.bench.runs.exports import formats, network, portable
from tests.bench.cells import SHAPE, make
from tests.bench.test_condition_cells import kept
from tests.bench.test_perf import servant
from tests.bench.test_transform_cells import transformed

needs_onnx = pytest.mark.skipif(
    bool(formats.missing(formats.ONNX)), reason=f"not installed: {', '.join(formats.missing(formats.ONNX))}"
)
LENGTH = 64
TEXTS = ["the cat sat on the mat .", "a dog", "fish swim in the sea all day long , and at night they sleep"]


@pytest.fixture
def adapted(world, tokenizer, tmp_path):
    """Writes an adapted checkpoint with large random weights, so that different texts have different outputs."""

    def write(task, adaptation="finetune", layers=1, **changes):
        found = tasks.load(task)
        settings = changed(defaults(found.form, adaptation), {"length": LENGTH, "stride": 16} | changes)
        train = found.examples(world, "train")[:32]
        codec = heads.of(found.form, adaptation).Codec(found, tokenizer, settings, train)
        own = Neighbour("bert", dataclasses.replace(SHAPE, layers=layers), tokenizer)
        made = predictor.Trained(own=own, task=found, method=adaptation, settings=settings, seed=0, codec=codec)
        rng, weights = np.random.default_rng(5), made.network.arrays()
        deviations = {name: 0.02 if name.startswith("adapted/") else 0.15 for name in weights}
        drawn = {name: rng.normal("scale" in name, deviations[name], weights[name].shape) for name in weights}
        made.network.assign({name: array.astype(np.float32) for name, array in drawn.items()})
        made.save(tmp_path / task, {})
        return tmp_path / task

    return write


def saved_model(folder):
    serve = tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"]
    return lambda given: {k: v.numpy() for k, v in serve(**{k: tf.constant(v) for k, v in given.items()}).items()}


def litert(folder):
    runner = tf.lite.Interpreter(model_path=str(folder / "model.tflite")).get_signature_runner()
    return lambda given: runner(**given)


OPENED = {"saved_model": saved_model, "litert": litert}


def inputs_of(tokenizer, text, length):
    """The inputs for ``text`` as a user of the exported file makes them: ids between [CLS] and [SEP], then zeros."""
    vocabulary = tokenizer.vocabulary
    (ids,) = tokenizer.encode([text])
    tokens = [vocabulary.cls, *ids, vocabulary.sep]
    row = np.zeros((1, length), np.int32)
    row[0, : len(tokens)] = tokens
    return {"tokens": row, "segments": np.zeros_like(row)}


# Outputs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["saved_model", pytest.param("litert", marks=pytest.mark.slow)])
def test_an_exported_classifier_gives_the_labels_of_predict(format, adapted, tokenizer, tmp_path):
    source = adapted("sst2")
    manifest = ptmbench.export(source, format=format, out=tmp_path / "out", verbose=False)
    run = OPENED[format](tmp_path / "out")
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS]
    found = [run(inputs_of(tokenizer, text, LENGTH)) for text in texts]
    labels = [manifest["labels"][int(np.argmax(one["logits"]))] for one in found]
    assert labels == ptmbench.predict(source, texts, verbose=False)["prediction"].tolist()
    assert len({float(one["logits"][0, 0]) for one in found}) == len(texts)
    assert np.allclose([one["probabilities"].sum() for one in found], 1.0, atol=1e-5)
    assert manifest["check"]["difference"] < 1e-5 and manifest["check"]["same_decisions"] == 1.0


@pytest.mark.parametrize(
    ("adaptation", "format"),
    [
        ("multitask", "saved_model"),
        pytest.param("multitask", "litert", marks=pytest.mark.slow),
        pytest.param("mtdnn", "litert", marks=pytest.mark.slow),
    ],
)
def test_a_network_of_several_tasks_is_exported_for_its_own_task(adaptation, format, adapted, tokenizer, tmp_path):
    source = adapted("sst2", adaptation=adaptation, auxiliary="cola")
    manifest = ptmbench.export(source, format=format, out=tmp_path / "out", verbose=False)
    run = OPENED[format](tmp_path / "out")
    wanted = ptmbench.predict(source, TEXTS, verbose=False)["prediction"].tolist()
    found = [run(inputs_of(tokenizer, text, LENGTH))["logits"] for text in TEXTS]
    assert [manifest["labels"][int(np.argmax(one))] for one in found] == wanted
    assert len(manifest["labels"]) == found[0].shape[-1] == 2 and manifest["check"]["difference"] < 1e-5


def test_an_exported_regression_score_is_in_the_unit_of_the_task(adapted, tmp_path):
    source = adapted("stsb")
    manifest = ptmbench.export(source, format="saved_model", out=tmp_path / "out", verbose=False)
    run = saved_model(tmp_path / "out")
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    wanted = ptmbench.predict(source, pairs, verbose=False)["prediction"]
    loaded = network.of(source)
    found = []
    for pair in pairs:
        (row,) = loaded.trained.codec.rows([tasks.task.Example(id="0", inputs=pair, gold=None)])
        found.append(run({name: row.arrays[name][None] for name in ("tokens", "segments")})["score"][0])
    assert np.allclose(found, wanted, atol=1e-5) and len(set(wanted)) > 2
    assert manifest["labels"] == [] and manifest["check"]["same_decisions"] is None


def test_an_exported_tagger_gives_the_tags_of_the_model(adapted, world, tmp_path):
    source = adapted("conll2003")
    manifest = ptmbench.export(source, format="litert", data=world, out=tmp_path / "out", verbose=False)
    assert manifest["check"]["inputs"].startswith("conll2003 ") and manifest["check"]["difference"] < 1e-5
    loaded = network.of(source)
    task = tasks.load("conll2003")
    examples = task.examples(world, task.report)[:5]
    run = litert(tmp_path / "out")
    for example, tags in zip(examples, loaded.trained.answer(examples).predictions, strict=True):
        (row,) = loaded.trained.codec.rows([example])
        given = {name: np.zeros((1, LENGTH), np.int32) for name in ("tokens", "segments")}
        for name, array in given.items():
            array[0, : row.tokens] = row.arrays[name]
        logits = run(given)["logits"][0]
        assert [manifest["labels"][n] for n in logits[row.arrays["places"]].argmax(-1)] == tags


@pytest.fixture
def encoder(tokenizer, tmp_path):
    """Writes a pre-trained checkpoint with random weights."""

    def write(model):
        built = networks.build(model, SHAPE, tokenizer, 3)
        about = {"kind": "pretrained", "model": model, "shape": dataclasses.asdict(SHAPE)}
        arrays = {"weights": networks.weights(built.loss.variables)}
        checkpoint.write(tmp_path / "c", about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})
        return tmp_path / "c"

    return write


@pytest.mark.parametrize("format", ["litert", pytest.param("saved_model", marks=pytest.mark.slow)])
def test_an_exported_encoder_gives_the_vectors_of_encode(format, encoder, tokenizer, tmp_path):
    source = encoder("bert")
    manifest = ptmbench.export(source, format=format, length=32, out=tmp_path / "out", verbose=False)
    run, wanted = OPENED[format](tmp_path / "out"), ptmbench.encode(source, TEXTS, by="token", verbose=False)
    for text, vectors in zip(TEXTS, wanted, strict=True):
        found = run(inputs_of(tokenizer, text, 32))["token_vectors"][0]
        assert np.abs(found[: len(vectors)] - vectors).max() < 2e-5
    assert manifest["outputs"]["pooled"] == {"shape": [1 if format == "litert" else None, 32], "dtype": "float32"}


RECURRENT = ("elmo", "cove", "flair", "multifit", "skip_thought")


@pytest.mark.parametrize("model", [RECURRENT[0], *(pytest.param(one, marks=pytest.mark.slow) for one in RECURRENT[1:])])
def test_recurrent_encoders_are_exported_to_litert(model, encoder, tmp_path):
    """Their loops, reversed rows and words of characters need operators that LiteRT has."""
    manifest = ptmbench.export(encoder(model), format="litert", length=32, out=tmp_path / "out", verbose=False)
    assert manifest["check"]["difference"] < 1e-5 and manifest["inputs"]["tokens"]["shape"] == [1, 32]


def test_an_int8_file_is_smaller_and_its_difference_is_reported(adapted, tmp_path):
    source = adapted("sst2")
    sizes, differences = [], []
    for quantize in (None, "int8"):
        out = tmp_path / f"out-{quantize}"
        manifest = ptmbench.export(
            source, format="litert", quantize=quantize, batch=2, tolerance=0.5, out=out, verbose=False
        )
        sizes.append((out / "model.tflite").stat().st_size)
        differences.append(manifest["check"]["difference"])
        assert manifest["inputs"]["tokens"]["shape"] == [2, LENGTH] and manifest["bytes"] == sizes[-1]
    assert sizes[1] < sizes[0] and differences[0] < 1e-5 < differences[1]


@pytest.mark.slow
def test_a_model_with_int8_weights_is_exported(adapted, tmp_path):
    engines.save_int8(network.of(adapted("sst2")), tmp_path / "int8")
    assert network.of(tmp_path / "int8").rounds
    manifest = ptmbench.export(tmp_path / "int8", format="litert", out=tmp_path / "out", verbose=False)
    assert manifest["transform"]["name"] == "int8" and manifest["check"]["tolerance"] == 0.02


@pytest.mark.slow
def test_transformed_models_are_exported(context, tmp_path):
    cell = make("sst2", "bert", "finetune")
    plain = kept(cell, dataclasses.replace(context, shape=dataclasses.replace(SHAPE, layers=2)))
    for asked in ("heads", "ffn", "layers", "prune:frequency=1+max_steps=2", "qat:max_steps=2", "qbert:max_steps=2"):
        _, given = transformed(asked, cell, plain)
        out = tmp_path / asked
        manifest = ptmbench.export(given.predictor, format="litert", out=out, verbose=False)
        name = asked.partition(":")[0]
        assert manifest["transform"]["name"].partition(":")[0] == name
        assert manifest["check"]["tolerance"] == (0.02 if name in ("qat", "qbert") else 1e-4)


@needs_onnx
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_an_onnx_file_gives_the_outputs_of_the_model_unless_it_is_quantized(quantize, adapted, tmp_path):
    source = adapted("sst2")
    manifest = ptmbench.export(
        source, format="onnx", quantize=quantize, tolerance=0.5, out=tmp_path / "out", verbose=False
    )
    assert (manifest["check"]["difference"] < 1e-5) is (quantize is None)


@needs_onnx
@pytest.mark.parametrize("model", ["bert", *RECURRENT])
def test_encoders_are_exported_to_onnx(model, encoder, tmp_path):
    manifest = ptmbench.export(encoder(model), format="onnx", length=32, out=tmp_path / "out", verbose=False)
    assert manifest["check"]["difference"] < 1e-5 and sorted(manifest["outputs"]) == ["pooled", "token_vectors"]


@needs_onnx
def test_models_of_one_head_are_exported_to_onnx(context, tmp_path):
    plain = kept(make("sst2", "bert", "finetune"), context)
    _, given = transformed("heads", make("sst2", "bert", "finetune"), plain)  # one of two heads
    manifest = ptmbench.export(given.predictor, format="onnx", out=tmp_path / "out", verbose=False)
    assert manifest["check"]["difference"] < 1e-5


def test_a_file_that_its_engine_cannot_run_is_refused(adapted, tmp_path, monkeypatch):
    def broken(inputs):
        raise RuntimeError("matmul_helper: dimension mismatch\nat node 3")

    monkeypatch.setattr(formats.SavedModel, "engine", lambda self, path, threads=1: broken)
    with pytest.raises(EnvironmentProblem, match="engine says 'matmul_helper: dimension mismatch'. Nothing was wr"):
        ptmbench.export(adapted("sst2"), format="saved_model", out=tmp_path / "out", verbose=False)
    assert not (tmp_path / "out").exists()


# The manifest ---------------------------------------------------------------------------------------------------------


def test_the_manifest_describes_the_exported_file(adapted, tmp_path, capsys):
    source, out = adapted("sst2"), tmp_path / "out"
    for _ in range(2):  # an older export is replaced
        assert main(["export", str(source), "--format", "litert", "--out", str(out)]) == OK
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == str(out / "model.tflite") and "100.0% of the decisions" in told.err
    manifest = json.loads((out / "export.json").read_text())
    assert manifest["sha256"] == hashlib.sha256((out / "model.tflite").read_bytes()).hexdigest()
    assert manifest["weights_sha256"] == checkpoint.read(source).weights_sha256
    assert manifest["labels"] == ["0", "1"] and manifest["task"] == "sst2"
    assert manifest["inputs"]["tokens"] == {"shape": [1, LENGTH], "dtype": "int32"}
    assert manifest["outputs"]["logits"] == {"shape": [1, 2], "dtype": "float32"}
    assert not list(tmp_path.glob(".*.tmp"))


# Refusals -------------------------------------------------------------------------------------------------------------


def test_a_file_that_differs_from_the_model_is_not_kept(adapted, tmp_path, monkeypatch):
    source, right = adapted("sst2"), formats.SavedModel.engine

    def wrong(self, path, threads=1):
        run = right(self, path, threads)
        return lambda inputs: {name: 1.01 * array for name, array in run(inputs).items()}

    monkeypatch.setattr(formats.SavedModel, "engine", wrong)
    with pytest.raises(EnvironmentProblem, match=r"differ from the model's by .* tolerance of 0\.0001, on 64 inputs"):
        ptmbench.export(source, format="saved_model", out=tmp_path / "out", verbose=False)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".*.tmp"))
    ptmbench.export(source, format="saved_model", tolerance=0.05, out=tmp_path / "out", verbose=False)
    assert (tmp_path / "out" / "export.json").exists()


@pytest.mark.parametrize(
    ("task", "adaptation", "changes", "told"),
    [
        ("squad11", "finetune", {}, "span is not among classification, regression, tagging"),
        ("conll2003", "finetune", {"crf": 1}, "with crf=1 whole sequences"),
        ("sst2", "fastbert", {"layers": 2}, "fastbert decides while it predicts"),
    ],
)
def test_models_that_cannot_be_exported_are_refused(task, adaptation, changes, told, adapted, tmp_path):
    source = adapted(task, adaptation=adaptation, **changes)
    with pytest.raises(UsageError, match=told):
        ptmbench.export(source, format="saved_model", out=tmp_path / "out", verbose=False)


def test_invalid_options_give_clear_errors(adapted, tmp_path, capsys, monkeypatch):
    source = str(adapted("sst2"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    monkeypatch.setattr(formats, "missing", lambda packages: [name for name in packages if name == "tf2onnx"])
    out = str(tmp_path / "out")
    for arguments, status, told in (
        (("--format", "saved_model", "--quantize", "int8"), USAGE, "--quantize is for --format litert and onnx"),
        (("--format", "litert", "--length", "65"), USAGE, "--length is 65, but this checkpoint reads at most 64"),
        (("--format", "onnx"), ENVIRONMENT, "needs tf2onnx. Not installed: tf2onnx. Install"),
        (("--format", "saved_model", "--out", str(tmp_path / "full")), ENVIRONMENT, "is not an export"),
        ((), ENVIRONMENT, "xport it with --format saved_model, litert or onnx"),
    ):
        assert main(["export", source, *(() if "--out" in arguments else ("--out", out)), *arguments]) == status
        assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Portable graphs ------------------------------------------------------------------------------------------------------


def portable_of(function, *specs):
    """Converts ``function`` with `portable.graph_of`. Returns it and the operators of its graph."""
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    graph, inputs, outputs = portable.graph_of(concrete)

    def run(*tensors):
        return tf.graph_util.import_graph_def(graph, dict(zip(inputs, tensors, strict=True)), outputs, name="")[0]

    return tf.function(run, autograph=False, input_signature=specs), {node.op for node in graph.node}


def test_operators_that_engines_lack_are_replaced_by_equivalent_ones():
    from ptmbench.models.layers.operations import gelu

    rng, floats = np.random.default_rng(0), tf.TensorSpec([None, 16], tf.float32)
    x = (3 * rng.normal(size=(40, 16))).astype(np.float32)
    for function in (gelu, tf.math.erfc, lambda x: gelu(2.0 * gelu(x)) + tf.math.erfc(x)):
        run, operators = portable_of(function, floats)
        assert np.abs(run(x).numpy() - function(tf.constant(x)).numpy()).max() < 2e-6
        assert "Erfc" not in operators
    for limit, narrow in ((2.0, True), (5.0, False), (0.3, True)):

        def rounded(x, limit=limit, narrow=narrow):
            low = tf.constant(-limit)
            return tf.quantization.fake_quant_with_min_max_vars(x, low, -0.7 * low, num_bits=8, narrow_range=narrow)

        run, operators = portable_of(rounded, floats)
        assert "FakeQuantWithMinMaxVars" not in operators
        wanted = rounded(tf.constant(x)).numpy()
        assert np.abs(run(x).numpy() - wanted).max() < 1e-6 and len(np.unique(wanted)) > 30


def test_products_of_int8_codes_are_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-127, 128, (1, 12, 96)).astype(np.int8) for _ in range(2))
    spec = tf.TensorSpec([1, None, 96], tf.int8)
    run, operators = portable_of(lambda a, b: tf.matmul(a, b, transpose_b=True, output_type=tf.int32), spec, spec)
    assert "BatchMatMulV3" not in operators
    wanted = a[0].astype(int) @ b[0].astype(int).T
    assert np.array_equal(run(a, b).numpy()[0], wanted)


# Latency --------------------------------------------------------------------------------------------------------------


def test_engines_are_timed_in_turns():
    with servant("slow", 0.5) as slow, servant("fast", 0.125) as fast:
        for worker in (slow, fast):
            worker.spent = 0.0
            worker.ask = counting(worker)
        spent = engines.in_turns([slow, fast], "1", rounds=3, seconds=1.0)
    assert slow.seconds == {"1": [0.5] * 3} and fast.seconds == {"1": [0.125] * 3}
    assert spent == {"slow": [1.0] * 3, "fast": [0.25] * 3}


def counting(worker):
    """`Worker.ask` of a ``worker`` whose processor time is twice its wall time."""
    ask = type(worker).ask

    def asked(job, times, keep=True):
        each = ask(worker, job, times, keep)
        worker.spent += 2 * each * times
        worker.answer["value"] = worker.spent
        return each

    return asked


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pins processes to a core")
def test_engines_are_measured_and_compared(adapted, capsys):
    arguments = ["--engines", "litert,saved_model", "--batches", "1,2", "--rounds", "2", "--seconds", "0.01", "--json"]
    assert main(["perf", "engines", str(adapted("sst2")), *arguments]) == OK
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["engine"], row["batch"]) for row in rows] == [
        (name, batch) for batch in (1, 2) for name in ("ptmbench", "litert", "saved_model")
    ]
    assert all(0 < row["low"] <= row["median"] <= row["high"] and row["cpu"] > 0 for row in rows)
    assert all(row["difference"] < 1e-5 and row["same_decisions"] == 1.0 and row["megabytes"] > 0 for row in rows)
    assert [row["ratio"] for row in rows if row["engine"] == "ptmbench"] == [1.0, 1.0]
