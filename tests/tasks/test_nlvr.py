"""NLVR: the official layout, its regions, both metrics, and the microworld's scenes in the same layout."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.tasks.forms import Part
from ptmbench.tasks.shapes import FEATURES, regions
from ptmbench.tasks.task import DataError
from tests.tasks.folders import real, write_rows

OBJECT = {"y_loc": 80, "type": "triangle", "color": "#0099ff", "x_loc": 70, "size": 20}
ROW = {
    "sentence": "There is a box",
    "label": "true",
    "identifier": "7-1",
    "directory": "0",
    "evals": {},
    "structured_rep": [[], [OBJECT], [OBJECT | {"type": "circle", "color": "Black", "size": 10, "x_loc": 0}]],
}


def read(folder: Path, *rows: object) -> list:
    write_rows(folder / "train/train.json", *rows)
    return list(tasks.load("nlvr").read(folder, "train"))


def test_objects_are_read_as_regions(tmp_path):
    (example,) = read(tmp_path, ROW)
    assert (example.id, example.inputs, example.gold, example.group) == ("7-1", ("There is a box",), "true", "7")
    found, boxes = example.channels["regions"], example.channels["boxes"]
    assert found.dtype == boxes.dtype == np.float32 and found.shape == (2, FEATURES)
    assert found[0].tolist() == pytest.approx([1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0.7, 0.8, 0.9, 1.0])
    assert found[1].tolist() == pytest.approx([0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0.0, 0.8, 0.1, 0.9])
    assert boxes[0].tolist() == pytest.approx([220 / 400, 0.8, 240 / 400, 1.0])
    assert boxes[1].tolist() == pytest.approx([300 / 400, 0.8, 310 / 400, 0.9])


def test_a_picture_without_objects_has_no_regions():
    assert {name: array.shape for name, array in regions([[], [], []]).items()} == {
        "regions": (0, FEATURES),
        "boxes": (0, 4),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "maybe"}, "line 2: the label 'maybe'"),
        ({"identifier": "7"}, "line 2: the \"identifier\" '7'"),
        ({"structured_rep": [[OBJECT]]}, 'line 2: "structured_rep" is a list of 3'),
        ({"structured_rep": [[OBJECT | {"size": 25}], [], []]}, 'line 2: the "size" of an object is 25'),
        ({"structured_rep": [[OBJECT | {"type": "star"}], [], []]}, "line 2: the \"type\" of an object is 'star'"),
        ({"structured_rep": [[OBJECT | {"x_loc": 81}], [], []]}, 'line 2: the "x_loc" of an object of size 20 is 81'),
        ({"structured_rep": [["circle"], [], []]}, "line 2: an object is 'circle'"),
    ],
)
def test_errors_name_file_and_line_of_a_bad_row(tmp_path, change, words):
    with pytest.raises(DataError) as error:
        read(tmp_path, ROW, ROW | change)
    assert words in str(error.value) and "train.json" in str(error.value)


@pytest.mark.parametrize(("split", "rows", "true"), [("dev", 989, 547), ("test", 990, 556)])
def test_official_files_have_the_official_counts(split, rows, true):
    path = real("nlvr", split, f"{split}.json")
    examples = tasks.load("nlvr").examples(path.parents[2], split)
    assert len(examples) == rows and sum(one.gold == "true" for one in examples) == true
    objects = [sum(map(len, json.loads(line)["structured_rep"])) for line in path.read_text().splitlines()]
    assert [len(one.channels["regions"]) for one in examples] == objects


def test_metrics_equal_those_of_the_official_script():
    """The script counts a sentence as consistent unless one of its pictures is judged wrong."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 60, 200)
    gold = [Part(("false", "true")[rng.integers(2)], whole=str(number)) for number in whole]
    guesses = [str(one) if rng.random() < 0.8 else "true" for one in gold]
    right, consistent = 0, defaultdict(lambda: True)
    for number, label, guess in zip(whole, gold, guesses, strict=True):
        right += label == guess
        consistent[number] &= label == guess
    found = tasks.load("nlvr").score(gold, guesses)
    assert found["accuracy"] == found["headline"] == 100 * right / 200
    assert found["consistency"] == 100 * sum(consistent.values()) / len(consistent)
    assert 0 < found["consistency"] < found["accuracy"] < 100


def test_each_sentence_is_true_of_one_scene_and_false_of_another(data):
    """Each microworld sentence has a picture of which it is true and one of which it is false, so the words alone do
    not determine the label."""
    for split in ("train", "dev", "test"):
        examples = tasks.load("nlvr").examples(data, split)
        assert len(examples) == {"train": 400}.get(split, 200)
        labels = defaultdict(set)
        for example in examples:
            labels[example.group, example.inputs].add(str(example.gold))
        assert all(found == {"false", "true"} for found in labels.values())


def test_captions_are_true_of_their_scenes(data):
    """Compares the captions with the region features that a model reads."""
    lines = (data / "scenes/microworld.txt").read_text().split("\n")
    with np.load(data / "scenes/microworld.npz") as file:
        pictures = dict(file)
    colours, types = ("yellow", "black", "blue"), ("triangle", "square", "circle")
    begins = np.concatenate([[0], pictures["ends"]])
    sidecar = (data / "scenes/microworld.txt.layers.jsonl").read_text().splitlines()
    checked = 0
    for number, row in enumerate(map(json.loads, sidecar[1:])):
        assert row["picture"] == pictures["ids"][number] and (number == 0 or not lines[row["line"] - 2])
        regions = pictures["regions"][begins[number] : begins[number + 1]]
        seen = {(colours[one[3:6].argmax()], types[one[:3].argmax()]) for one in regions}
        for caption in lines[row["line"] - 1 : row["line"] + 3]:
            words = caption.split()
            if words[:3] in (["there", "is", "a"], ["there", "is", "no"]) and words[3] in colours:
                checked += 1
                assert ((words[3], words[4]) in seen) == (words[2] == "a")
    assert checked > 1000
