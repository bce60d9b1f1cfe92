"""Weights split over devices: training equals that on one device, with less memory on each."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.engine.tensor_parallel import layouts
from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import PretrainOptions, WorkerOptions
from ptmbench.models.layers.config import AttentionConfig, FeedForwardConfig
from ptmbench.models.layers.operations import split_columns
from ptmbench.models.layers.split import cuts
from ptmbench.models.text.tokenizers import Vocabulary
from tests.bench.processes import PATIENCE, ROOT

WORDS = Vocabulary(size=30_720)


def work(do: str, devices: int, cases: list[dict], killed: bool = False) -> list[dict]:
    """Runs ``do`` in a process with this number of logical ``devices``, and returns its results."""
    job = json.dumps({"do": do, "devices": devices, "cases": cases})
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.split_worker", job],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr[-3000:]
    return [] if killed else json.loads(done.stdout.splitlines()[-1])


def check_equal_to_one_device(found: dict, parallel: int, devices: int) -> None:
    """Checks that results equal those of one device, and that memory is as computed from the configuration."""
    assert found["change"] > 3e-4, "nothing was learned"
    for name in ("loss", "gradient", "moments", "weights"):
        assert found[name] <= 1e-5, f"{name}: {found[name]}"
    assert found["bytes"] == [found["each"]] * devices
    assert found["each"] < found["one"] * (0.7 if parallel == 2 else 0.5)


@pytest.mark.slow
def test_training_on_two_devices_equals_one_device():
    cases: list[dict] = [{"model": "bert", "model_parallel": 2}]
    cases += [{"model": name, "model_parallel": 2, "size": {"layers": 1}} for name in ("t5", "electra")]
    for found in work("compared", 2, cases):
        check_equal_to_one_device(found, 2, 2)


@pytest.mark.slow
def test_training_on_four_devices_equals_one_device():
    """Either all four split each weight, or two pairs share the batches, with dropout, LAMB and accumulation."""
    size = {"layers": 1}
    cases = [
        {"model": "bert", "model_parallel": 4, "size": size},
        {"model": "gpt", "model_parallel": 2, "dropout": 0.1, "optimizer": "lamb", "accumulate": 2, "size": size},
    ]
    for case, found in zip(cases, work("compared", 4, cases), strict=True):
        check_equal_to_one_device(found, case["model_parallel"], 4)


@pytest.mark.sweep
@pytest.mark.rest
@pytest.mark.parametrize("name", models.names())
def test_every_model_is_split_or_refused(name):
    described = models.load(name).describe(models.load(name).SIZES["tiny"], WORDS)
    try:
        layouts.check(described, 2, name)
    except UsageError:
        assert name not in ("bert", "gpt", "t5", "bart", "xlnet", "albert")
        return
    (found,) = work("compared", 2, [{"model": name, "model_parallel": 2}])
    assert found["gradient"] <= 1e-4


@pytest.mark.slow
def test_a_killed_training_resumes_on_split_weights_and_on_one_device(tmp_path):
    def weights(name: str) -> dict[str, np.ndarray]:
        return checkpoint.read(tmp_path / name).arrays()

    killed, through = (str(tmp_path / name) for name in ("killed", "through"))
    work("pretrained", 2, [{"out": killed, "ways": ["split"], "kill": 3}], killed=True)
    assert {path.name for path in Path(f"{killed}.training").glob("step-*")} == {"step-000000002", "step-000000003"}
    other, back = str(tmp_path / "other"), str(tmp_path / "back")
    cases = [
        {"out": other, "copy": killed, "ways": ["one"]},
        {"out": killed, "ways": ["split"]},
        {"out": through, "ways": ["split"]},
        {"out": back, "ways": ["one", "split"], "halt": 3},
    ]
    found = work("pretrained", 2, cases)
    assert found[1]["manifest"]["devices"] == 2
    assert found[1]["manifest"]["bytes_on_each"] < 0.7 * found[1]["manifest"]["bytes_on_one"]
    whole = weights("through")
    for name, array in weights("killed").items():
        assert np.array_equal(array, whole[name]), name
    for way in ("other", "back"):
        apart = max(np.abs(array - whole[name]).max() for name, array in weights(way).items())
        assert apart <= 5e-5, f"{way}: {apart}"


def test_columns_of_fused_kernels_keep_their_meaning():
    """`split_columns` gives the same parts when the columns lie in groups, one for each device."""
    import tensorflow as tf

    x = np.arange(2 * 24, dtype=np.float32).reshape(2, 24)  # 3 parts of 8 columns
    grouped = np.swapaxes(x.reshape(2, 3, 4, 2), 1, 2).reshape(2, 24)
    for one, other in zip(
        split_columns(tf.constant(x), 3), split_columns(tf.constant(grouped), 3, shards=4), strict=True
    ):
        assert np.array_equal(one, other)


def test_kernels_are_column_and_row_parallel_as_in_megatron():
    """Shoeybi et al. (2019), section 3: the first product by columns with its bias, the second one by rows without."""
    attention = cuts(AttentionConfig(width=8, heads=2))
    assert {weight: (cut.axis, cut.parts) for weight, cut in attention["query_key_value"].items()} == {
        "kernel": (1, 3),
        "bias": (0, 3),
    }
    fed = cuts(FeedForwardConfig(width=8, inner=32, gated=True))
    assert fed["inner"]["kernel"].parts == 2 and fed["inner"]["kernel"].units == 32
    for first_axis in (attention["projection"], fed["outer"]):
        assert {weight: cut.axis for weight, cut in first_axis.items()} == {"kernel": 0}


def test_memory_matches_a_hand_computed_value():
    """One BERT block of width D and inner width F: 12 D^2 + 9 D + F weights with F = 4 D, of which the two biases
    after row-parallel products and the four vectors of the norms, 6 D, are not split."""
    module = models.load("bert")
    size = module.SIZES["base"]
    found = layouts.memory(module.describe(size, WORDS), 4)
    D, F = size.width, size.inner
    block = 4 * D * D + 2 * D * F + 3 * D + F
    assert found.split == 12 * (size.layers * block + WORDS.size * D)
    assert found.each == found.one - found.split * 3 // 4


@pytest.mark.parametrize(
    ("name", "size", "devices", "words"),
    [
        (
            "bert",
            "tiny",
            4,
            "has 2 attention heads, which cannot be divided among 4 devices. --model-parallel can be 2",
        ),
        ("gpt", "base", 5, "has 12 attention heads.* can be 2, 3, 4, 6, 12"),
        ("elmo", "tiny", 2, "has no attention or feed-forward layers"),
    ],
)
def test_networks_that_cannot_be_split_are_rejected(name, size, devices, words):
    module = models.load(name)
    with pytest.raises(UsageError, match=words):
        layouts.check(module.describe(module.SIZES[size], WORDS), devices, name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": "adagrad"}, "gradients are sparse"),
        ({"xla": True}, "cannot be compiled with XLA"),
        ({"rematerialise": True}, "recomputes no activations"),
    ],
)
def test_recipes_that_cannot_be_split_are_rejected(changes, words):
    with pytest.raises(UsageError, match=words):
        layouts.check_recipe(recipe_of(changes))


def test_model_parallel_and_the_tensor_strategy_require_each_other():
    with pytest.raises(UsageError, match="Say over how many"):
        PretrainOptions(model="bert", out=Path("out"), strategy="tensor")
    with pytest.raises(UsageError, match="is for --strategy tensor, not mirrored"):
        WorkerOptions(strategy="mirrored", model_parallel=2)
    assert WorkerOptions(strategy="tensor", model_parallel=2).arguments() == [
        "--strategy",
        "tensor",
        "--model-parallel",
        "2",
    ]


def test_perf_split_prints_the_memory_of_sizes(capsys):
    assert main(["perf", "split", "--models", "bert", "--sizes", "base", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["on_4"] < row["on_2"] < row["on_1"] and 0.5 < row["split"] < 1
