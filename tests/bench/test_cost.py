"""Meters: each second counts in exactly one phase, and FLOPs are counted without padding."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.engine import cost
from ptmbench.bench.engine.cost import Meter, Traced, phase


def rows(*lengths):
    return [
        InputRow({"tokens": np.ones(n, np.int32), "targets": np.ones(2, np.int32)}, i) for i, n in enumerate(lengths)
    ]


def test_nested_phases_do_not_overlap_and_add_up():
    with Meter() as meter:
        time.sleep(0.01)
        with phase("train"):
            time.sleep(0.02)
            with phase("trace"):
                time.sleep(0.04)
            time.sleep(0.02)
        with phase("train"):
            time.sleep(0.01)
    seconds = meter.cost()["seconds"]
    assert list(seconds) == ["other", "train", "trace", "total"]
    assert seconds["trace"] >= 0.04 and seconds["train"] >= 0.05 and seconds["other"] >= 0.01
    assert seconds["total"] == pytest.approx(
        sum(value for name, value in seconds.items() if name != "total"), abs=0.002
    )
    assert meter.cost()["peak_memory_bytes"] > 1 << 20


def test_a_failing_phase_is_counted_and_the_meter_ends():
    with pytest.raises(ValueError), Meter() as meter, phase("load"):
        raise ValueError
    assert set(meter.cost()["seconds"]) == {"other", "load", "total"}
    with phase("load"):  # without a meter, the phase does nothing
        pass


def test_tracing_and_the_first_call_are_separate_phases():
    def trace():
        time.sleep(0.02)
        return lambda x: time.sleep(x) or x

    with Meter() as meter, phase("evaluate"):
        function = Traced(trace)
        assert function(0.03) == 0.03 and function(0.01) == 0.01
    seconds = meter.cost()["seconds"]
    assert seconds["trace"] >= 0.02 and seconds["compile"] >= 0.03 and seconds["evaluate"] >= 0.01


def test_flops_are_counted_at_the_length_of_each_row():
    model = SimpleNamespace(
        encoder_flops=lambda length: length * (10 + length), embedding_flops=lambda length: 7 * length
    )
    decoder = cost.Decoder(lambda length, targets: 100 * length + targets)
    padded = InputRow({"tokens": np.array([7, 7, 7, 0, 0], np.int32)}, 0)
    choices = InputRow({"tokens": np.array([[7, 7, 0], [7, 0, 0], [0, 0, 0]], np.int32)}, 1)
    assert cost.encoder_flops(model, [padded, choices]) == 3 * 13 + 2 * 12 + 1 * 11
    assert cost.decoder_flops(decoder, rows(3, 5)) == 302 + 502
    assert cost.embedding_flops(model, [padded, choices]) == 7 * (3 + 2 + 1)


def test_generation_reads_the_source_once_and_each_token_once():
    """A source token costs 100 FLOPs; a target 7, and 2 for each target that it sees. One case has two hypotheses."""
    decoder = cost.Decoder(lambda length, n: 100 * length + n * (7 + 2 * n))
    written = [np.array([4, 4, 0]), np.array([4, 0, 0])]
    assert cost.writing_flops(decoder, rows(3, 5), written) == (300 + 9 + 11) + (500 + 9)
    assert cost.writing_flops(decoder, rows(3, 5), written, 2) == (300 + 18 + 22) + (500 + 18)
    assert cost.writing_flops(decoder._replace(again=True), rows(3, 5), written, 2) == 2 * ((309 + 322) + 509)
