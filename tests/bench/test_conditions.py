"""Conditions: the registry, its contract, and misspellings against expected words."""

import difflib

import numpy as np
import pytest

from ptmbench.bench.adapt import _folders, conditions, transforms
from ptmbench.bench.adapt.conditions.contract import Condition
from ptmbench.bench.adapt.conditions.misspellings import KINDS, NEIGHBOURS, Settings, misspelt
from ptmbench.bench.adapt.transforms.contract import Transform
from ptmbench.bench.errors import BrokenFile
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

TASK = load("sst2")
TEXT = "The remarkable picture is a charming, Wonderful and funny 1984 story of two it does"


def example(name, *texts):
    return Example(id=name, inputs=texts or (TEXT,), gold="1")


def misspell(*examples, seed=0, **settings):
    return conditions.load("misspellings").changed(TASK, examples, Settings(**settings), seed)


@pytest.mark.parametrize("name", conditions.names())
def test_every_folder_defines_a_condition(name):
    found = conditions.load(name)
    assert isinstance(found, Condition) and found.summary and found.version >= 1
    assert any(found.fits(form) for form in Form)


def test_unknown_and_broken_folders_are_reported(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/__init__.py").write_text("")
    assert _folders.names(tmp_path) == ("empty",)
    with pytest.raises(BrokenFile, match=r"no folder .*/conditions/noise\. Choices: misspellings\."):
        conditions.load("noise")
    with pytest.raises(BrokenFile, match=r"no folder .*/transforms/pruning\. Choices: .*heads, int8, .*prune"):
        transforms.load("pruning")
    with pytest.raises(BrokenFile, match=r"misspellings/__init__\.py has no TRANSFORM that fulfils the contract"):
        _folders.load(conditions.Path(conditions.__file__).parent, "misspellings", "TRANSFORM", Transform)


def test_neighbouring_keys_of_the_keyboard():
    """The expected neighbours are those of a QWERTY keyboard."""
    assert set(NEIGHBOURS["g"]) == set("fhtyvb") and set(NEIGHBOURS["q"]) == set("wa")
    assert set(NEIGHBOURS["p"]) == set("ol") and set(NEIGHBOURS["m"]) == set("njk")
    assert all(letter in NEIGHBOURS[other] for letter, near in NEIGHBOURS.items() for other in near)


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelling_changes_one_letter_inside_a_word(kind):
    rng, found = np.random.default_rng(0), set()
    for _ in range(200):
        word = misspelt("Plant", kind, rng)
        found.add(word)
        assert word[0] == "P" and word[-1] == "t"
        assert len(word) == 5 + {"insert": 1, "delete": -1}.get(kind, 0)
    expected = {"delete": {"Pant", "Plnt", "Plat"}, "swap": {"Palnt", "Plnat"}}
    if kind in expected:
        assert found == expected[kind]
    elif kind == "mistype":
        near = {"P" + one + "ant" for one in NEIGHBOURS["l"]} | {"Pl" + one + "nt" for one in NEIGHBOURS["a"]}
        assert found == near | {"Pla" + one + "t" for one in NEIGHBOURS["n"]}
    else:
        places = ((k, one) for k in (1, 2, 3) for one in NEIGHBOURS["Plant"[k]])
        assert found == {"Plant"[: k + 1] + one + "Plant"[k + 1 :] for k, one in places}


def test_only_the_given_share_of_long_words_changes():
    (one,) = misspell(example("7"), share=0.5)
    before, after = TEXT.split(), one.inputs[0].split()
    differ = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(differ) == 4 and one.gold == "1" and one.id == "7"  # half of the eight words with at least four letters
    assert all(sum(c.isalpha() for c in a) >= 4 for a, _ in differ)
    assert all(difflib.SequenceMatcher(None, a, b).ratio() > 0.6 for a, b in differ)
    assert misspell(example("8", "to be or 1234"))[0].inputs == ("to be or 1234",)
    (both,) = misspell(example("9", "nothing here", "something there"), share=0.01)
    assert sum(a != b for a, b in zip(both.inputs, ("nothing here", "something there"), strict=True)) == 1


def test_a_misspelling_depends_only_on_the_seed_and_the_example():
    alone, (_, among) = misspell(example("7")), misspell(example("6"), example("7"))
    assert alone[0] == among and misspell(example("7"), seed=1)[0] != among
    assert misspell(example("6"))[0].inputs != among.inputs
