"""tf.distribute: one device and two give the same weights."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from pathlib import Path
from bench import environment, pretrain
environment.prepare(1)
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from bench import corpora
from bench.budget import Budget
from models.tokenizers import Tokenizer
from tasks import microworld
folder = Path(sys.argv[1])
microworld.make(folder / "data")
files = [folder / "data" / "corpus"]
tokenizer = Tokenizer.load(corpora.tokenizer(files, "wordpiece", 400))
corpus = corpora.load(tuple(map(str, files)), tokenizer)
recipe = pretrain.recipe_of({"batch": 8, "length": 32})
arrays = []
for name in ("default", "mirrored"):
    strategy = pretrain.strategy_of(name)
    assert strategy is None or strategy.num_replicas_in_sync == 2
    made = pretrain.pretrain("bert", "tiny", corpus=corpus, tokenizer=tokenizer, budget=Budget(steps=10),
                             out=folder / name, recipe=recipe, strategy=strategy)
    arrays.append(made.arrays())
one, two = arrays
print(max(float(np.abs(one[name] - two[name]).max()) for name in one))
"""


@pytest.mark.slow
def test_two_devices_end_with_the_weights_of_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.splitlines()[-1]) < 1e-5
