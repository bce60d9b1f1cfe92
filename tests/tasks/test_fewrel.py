"""Few-shot relation classification: episodes from made-up files, and from the real ones if present."""

from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks import fewrel
from ptmbench.tasks.forms import Marked
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask
from tests.tasks.folders import real, write_rows


def _sentence(word: str) -> dict:
    tokens = ["In", "New", "York", word, "*", "lives"]
    return {"tokens": tokens, "h": ["ann", "Q1", [[3], [5]]], "t": ["new york", "Q2", [[1, 2]]]}


def _relations(path: Path, count: int, sentences: int) -> Path:
    return write_rows(path, {f"P{r}": [_sentence(f"w{r}.{n}") for n in range(sentences)] for r in range(count)})


def test_episodes_consist_of_a_query_and_labelled_sentences(tmp_path: Path) -> None:
    _relations(tmp_path / "fewrel" / "val_wiki.json", 7, 4)
    task = tasks.load("fewrel-5-3")
    examples = task.examples(tmp_path, "dev")
    assert len(examples) == 1000 and [e.id for e in examples[:2]] == ["0", "1"]
    for example in examples:
        query, *solved = example.inputs
        names = [text.name for text in solved]
        assert query.name is None and len(set(names)) == 5 and all(names.count(name) == 3 for name in names)
        assert len(set(map(str, example.inputs))) == 16, "no sentence twice"
        assert example.gold in names and f" {query.split(' * ')[1]} ".startswith(f" w{example.gold[1:]}.")
        assert all(f"w{name[1:]}." in text for name, text in zip(names, solved, strict=True))
    assert len({e.gold for e in examples}) == 7
    assert examples == task.examples(tmp_path, "dev"), "all seeds and models get the same episodes"
    assert [e.gold for e in examples] != [e.gold for e in tasks.load("fewrel-5-1").examples(tmp_path, "dev")]


def test_both_entities_are_marked_at_their_first_mention(tmp_path: Path) -> None:
    found = fewrel.relations(_relations(tmp_path / "x.json", 1, 1))["P0"][0]
    assert found == "In # New York # * w0.0 * * lives"
    assert [found[mark] for mark in found.marks] == ["*", "#"] and found.marks == (16, 3)


def test_variants_of_fewrel(tmp_path: Path) -> None:
    half = tasks.load("fewrel-half")
    _relations(tmp_path / "fewrel" / "val_wiki.json", 16, 3)
    seen = [{text.name for e in half.examples(tmp_path, split) for text in e.inputs} for split in ("train", "dev")]
    assert (len(seen[0] - {None}), len(seen[1] - {None})) == (10, 6) and seen[0] & seen[1] == {None}
    assert tasks.load("fewrel-pubmed-10-5").files["dev"] == ("val_pubmed.json",)
    assert tasks.load("fewrel-10-5").chance == 10
    with pytest.raises(MissingData, match="train_wiki.json"):
        tasks.load("fewrel").examples(tmp_path, "train")
    with pytest.raises(DataError, match="has 16 relations for the dev split; 20-way 1-shot episodes take 20"):
        tasks.load("fewrel-20-1").examples(tmp_path, "dev")
    for name in ("fewrel-x", "fewrel-5-0", "fewrel-1-5", "fewrel-5"):
        with pytest.raises(UnknownTask, match="FewRel has no"):
            tasks.load(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must be one JSON object"),
        ({"P1": [{"tokens": ["a"], "h": ["a", "Q", [[0]]]}]}, "P1, sentence 1: not in FewRel's format"),
        ({"P1": [_sentence("x"), _sentence("x") | {"h": ["a", "Q", [[9]]]}]}, "P1, sentence 2: .*outside the sentence"),
        ({"P1": [_sentence("x") | {"t": ["a", "Q", []]}]}, "P1, sentence 1: not in FewRel's format"),
    ],
)
def test_errors_describe_malformed_relations(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        fewrel.relations(write_rows(tmp_path / "x.json", content))


def test_answers_to_episodes_are_scored(tmp_path: Path) -> None:
    gold = _relations(tmp_path / "any.json", 16, 3)
    episodes = _read_as(gold, "fewrel-half")
    right = {str(i): e.gold for i, e in enumerate(episodes)}
    others = [{text.name for text in e.inputs if text.name} - {e.gold} for e in episodes[:2]]
    answers = right | {str(i): min(names) for i, names in enumerate(others)}
    found = score("fewrel-half", gold, write_rows(tmp_path / "guess.json", answers))
    assert found["accuracy"] == pytest.approx(99.8) and found["examples"] == 1000
    answers |= {"0": "P0"}  # not among the reported relations of "half"
    with pytest.raises(tasks.task.DataError, match="the class 'P0' of 0 is not one of"):
        score("fewrel-half", gold, write_rows(tmp_path / "guess.json", answers))


def _read_as(gold: Path, name: str) -> list[Example]:
    task = tasks.load(name)
    folder = gold.parent / "fewrel"
    folder.mkdir()
    (folder / task.files["dev"][0]).write_bytes(gold.read_bytes())
    return task.examples(gold.parent, "dev")


@pytest.mark.parametrize(("domain", "count", "each"), [("", 16, 700), ("nyt", 25, 100), ("pubmed", 10, 100)])
def test_real_relations_have_the_official_counts(domain: str, count: int, each: int) -> None:
    found = fewrel.relations(real("fewrel", fewrel.DOMAINS[domain]))
    assert len(found) == count and {len(texts) for texts in found.values()} == {each}
    assert all(text[text.marks[0]] == "*" and text[text.marks[1]] == "#" for texts in found.values() for text in texts)


def test_baselines_on_episodes(tmp_path: Path) -> None:
    _relations(tmp_path / "fewrel" / "val_wiki.json", 16, 3)
    task = tasks.load("fewrel-half")
    train, dev = task.examples(tmp_path, "train"), task.examples(tmp_path, "dev")
    constant = task.score([e.gold for e in dev], baselines.predict("majority", task, train, dev))
    assert 15 < constant["accuracy"] < 25  # a fifth, give or take 4 standard deviations
    solved = Marked("a * b * # c #", (2, 8), "P1"), Marked("x * y * # z #", (2, 8), "P2")
    query_example = Example(id="0", inputs=(Marked("x * q * # z #", (2, 8)), *solved), gold="P2")
    assert baselines.predict("bag-of-words", task, [query_example], [query_example]) == ["P2"]
