"""`ptmbench.score` with predictions passed as values: all containers score alike, and mismatches raise clear errors."""

import pandas as pd
import pytest

import ptmbench
from ptmbench.bench.errors import UsageError
from ptmbench.tasks.task import DataError


@pytest.fixture
def data(tmp_path):
    (tmp_path / "glue/SST-2").mkdir(parents=True)
    (tmp_path / "glue/SST-2/dev.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t0\nfine\t1\nso so\t0\n")
    return tmp_path


def frame(*names):
    return pd.DataFrame({"task": names, "id": ["0", "1", "2", "3"], "prediction": ["1", "0", "0", "0"]})


@pytest.mark.parametrize(
    "predictions",
    [["1", "0", "0", "0"], {0: "1", 1: "0", 2: "0", 3: "0"}, frame("sst2", "sst2", "sst2", "sst2"),
     frame("sst2", "sst2", "sst2", "sst2").drop(columns="task").to_dict("records")],
    ids=["order", "mapping", "frame", "lines"],
)  # fmt: skip
def test_all_prediction_containers_give_the_same_scores(predictions, data):
    expected = {"task": "sst2", "examples": 4, "accuracy": 75.0, "headline": 75.0}
    assert ptmbench.score("sst2", predictions, data=data) == expected
    assert ptmbench.score("sst2", predictions, data / "glue/SST-2/dev.tsv") == expected


@pytest.mark.parametrize(
    ("predictions", "words"),
    [
        (["1", "0"], "There are 2 predictions for the 4 examples"),
        ({"0": "1"}, "^predictions has no prediction for the example 1 of"),
        (["1", "0", "2", "0"], "^predictions, line 3"),
        ([], "There is no prediction for SST-2"),
        (frame("rte", "rte", "rte", "rte"), "There is no prediction for SST-2"),
        (pd.DataFrame({"answer": ["1"]}), "has an 'id' and a 'prediction', but this one has answer"),
    ],
)
def test_mismatched_predictions_raise_a_clear_error(predictions, words, data):
    with pytest.raises(DataError, match=words):
        ptmbench.score("sst2", predictions, data=data)


def test_gold_labels_come_from_exactly_one_source(data):
    with pytest.raises(UsageError, match="either gold"):
        ptmbench.score("sst2", ["1"])
    with pytest.raises(UsageError, match="split names a split below data"):
        ptmbench.score("sst2", ["1"], data / "glue/SST-2/dev.tsv", split="dev")
