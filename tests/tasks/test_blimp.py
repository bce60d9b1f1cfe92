"""BLiMP: its files, its variants, its metric, and the official counts if the real data is present."""

import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score import scores as scored
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.forms import Part
from ptmbench.tasks.metrics.minimal_pairs import preference
from ptmbench.tasks.task import DataError, Example, UnknownTask
from tests.tasks.folders import real, write_rows


def pair(number: int, name: str = "island", **changes: str) -> dict[str, str]:
    row = {"sentence_good": f"Good {number}.", "sentence_bad": f"Bad {number}.", "UID": name}
    return row | {"linguistics_term": "islands", "pairID": str(number)} | changes


def folder(tmp_path: Path) -> Path:
    for name in ("island", "binding"):
        write_rows(tmp_path / f"blimp/data/{name}.jsonl", *(pair(n, name) for n in range(5)))
    return tmp_path


def test_pairs_are_ordered_by_paradigm_with_the_acceptable_sentence_first(tmp_path: Path) -> None:
    found = tasks.load("blimp").examples(folder(tmp_path), "test")
    assert [one.id for one in found] == [f"{name}-{n}" for name in ("binding", "island") for n in range(5)]
    assert found[6].channels == {"languages": ("en", "en")}
    assert found[6].inputs == ("Good 1.", "Bad 1.") and (found[6].gold, found[6].gold.kind) == ("island", "islands")


def test_variant_has_the_first_pairs_of_each_paradigm(tmp_path: Path) -> None:
    found = tasks.load("blimp-2").examples(folder(tmp_path), "test")
    assert [one.id for one in found] == ["binding-0", "binding-1", "island-0", "island-1"]
    assert tasks.load("blimp-2").name == "blimp-2" and tasks.load("blimp-2") is tasks.load("blimp-2")
    for wrong in ("blimp-0", "blimp-x", "blimp--3", "blimp-02"):
        with pytest.raises(UnknownTask, match="blimp-100"):
            tasks.load(wrong)


def test_ties_and_nan_count_as_wrong() -> None:
    gold = [Part("x")] * 5
    scores = [(-1.0, -2.0), (-2.0, -1.0), (-1.0, -1.0), (float("nan"), -1.0), (-1.0, float("nan"))]
    assert preference()(gold, scores) == {"accuracy": 20.0}
    assert preference()(gold[:1], [(-1.0, float("-inf"))]) == {"accuracy": 100.0}


def test_each_phenomenon_has_its_accuracy() -> None:
    gold = [Part("x", kind=kind) for kind in ("binding", "binding", "ellipsis", "of our own")]
    found = preference(("binding", "ellipsis", "quantifiers"))(gold, [(1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
    assert found == {"accuracy": 50.0, "binding": 50.0, "ellipsis": 100.0}
    task = tasks.load("blimp")
    scores = scored(
        task, [Example(id=str(n), inputs=("", ""), gold=one) for n, one in enumerate(gold)], [(1.0, 0.0)] * 4
    )
    assert set(scores) == {"accuracy", "headline", "binding", "ellipsis"}
    assert scores["ellipsis"]["value"] == 100.0 and "quantifiers" not in scores


def test_damaged_files_are_reported(tmp_path: Path) -> None:
    root = folder(tmp_path)
    write_rows(root / "blimp/data/island.jsonl", pair(0), {"UID": "island"})
    with pytest.raises(DataError, match="island.jsonl, line 2"):
        tasks.load("blimp").examples(root, "test")
    for file in (root / "blimp/data").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="has no PARADIGM.jsonl"):
        tasks.load("blimp").examples(root, "test")


def test_external_sentence_scores_are_scored(tmp_path: Path) -> None:
    root = folder(tmp_path)
    examples = tasks.load("blimp").examples(root, "test")
    rows = [{"id": one.id, "scores": [-5.0, -5.5 + n % 2]} for n, one in enumerate(examples)]
    assert score("blimp", root / "blimp", write_rows(tmp_path / "a.jsonl", *rows))["accuracy"] == 50.0
    written = [{"id": row["id"], "prediction": row["scores"]} for row in reversed(rows)]
    assert score("blimp", root / "blimp", write_rows(tmp_path / "b.jsonl", *written))["accuracy"] == 50.0
    for wrong, message in (
        ([*rows, rows[0]], "island|binding"),
        (rows[1:], "binding-0"),
        ([{"id": "island-0", "scores": [1]}], "two numbers"),
        ([{"id": "island-0", "prediction": [1, "2"]}], "two scores"),
    ):
        with pytest.raises(DataError, match=message):
            score("blimp", root / "blimp", write_rows(tmp_path / "c.jsonl", *wrong))


def test_real_blimp_has_the_official_counts() -> None:
    data = real("blimp").parent
    found = tasks.load("blimp").examples(data, "test")
    assert len(found) == 67_000 and len({one.id for one in found}) == 67_000
    assert len({str(one.gold) for one in found}) == 67
    assert len({one.gold.kind for one in found}) == 13, "12 of the paper, of which the files tell s-selection apart"
    assert len(tasks.load("blimp-100").examples(data, "test")) == 6_700
    summary = real("blimp", "raw_results", "summary", "models_summary.jsonl")
    message = {json.loads(line)["UID"] for line in summary.read_text().splitlines()}
    assert message - {"overall"} == {str(one.gold) for one in found}
