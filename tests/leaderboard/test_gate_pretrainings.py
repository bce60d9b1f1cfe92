"""The gate between several pre-trainings: their spread counts in the interval of a cell and of the mean of cells."""

import pytest

from tests.leaderboard.gates import between, cells, only
from tests.leaderboard.made import record


def again(number, weights=None, **changes):
    """Makes five seeds of a cell after the pre-training with seed ``number``, which has its own weights by default."""
    made = {"seed": number, "weights_sha256": weights or f"{number:064d}"}
    return list(cells(salt=10 * number, pretraining=made, **changes))


def test_spread_between_pretrainings_makes_a_drop_inconclusive(tmp_path):
    """A drop of three points is a regression by the spread of the seeds alone. It is inconclusive if the standard
    deviation between pre-trainings is seven points."""
    head = again(1, level=1.05, sd=0.01)
    clear = between(tmp_path / "clear", [again(0, sd=0.01)], [head], stated={"sst2": 0.01})
    open_ = between(tmp_path / "open", [again(0, sd=0.01)], [head])
    assert only(clear).drop.value == only(open_).drop.value > 2
    assert only(clear).verdict == "regression" and open_.verdict == only(open_).verdict == "inconclusive"
    assert only(open_).drop.from_pretraining == pytest.approx(2 * 7.0**2)
    assert only(open_).drop.variance == pytest.approx(only(clear).drop.variance + 98 - 2e-4)
    assert "spread between pre-trainings is too large" in only(open_).reason
    far = between(tmp_path / "far", [again(0)], [again(1, level=-0.5)])
    assert only(far).verdict == "regression"  # a standard deviation of seven does not explain 50 points


def test_spread_is_measured_over_several_pretrainings(tmp_path):
    """For 3 and 2 pre-trainings, the test is Student's t over the means of the pre-trainings."""
    levels = (1.2, 1.0, 1.4)
    base = [again(i, level=level, sd=0.01) for i, level in enumerate(levels)]
    head = [again(10 + i, level=level, sd=0.01) for i, level in enumerate((0.8, 0.6))]
    cell = only(between(tmp_path / "measured", base, head))
    assert cell.method == "mixed t over pre-trainings" and cell.drop.seeds == (3, 2) and cell.seeds == (15, 10)
    assert "measured over 3 and 2 pre-trainings" in " ".join(cell.notes)
    means = [[sum(one.headline["value"] for one in group) / 5 for group in groups] for groups in (base, head)]
    pooled = sum(sum((x - sum(own) / len(own)) ** 2 for x in own) for own in means) / 3
    assert cell.drop.from_pretraining == pytest.approx(pooled * (1 / 3 + 1 / 2)) and cell.drop.from_seeds == 0
    assert cell.drop.freedom_of_pretraining == pytest.approx(3)
    single = only(between(tmp_path / "single", base, [again(10, level=0.8, sd=0.01)], stated={"all": 0.1}))
    assert single.drop.seeds == (3, 1) and single.drop.freedom_of_pretraining == pytest.approx(2)
    same = only(between(tmp_path / "same", base, [again(i, level=1.19, sd=0.01) for i in range(3)]))
    assert same.drop.paired and same.drop.from_pretraining == 0 and same.drop.seeds == (15, 15)
    bare = [[record(task="sst2", seed=one.seed, value=one.headline["value"], pretraining=dict(one.pretraining),
                    command="without predictions")
             for one in group] for group in base]  # fmt: skip
    other = only(between(tmp_path / "bare", bare, head))
    assert other.method == "scores and their intervals only over pre-trainings" and other.drop.value > 0


def test_cells_of_one_pretraining_are_correlated_in_the_mean(tmp_path):
    def mean(name, *models):
        sides_ = [[again(number, task=task, name=model) for task in ("sst2", "cola") for model in models]
                  for number in (0, 1)]  # fmt: skip
        if len(models) > 1:
            sides_ = [[again(number, task=task, name=model, weights=f"{model:0>60}{number:04d}")
                       for task, model in zip(("sst2", "cola"), models, strict=True)] for number in (0, 1)]  # fmt: skip
        return between(tmp_path / name, *sides_, stated={"all": 1.0}).macro.drop.from_pretraining

    assert mean("one", "bert") == pytest.approx(2.0) and mean("two", "bert", "gpt") == pytest.approx(1.0)


def test_untrained_cells_of_other_weights_include_the_pretraining_spread(tmp_path):
    asis = {"adaptation": {"name": "cloze"}, "seeds": [0]}
    cell = only(between(tmp_path, [cells(**asis)], [cells(salt=1, pretraining={"weights_sha256": "0" * 64}, **asis)]))
    assert cell.drop.from_pretraining == pytest.approx(98) and cell.drop.variance > 98 and cell.drop.exact_p is None
