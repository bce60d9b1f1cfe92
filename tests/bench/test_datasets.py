"""`ptmbench.dataset`: the batches of a pre-training in tf.data, saved and resumed."""

import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

import ptmbench
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.errors import UsageError
from ptmbench.models import load
from ptmbench.models.text.tokenizers import Tokenizer

SENTENCES = [f"the {a} {b} sees the {c} and sleeps" for a in ("red", "old") for b in "abcdefg" for c in "hijklmn"]
OPTIONS = {"vocabulary": 120, "batch": 4, "length": 32, "seed": 3}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(line + ("\n" if n % 5 == 4 else "") for n, line in enumerate(SENTENCES)) + "\n")
    return file


def assert_equal_batches(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(other[name]))


def batches(model, text):
    """Returns the batches of `bench.runs.pretrain`, as a function of step and seed."""
    tokenizer = Tokenizer.load(corpora.tokenizer([text], "wordpiece", 120))
    network = networks.build(model, sized(load(model), "tiny", 32), tokenizer, 3)
    return network.batches(corpora.load((str(text),), tokenizer), 4, 32)


def test_batches_equal_those_of_a_pre_training(text):
    make = batches("bert", text)
    data = ptmbench.dataset("bert", corpus=[text], **OPTIONS)
    assert (
        tuple(data.element_spec["tokens"].shape) == (4, 32) and data.element_spec["masked_weights"].dtype == "float32"
    )
    for step, batch in enumerate(islice(data, 4)):
        assert_equal_batches(batch, make(step, 3))
    later = ptmbench.dataset("bert", corpus=[text], start=1000, **OPTIONS)
    assert_equal_batches(next(iter(later)), make(1000, 3))
    other = ptmbench.dataset("bert", corpus=[text], **OPTIONS | {"seed": 4})
    assert not np.array_equal(next(iter(other))["tokens"], next(iter(data))["tokens"])


def test_an_iterator_is_saved_and_restored(text, tmp_path):
    import tensorflow as tf

    make = batches("gpt2", text)
    data = ptmbench.dataset("gpt2", corpus=[text], **OPTIONS).prefetch(2)
    iterator = iter(data)
    for _ in range(3):
        next(iterator)
    saved = tf.train.Checkpoint(batches=iterator).save(str(tmp_path / "loop"))
    for step in (3, 4):
        assert_equal_batches(next(iterator), make(step, 3))
    for again in (iterator, iter(ptmbench.dataset("gpt2", corpus=[text], **OPTIONS).prefetch(2))):
        tf.train.Checkpoint(batches=again).restore(saved).assert_consumed()
        for step in (3, 4, 5, 6):
            assert_equal_batches(next(again), make(step, 3))


RESUMED = """
import sys
import numpy as np
import tensorflow as tf
import ptmbench

if __name__ == "__main__":
    text, saved, out = sys.argv[1:]
    data = ptmbench.dataset("bert", corpus=[text], vocabulary=120, batch=4, length=32, seed=3, verbose=False)
    iterator = iter(data)
    tf.train.Checkpoint(batches=iterator).restore(saved).assert_consumed()
    np.savez(out, **{name: array.numpy() for name, array in next(iterator).items()})
"""


@pytest.mark.slow
def test_another_process_resumes_a_saved_iterator(text, tmp_path):
    import tensorflow as tf

    iterator = iter(ptmbench.dataset("bert", corpus=[text], **OPTIONS))
    next(iterator)
    saved = tf.train.Checkpoint(batches=iterator).save(str(tmp_path / "loop"))
    following = next(iterator)
    (tmp_path / "resumed.py").write_text(RESUMED)
    subprocess.run(
        [sys.executable, tmp_path / "resumed.py", text, saved, tmp_path / "next.npz"], check=True, timeout=300
    )
    assert_equal_batches(dict(np.load(tmp_path / "next.npz")), following)


READ_AHEAD = """
import sys
import time
import numpy as np
from ptmbench.bench.runs.datasets import from_batches

def slow(step, seed):
    time.sleep(0.3)
    return {"tokens": np.full((2, 3), step, np.int32)}

if __name__ == "__main__":
    data = from_batches(slow, seed=0)
    iterator = iter(data.prefetch(2) if sys.argv[1] == "prefetch" else data)
    print(next(iterator)["tokens"][0, 0].numpy())
"""


def test_a_script_ends_while_tensorflow_still_prefetches(tmp_path):
    (tmp_path / "script.py").write_text(READ_AHEAD)
    scripts = [
        subprocess.Popen([sys.executable, tmp_path / "script.py", how], stdout=subprocess.PIPE, text=True)
        for how in ("as it is", "prefetch")
    ]
    try:
        for script in scripts:
            assert script.communicate(timeout=240)[0] == "0\n"
            assert script.returncode == 0
    finally:
        for script in scripts:
            script.kill()


def test_a_checkpoint_provides_its_tokenizer(text, tmp_path):
    ptmbench.pretrain(
        "gpt2", corpus=[text], vocabulary=120, steps=1, out=tmp_path / "c", recipe={"batch": 2, "length": 32}
    )
    data = ptmbench.dataset(tmp_path / "c", corpus=[text], batch=4, length=32, seed=3)
    assert_equal_batches(next(iter(data)), batches("gpt2", text)(0, 3))
    with pytest.raises(UsageError, match="its own tokenizer is taken"):
        ptmbench.dataset(tmp_path / "c", corpus=[text], vocabulary=100)
    with pytest.raises(UsageError, match="reads at most"):
        ptmbench.dataset(tmp_path / "c", corpus=[text], length=1 << 12)


def test_invalid_arguments_of_dataset_are_rejected(text):
    with pytest.raises(UsageError, match="corpus must be a sequence"):
        ptmbench.dataset("bert", corpus="text.txt")
    with pytest.raises(UsageError, match="start is the number of the first step"):
        ptmbench.dataset("bert", corpus=[text], start=-1)
    with pytest.raises(UsageError, match="distilbert learns from the network of a teacher, bert"):
        ptmbench.dataset("distilbert", corpus=[text], **OPTIONS)
    with pytest.raises(UsageError, match="batch"):
        ptmbench.dataset("bert", corpus=[text], batch=0)
