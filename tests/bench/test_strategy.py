"""tf.distribute: training ends with the same weights, however batches are split."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.engine import distribute
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.perf import strategies
from tests.models.networks import ARCHITECTURES


@pytest.mark.sweep
@pytest.mark.parametrize(
    "chosen",
    [ARCHITECTURES, pytest.param(sorted({*models.names()} - {*ARCHITECTURES}), marks=pytest.mark.rest)],
    ids=["architectures", "rest"],
)
def test_every_strategy_ends_with_the_weights_of_one_device(chosen, tmp_path):
    """Up to rounding: sums are taken in another order, which occasionally flips a ReLU or a sample."""
    for model, row in strategies.measure(chosen, tmp_path).items():
        assert row["change"] > 1e-3, f"{model} learned nothing"
        for way in ("mirrored", "multiworker", "accumulate"):
            assert row[f"{way}_share"] < 0.02, f"{model} in {strategies.TRAINING_MODES[way]}: {row[f'{way}_share']}"


def test_one_device_needs_no_strategy(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert distribute.strategy_of("auto") is None and distribute.strategy_of("one") is None
    assert distribute.is_chief(None) and distribute.workers(None) == 1


@pytest.mark.parametrize(("name", "words"), [("tpu", "No TPU was found"), ("multiworker", "needs TF_CONFIG")])
def test_missing_hardware_or_configuration_is_named(name, words, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(EnvironmentProblem, match=words):
        distribute.strategy_of(name)


def test_a_malformed_tf_config_is_rejected(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "worker 1")
    with pytest.raises(UsageError, match="TF_CONFIG is not the JSON"):
        distribute.strategy_of("auto")


class _TwoReplicas:
    num_replicas_in_sync = 2


def test_a_batch_that_cannot_be_divided_is_rejected():
    distribute.check_split(32, 4, _TwoReplicas())
    with pytest.raises(UsageError, match="multiple of 8"):
        distribute.check_split(12, 4, _TwoReplicas())


def test_replicas_take_their_rows_in_order(monkeypatch):
    """The shares of two replicas, concatenated, are the global batch."""

    class Strategy(_TwoReplicas):
        def experimental_distribute_values_from_function(self, rows):
            contexts = [type("Context", (), {"replica_id_in_sync_group": i}) for i in range(2)]
            return [rows(context) for context in contexts]

    batch = {"tokens": np.arange(24).reshape(6, 4), "next": np.arange(6)}
    shares = distribute.share_of(batch, Strategy())
    for name, value in batch.items():
        assert np.array_equal(np.concatenate([share[name] for share in shares]), value)
