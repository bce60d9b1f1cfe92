"""``doctor --accelerator``: checks of a training step, and processes that fail or hang."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.__main__ import main
from ptmbench.bench.errors import CELLS_FAILED, OK, USAGE, UsageError
from ptmbench.bench.runs.proof import case, cases, report, text
from ptmbench.models.objective import PAIRS

DEVICE = {"kind": "CPU", "device": "a processor", "devices": 1, "matrix_flops_per_second": 1e12, "width": 8}
DEVICE |= {"tensorflow": "2.21.0"}


def concrete(function, *shapes):
    import tensorflow as tf

    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def test_a_step_with_static_shapes_is_accepted():
    import tensorflow as tf

    from ptmbench.bench.runs.proof.graph import examine

    weight = tf.Variable(tf.ones((3, 3)))

    def step(x):
        return weight.assign_add(tf.map_fn(lambda row: row * 2.0, tf.nn.softmax(tf.matmul(x, weight))))

    result = examine(concrete(step, (3, 3)))
    assert not result.dynamic and not result.refused and not result.wide
    assert result.operations["MatMul"] == 1 and result.operations["While"] + result.operations["StatelessWhile"] == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda tf, x: tf.strings.as_string(x), ["AsString: no kernel in tf2xla"]),
        (lambda tf, x: tf.numpy_function(np.sin, [x], tf.float32), ["PyFunc: no kernel in tf2xla"]),
        (lambda tf, x: tf.cast(x, tf.complex128) * 2, ["Cast: type complex128", "Mul: type complex128"]),
        (lambda tf, x: tf.raw_ops.Print(input=x, data=[x]), ["Print: unsupported by TPU replication"]),
        (
            lambda tf, x: tf.map_fn(lambda row: tf.strings.to_number(tf.strings.as_string(row)), x),
            ["AsString: no kernel"],
        ),
    ],
    ids=["strings", "python", "types", "replication", "inside a loop"],
)
def test_operations_that_a_tpu_refuses_are_listed(function, words):
    import tensorflow as tf

    from ptmbench.bench.runs.proof.graph import examine

    refused = examine(concrete(lambda x: function(tf, x), (4,))).refused
    for word in words:
        assert any(one.startswith(word) for one in refused), refused


def test_types_without_a_kernel_are_refused():
    """In XLA, matrix products of 8-bit integers are another operation."""
    import tensorflow as tf

    from ptmbench.bench.runs.proof.graph import refusals

    node = concrete(lambda x: tf.matmul(x, x), (2, 2)).graph.as_graph_def().node
    product = next(one for one in node if one.op == "MatMul")
    assert not [*refusals(product)]
    product.attr["T"].type = tf.uint8.as_datatype_enum
    assert [*refusals(product)] == [
        f"MatMul: no kernel for uint8 in {device}" for device in ("XLA_CPU_JIT", "XLA_GPU_JIT")
    ]


def test_shapes_that_depend_on_values_are_found():
    import tensorflow as tf

    from ptmbench.bench.runs.proof.graph import examine

    result = examine(concrete(lambda x: tf.boolean_mask(x, x > 0), (4,)))
    assert "Where: [?, 1]" in result.dynamic
    assert examine(concrete(lambda x: x + 1, (None, 2))).dynamic[0] == "AddV2: [?, 2]"
    assert examine(concrete(lambda x: tf.cast(x, tf.float64), (4,))).wide[0] == "Cast"


def test_axes_of_a_broadcast_gradient_are_static_if_its_shapes_are():
    import tensorflow as tf

    from ptmbench.bench.runs.proof.graph import examine

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            product = tf.matmul(tf.ones([3, 1, 2, 4]), x)  # batches of 3 x 1 and of 5
        return tape.gradient(product, x)

    static, dynamic = (examine(concrete(gradient, (batch, 4, 2))) for batch in (5, None))
    assert static.operations["BroadcastGradientArgs"] == 1 and not static.dynamic
    assert dynamic.dynamic and not any("BroadcastGradientArgs" in one for one in dynamic.dynamic)


def test_the_synthetic_corpus_has_what_every_model_needs():
    words = text.vocabulary(200)
    for needs in ((), (PAIRS, "languages"), ("regions",)):
        corpus = text.corpus(words, needs, 3000, 32)
        assert len(corpus.ids) >= 3000 and corpus.ids.min() >= words.first and corpus.ids.max() < words.size
        assert len(corpus.heads) == len(corpus.layers["entities"]) == len(corpus.layers["languages"]) == len(corpus.ids)
        assert (np.diff(corpus.documents) == (2 if PAIRS in needs else 6)).all()
        assert (corpus.media is None) == ("regions" not in needs)


def test_large_sizes_scale_base_as_bert_large_scales_bert_base():
    large = case.shape_of(models.load("bert"), "large", 128)
    assert (large.layers, large.width, large.heads, large.inner) == (24, 1024, 16, 4096)
    for name in models.names():
        base, large = (case.shape_of(models.load(name), size, 128) for size in ("base", "large"))
        assert large.layers == 2 * base.layers and large.width % large.heads == 0 and large.width > base.width


def planned(kind="CPU", names=("bert",), sizes=None, checks=None, **changes):
    return cases.planned(kind, names, sizes, checks, **changes)


def test_cases_depend_on_the_devices():
    (tiny,) = planned()
    assert (tiny.size, tiny.batch, tiny.length, tiny.checks) == ("tiny", 4, 32, case.CHECKS)
    assert [one.size for one in planned("GPU")] == ["base", "large"]
    assert planned(checks=("speed", "graph"))[0].checks == ("graph", "speed")
    assert len(planned(names=None)) == len(models.names())
    with pytest.raises(UsageError, match="bert has no size 'huge' here. Choices: tiny, mini, small, base, large."):
        planned(sizes=("huge",))
    with pytest.raises(UsageError, match="There is no check 'everything'"):
        planned(checks=("everything",))
    with pytest.raises(UsageError, match="Give an even --batch"):
        planned(batch=3)


def run_instead_of_case(monkeypatch, code):
    """Runs ``code`` instead of `bench.runs.proof.case`."""
    start = subprocess.Popen
    monkeypatch.setattr(cases.subprocess, "Popen", lambda command, **more: start([sys.executable, "-c", code], **more))


TELLS = (
    'import os, sys, time; print(\'{"begun": "step"}\\n{"found": {"loss": 2.5}}\\n{"begun": "speed"}\', flush=True); '
)


@pytest.mark.parametrize(
    ("code", "seconds", "words"),
    [
        (TELLS + "time.sleep(600)", 3, "speed: not finished after 3 s"),
        (TELLS + "os.kill(os.getpid(), 9)", 60, "speed: the process ended with status -9."),
        (TELLS + "sys.exit('no memory is left')", 60, "speed: the process ended with status 1. no memory is left"),
        (TELLS + 'print(\'{"failed": "Out of memory."}\')', 60, "speed: Out of memory."),
    ],
    ids=["hangs", "killed", "crashes", "fails"],
)
def test_a_failed_model_gives_a_row_with_its_results_so_far(code, seconds, words, monkeypatch):
    run_instead_of_case(monkeypatch, code)
    messages = []
    (row,) = cases.rows(planned(), seconds, messages.append)
    assert row["failed"] == words and row["loss"] == 2.5 and row["model"] == "bert"
    assert words in messages[0] and words in report.line(row | {"parameters": 1, "compile_seconds": 1.0}, DEVICE)


ROW = {"model": "bert", "size": "tiny", "batch": 4, "length": 32, "vocabulary": 1000, "devices": 2}
ROW |= {"checks": case.CHECKS, "operations": 62, "nodes": 1945, "dynamic": [], "refused": [], "wide": []}
ROW |= {
    "parameters": 625130,
    "loss": 7.6,
    "compile_seconds": 3.0,
    "steps_per_second": 40.0,
    "tokens_per_second": 5120.0,
}
ROW |= {"flops_per_second": 5e11, "memory_bytes": 2**30, "repeated": 0.0, "resumed": 0.0}
ROW |= {"replicas": 2, "replicas_equal": True, "mirrored_loss": 0.0, "mirrored_weights": 1e-7}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"repeated": 1e-3, "resumed": 1.5e-3}, ""),
        ({"resumed": 1e-6}, "a resumed training ends elsewhere"),
        ({"loss": float("nan")}, "the loss is not finite"),
        ({"dynamic": ["Where: [?, 1]"]}, "shapes are not static: Where"),
        ({"refused": ["PyFunc: no kernel in tf2xla"]}, "a TPU would refuse PyFunc"),
        ({"replicas_equal": False}, "replicas end with different weights"),
        ({"mirrored_weights": 0.5}, "a mirrored training ends elsewhere"),
    ],
    ids=str,
)
def test_rows_pass_or_fail_with_a_reason(changes, words):
    row = ROW | changes
    assert report.mistake(row).startswith(words) and bool(report.mistake(row)) == bool(words)
    assert (" passed |" in report.line(row, DEVICE)) == (not words)


def test_the_table_is_markdown_with_a_cell_for_each_heading():
    (heading, rule), line = report.head(case.CHECKS).splitlines(), report.line(ROW, DEVICE)
    assert heading.count("|") == rule.count("|") == line.count("|")
    assert "| 50.0% | 1.00 GiB | exactly | 2, 1.0e-07 | passed |" in line
    assert "exactly" not in report.line(ROW | {"checks": ("graph",)}, DEVICE)
    assert report.objectives([ROW]).startswith("2 of ")


def test_the_report_lists_what_was_not_checked():
    on_processor = " ".join(report.missing(DEVICE, [ROW]))
    assert "neither a GPU nor a TPU" in on_processor and "there is no TPU" in on_processor
    (one, tpu) = report.missing(DEVICE | {"kind": "GPU"}, [ROW])
    assert "there is one GPU: mirroring" in one and "no TPU" in tpu
    assert not [*report.missing(DEVICE | {"kind": "TPU", "devices": 8}, [ROW])]
    (remaining,) = report.missing(DEVICE | {"kind": "TPU", "devices": 8}, [ROW | {"checks": ("graph",)}])
    assert remaining == "Not asked for: step, speed, resume, mirrored."


def test_options_without_accelerator_are_usage_errors(capsys):
    assert main(["doctor", "--models", "bert"]) == USAGE
    assert "--models is for --accelerator" in capsys.readouterr().err


@pytest.mark.parametrize("failing", [False, True])
def test_the_exit_status_tells_whether_all_models_passed(failing, monkeypatch, capsys):
    result = SimpleNamespace(device=DEVICE, row=ROW | ({"failed": "step: no"} if failing else {}))
    monkeypatch.setattr(cases, "devices", lambda limit: result.device)
    monkeypatch.setattr(cases, "rows", lambda planned, limit, tell: iter([result.row]))
    assert main(["doctor", "--accelerator", "--models", "BERT"]) == (CELLS_FAILED if failing else OK)
    assert "| bert | tiny |" in capsys.readouterr().out
    main(["doctor", "--accelerator", "--json"])
    assert json.loads(capsys.readouterr().out)["model"] == "bert"


@pytest.mark.parametrize(
    "name", [pytest.param("word2vec", marks=pytest.mark.slow), pytest.param("distilbert", marks=pytest.mark.sweep)]
)
def test_a_model_passes_on_logical_devices(name):
    """All checks in a new process. DistilBERT also needs a teacher."""
    command = [sys.executable, "-m", "ptmbench", "doctor", "--accelerator", "--models", name, "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == OK, done.stdout + done.stderr
    row = json.loads(done.stdout)
    assert row["resumed"] == row["repeated"] == 0 and row["replicas"] == 2 and row["replicas_equal"]
    assert row["dynamic"] == row["refused"] == row["wide"] == [] and row["flops_per_second"] > 0
