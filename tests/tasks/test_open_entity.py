"""Entity typing: files, real if present, and the metrics of the official scorer."""

from pathlib import Path

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError
from tests.tasks.folders import DATA, real, write_rows


def _mention(name: str, *given: str) -> dict:
    return {"annot_id": name, "left_context_token": ["In", "1999", ","], "mention_span": "the firm \u2028 Acme",
            "right_context_token": ["moved", "."], "y_str": list(given)}  # fmt: skip


def test_open_entity_has_one_example_per_general_type(tmp_path: Path) -> None:
    path = tmp_path / "open_entity" / "crowd" / "train.json"
    write_rows(path, _mention("a", "company", "organization", "group"), _mention("b", "spokeswoman"))
    examples = tasks.load("open_entity").examples(tmp_path, "train")
    assert len(examples) == 18 and {e.inputs[0] for e in examples} == {"In 1999 , * the firm Acme * moved ."}
    assert [e.inputs[1] for e in examples if e.gold == "1"] == ["group", "organization"]
    assert (examples[1].id, examples[1].group, examples[1].gold.whole, examples[1].gold.kind) == (
        "a-group", "a", "a", "group",
    )  # fmt: skip


TYPED = [({"person"}, {"person"}), ({"group", "organization"}, {"group"}), (set(), {"event"}), ({"place"}, set())]
"""Gold and predicted types of four mentions."""


def _reference(pairs: list[tuple[set, set]]) -> dict[str, float]:
    """Computes the formulas of the published scorer, over sets."""
    hits, guessed, actual = (sum(map(len, sets)) for sets in ([g & p for g, p in pairs], [p for _, p in pairs],
                                                             [g for g, _ in pairs]))  # fmt: skip
    p, r = hits / guessed, hits / actual
    precisions = [len(g & q) / len(q) for g, q in pairs if q]
    recalls = [len(g & q) / len(g) for g, q in pairs if g]
    mp, mr = np.mean(precisions), np.mean(recalls)
    found = {"micro_f1": 2 * p * r / (p + r), "macro_f1": 2 * mp * mr / (mp + mr), "micro_precision": p}
    found |= {"micro_recall": r, "strict_accuracy": np.mean([g == q for g, q in pairs])}
    return {name: 100 * float(value) for name, value in found.items()}


def test_types_from_files_are_scored_as_by_the_official_scorer(tmp_path: Path) -> None:
    gold = write_rows(tmp_path / "any.json", *(_mention(str(i), *given) for i, (given, _) in enumerate(TYPED)))
    answers = {str(i): {"gold": [], "pred": [*guess, "firm"]} for i, (_, guess) in enumerate(TYPED)}
    found = score("open_entity", gold, write_rows(tmp_path / "guess.json", answers))
    for name, value in _reference(TYPED).items():
        assert found[name] == pytest.approx(value), name
    assert found["micro_f1"] == pytest.approx(2 * 100 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))  # by hand
    with pytest.raises(DataError, match="no prediction for the example 3-person"):
        del answers["3"]
        score("open_entity", gold, write_rows(tmp_path / "guess.json", answers))
    with pytest.raises(DataError, match='needs a list of types under "pred"'):
        score("open_entity", gold, write_rows(tmp_path / "guess.json", {"0": ["person"]}))


def test_score_without_predicted_types_is_zero() -> None:
    task = tasks.load("open_entity")
    assert task.score(["1", "0"], ["0", "0"])["micro_f1"] == 0 and task.score(["0"], ["0"])["macro_f1"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_str": "person"}, 'line 1: the key "y_str" is .person.; a list'),
        ({"left_context_token": [1]}, 'line 1: the key "left_context_token" must be a list of texts'),
        ({"mention_span": None}, 'line 1: the key "mention_span" is None; a text'),
    ],
)
def test_errors_describe_malformed_mentions(change: dict, message: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "crowd" / "train.json", _mention("a") | change)
    with pytest.raises(DataError, match=message):
        list(tasks.load("open_entity").read(tmp_path, "train"))


@pytest.mark.parametrize(("split", "people"), [("train", 803), ("dev", 759), ("test", 759)])
def test_real_mentions_have_the_official_counts(split: str, people: int) -> None:
    real("open_entity")
    examples = tasks.load("open_entity").examples(DATA, split)
    assert len({e.group for e in examples}) == 1998 and len(examples) == 9 * 1998
    assert sum(e.gold == "1" for e in examples if e.gold.kind == "person") == people
