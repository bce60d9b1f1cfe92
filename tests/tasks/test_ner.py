"""Named entities: the readers of the corpora, tagging schemes, and the surface forms of WNUT 2017."""

from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.columns import to_iob2
from ptmbench.tasks.forms import Tags
from ptmbench.tasks.metrics.entity_f1 import entities, entity_f1
from ptmbench.tasks.metrics.surface_f1 import surface_f1
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
MENTIONS = {  # per type, as in the publications, such as BC5CDR's 15,935 chemicals and 12,852 diseases
    "bc5cdr": {"Chemical": (5203, 5347, 5385), "Disease": (4182, 4246, 4424)},
    "ncbi_disease": {"Disease": (5134, 787, 960)},
}


@pytest.mark.parametrize(
    ("name", "split", "count"),
    [
        ("bc5cdr", "train", 4560),
        ("bc5cdr", "dev", 4581),
        ("bc5cdr", "test", 4797),
        ("ncbi_disease", "train", 5424),
        ("ncbi_disease", "dev", 923),
        ("ncbi_disease", "test", 940),
    ],
)
def test_real_corpora_have_the_official_counts(name: str, split: str, count: int) -> None:
    task = tasks.load(name)
    try:
        examples = task.examples(DATA, split)
    except MissingData as reason:
        pytest.skip(f"no real data: {reason}")
    assert len(examples) == count
    found = [kind for example in examples for _, _, kind in entities(example.gold)]
    place = ("train", "dev", "test").index(split)
    assert {kind: found.count(kind) for kind in MENTIONS[name]} == {k: n[place] for k, n in MENTIONS[name].items()}
    assert all(example.gold.words == example.inputs for example in examples)


def test_jnlpba_numbers_its_abstracts(tmp_path: Path) -> None:
    text = "###MEDLINE:1\n\nIL-2\tB-DNA\ngene\tI-DNA\n\nx\tO\n\n###MEDLINE:2\n\nT\tB-cell_type\ncells\tI-cell_type\n"
    (tmp_path / "Genia4ERtask1.iob2").write_text(text)
    examples = list(tasks.load("jnlpba").read(tmp_path, "train"))
    assert [(example.inputs, example.group) for example in examples] == [
        (("IL-2", "gene"), "1"), (("x",), "1"), (("T", "cells"), "2"),
    ]  # fmt: skip
    with pytest.raises(MissingData, match="no dev split"):
        tasks.load("jnlpba").paths(tmp_path, "dev")


def test_wikiann_strips_the_language_prefix_from_words(tmp_path: Path) -> None:
    for language, text in (("en", "en:Oslo\tB-LOC\nen::\tO\n"), ("zh-min-nan", "zh-min-nan:Tâi-oân\tB-LOC\n")):
        (tmp_path / "wikiann" / language).mkdir(parents=True)
        (tmp_path / "wikiann" / language / "test").write_text(text)
    task = tasks.load("wikiann-zh-min-nan")
    assert task.name == "wikiann-zh-min-nan" and tasks.load("wikiann-en") is tasks.load("wikiann")
    (example,) = task.examples(tmp_path, "test")
    spoken = {"languages": ("zh-min-nan",)}
    assert example == Example(id="0", inputs=("Tâi-oân",), gold=("B-LOC",), channels=spoken)
    assert example.gold.words == ("Tâi-oân",)
    assert tasks.load("wikiann").examples(tmp_path, "test")[0].inputs == ("Oslo", ":")
    for bad in ("../x", "DE", "", "d e"):
        with pytest.raises(UnknownTask, match="has no language"):
            tasks.load(f"wikiann-{bad}")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", ""),
        ("I-PER I-PER O I-PER", "B-PER I-PER O B-PER"),  # IOB1
        ("I-PER B-PER I-PER", "B-PER B-PER I-PER"),
        ("I-PER I-LOC", "B-PER B-LOC"),
        ("B-PER I-PER B-PER", "B-PER I-PER B-PER"),  # IOB2
        ("S-PER S-PER", "B-PER B-PER"),  # BIOES: two entities, which conlleval would take for one
        ("B-PER E-PER B-PER E-PER", "B-PER I-PER B-PER I-PER"),
        ("B-PER I-PER E-PER S-LOC O", "B-PER I-PER I-PER B-LOC O"),
        ("O E-PER", "O B-PER"),  # valid in no scheme: repaired
        ("B-creative-work I-creative-work I-group", "B-creative-work I-creative-work B-group"),
    ],
)
def test_every_tagging_scheme_is_converted_to_iob2(tags: str, expected: str) -> None:
    assert to_iob2(tags.split()) == tuple(expected.split())


@pytest.mark.parametrize(
    ("gold", "guess", "right", "predicted", "actual"),
    [  # counts worked out by conlleval's rules for where a chunk starts and ends
        ("B-X I-X O", "I-X I-X O", 1, 1, 1),  # another scheme, the same entity
        ("B-X I-X O", "O I-X O", 0, 1, 1),  # repaired to an entity of one word
        ("B-X I-X", "B-X I-Y", 0, 2, 1),  # a change of type begins a new entity
        ("B-X B-X", "S-X S-X", 0, 1, 2),  # S does not begin an entity: one entity of two words
        ("S-X S-X", "S-X S-X", 1, 1, 1),
        ("B-X E-X", "B-X I-X", 1, 1, 1),
        ("B-X O B-X", "B-X I-X I-X", 0, 1, 2),
        ("O O", "O O", 0, 0, 0),
        ("B-X", "O", 0, 0, 1),
        ("O", "B-X", 0, 1, 0),
    ],
)
def test_entity_f1_repairs_tags_as_conlleval(gold: str, guess: str, right: int, predicted: int, actual: int) -> None:
    found = entity_f1([gold.split()], [guess.split()])
    precision, recall = (100 * right / n if n else 0 for n in (predicted, actual))
    f1 = 2 * precision * recall / (precision + recall) if right else 0
    assert (found["precision"], found["recall"], found["f1"]) == pytest.approx((precision, recall, f1))


def _sentence(text: str) -> tuple[Tags, list[str]]:
    """Parses "word/gold/prediction ..." into gold and predicted tags. A missing prediction equals the gold tag."""
    parts = [word.split("/") for word in text.split()]
    return Tags((part[1] for part in parts), (part[0] for part in parts)), [part[-1] for part in parts]


@pytest.mark.parametrize(
    ("texts", "right", "predicted", "actual"),
    [  # sets of (words, type), as the shared task's script makes them
        (["Oslo/B-l", "Oslo/B-l"], 1, 1, 1),  # one name that occurs twice
        (["Oslo/B-l", "Oslo/B-l/O"], 1, 1, 1),  # found in one of two places counts as found
        (["Oslo/B-l/O", "Rome/O/B-l"], 0, 1, 1),
        (["Oslo/B-l", "oslo/B-l"], 2, 2, 2),  # names are case-sensitive
        (["Łódź/B-l", "Ło\u0301dź/B-l"], 2, 2, 2),
        (["Oslo/B-l/O", "Oslo/O/B-l"], 0, 1, 1),  # the right name, predicted where it is not tagged
        (["Oslo/B-l", "Oslo/B-g/B-l"], 1, 1, 2),  # the same name with another type is another name
        (["New/B-l York/I-l", "New/B-l/B-l York/I-l/O"], 1, 2, 1),
        (["x/O"], 0, 0, 0),
        ([], 0, 0, 0),
    ],
)
def test_surface_f1_counts_each_surface_form_once(texts: list[str], right: int, predicted: int, actual: int) -> None:
    pairs = [_sentence(text) for text in texts]
    found = surface_f1([gold for gold, _ in pairs], [guess for _, guess in pairs])
    precision, recall = (100 * right / n if n else 0 for n in (predicted, actual))
    f1 = 2 * precision * recall / (precision + recall) if right else 0
    expected = {"surface_precision": precision, "surface_recall": recall, "surface_f1": f1}
    assert found == pytest.approx(expected)


def test_surface_f1_rejects_a_different_number_of_tags() -> None:
    with pytest.raises(DataError, match="Sentence 1 has 1 words but 2 predicted tags"):
        surface_f1([Tags(["O"], ["x"])], [["O", "O"]])


def test_wnut17_is_scored_from_files(tmp_path: Path) -> None:
    gold, guess = tmp_path / "emerging.test.annotated", tmp_path / "guess"
    gold.write_text("Oslo\tB-location\nand\tO\n\nOslo\tB-location\n")
    guess.write_text("Oslo\tB-location\nand\tO\n\nOslo\tO\n")
    found = score("wnut17", gold, guess)
    assert (found["recall"], found["surface_recall"], found["examples"]) == (50, 100, 2)
    gold.write_text("Oslo\tB-LOC\n")
    with pytest.raises(DataError, match=r"annotated, line 1: .*creative-work.*B-LOC"):
        list(tasks.load("wnut17").read(tmp_path, "test"))
