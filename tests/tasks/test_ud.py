"""Universal Dependencies: words, tags and heads of CoNLL-U files, handwritten, damaged, and real if present."""

from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks import ud_ewt
from ptmbench.tasks.conllu import sentences
from ptmbench.tasks.metrics.accuracy import word_accuracy
from ptmbench.tasks.task import DataError, UnknownTask
from tests.tasks.folders import real

ROWS = [
    "# newdoc id = a", "# sent_id = a-1", "1 Old old ADJ JJ _ 2 amod _ _", "2-3 dogs' _ _ _ _ _ _ _ _",
    "2 dogs dog NOUN NNS _ 5 nsubj:pass _ _", "3 ' ' PART POS _ 2 case _ _", "4 were be AUX VBD _ 5 aux:pass _ _",
    "5 seen see VERB VBN _ 0 root _ _", "5.1 seen see VERB VBN _ _ _ _ _", "6 near near ADP IN _ 8 case _ _",
    "7 other other ADJ JJ _ 8 amod _ _", "8 dogs dog NOUN NNS _ 5 obl _ _", "", "# sent_id = a-2",
    "1 Yes yes INTJ UH _ 0 root _ _", "",
]  # fmt: skip


def folder(tmp_path: Path, rows: list[str] = ROWS) -> Path:
    path = tmp_path / "ud_ewt"
    path.mkdir(exist_ok=True)
    text = "".join((row if row.startswith("#") else row.replace(" ", "\t")) + "\n" for row in rows)
    for names in ud_ewt.FILES.values():
        (path / names[0]).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("ud_ewt", "ADJ NOUN PART AUX VERB ADP ADJ NOUN"),
        ("ud_ewt-relations", "amod nsubj case aux root case amod obl"),
        ("ud_ewt-heads", "+1_NOUN +1_VERB -1_NOUN +1_VERB root +1_NOUN +1_NOUN -1_VERB"),
    ],
)
def test_annotation_layers_by_hand(tmp_path: Path, name: str, tags: str) -> None:
    first, second = tasks.load(name).examples(folder(tmp_path), "test")
    assert first.inputs == ("Old", "dogs", "'", "were", "seen", "near", "other", "dogs")
    assert list(first.gold) == [tag.replace("_", " ") for tag in tags.split()]
    assert (first.id, first.group, second.id, second.inputs) == ("a-1", "a", "a-2", ("Yes",))
    assert set(first.gold) <= set(tasks.load(name).labels)


def test_heads_can_be_decoded_from_their_tags(tmp_path: Path) -> None:
    """Decodes the tags independently: a tag and the parts of speech of the sentence determine one word."""
    path = folder(tmp_path) / "ud_ewt" / "en_ewt-ud-dev.conllu"
    paths = [path]
    if (real_file := Path(__file__).resolve().parents[2] / "../shared/data/ud_ewt/en_ewt-ud-dev.conllu").exists():
        paths.append(real_file)
    for file in paths:
        far = words_of_all = 0
        for _, _, _, words in sentences(file):
            for place, ((_, _, head, _), tag) in enumerate(zip(words, ud_ewt._heads(words), strict=True), start=1):
                words_of_all += 1
                if tag in ("root", "far"):
                    assert (tag == "root") == (head == 0)
                    far += tag == "far"
                    continue
                count, pos = tag.split()
                others = [n for n, word in enumerate(words, start=1) if word[1] == pos]
                behind = [n for n in others if n > place] if count[0] == "+" else [n for n in others if n < place][::-1]
                assert behind[int(count[1:]) - 1] == head
        assert far <= 0.003 * words_of_all


def test_distant_heads_are_tagged_as_far(tmp_path: Path) -> None:
    nouns = [f"{n} dog dog NOUN NN _ {11 if n == 1 else 0 if n == 11 else 11} dep _ _" for n in range(1, 12)]
    (found,) = tasks.load("ud_ewt-heads").examples(folder(tmp_path, [*nouns, ""]), "test")
    assert found.gold[0] == "far" and found.gold[3] == "+7 NOUN" and found.gold[-1] == "root"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("2 dogs dog NOUN NNS _ x nsubj _ _", "line 5: the head 'x'"),
        ("2 dogs dog NOUN NNS _ 9 nsubj _ _", "cannot have the head 9"),
        ("2 dogs dog NOUN NNS _ 2 nsubj _ _", "cannot have the head 2"),
        ("2 dogs dog NAME NNS _ 5 nsubj _ _", "'NAME' in this sentence"),
        ("3 dogs dog NOUN NNS _ 5 nsubj _ _", "line 5: '3' is not the number"),
        ("2 dogs dog", "line 5: ten columns"),
    ],
)
def test_damaged_files_are_reported(tmp_path: Path, row: str, told: str) -> None:
    with pytest.raises(DataError, match=told) as error:
        tasks.load("ud_ewt").examples(folder(tmp_path, [*ROWS[:4], row, *ROWS[5:]]), "test")
    assert "en_ewt-ud-test.conllu, line" in str(error.value)


def test_predictions_in_the_format_of_the_gold_file_are_scored(tmp_path: Path) -> None:
    gold = folder(tmp_path) / "ud_ewt" / "en_ewt-ud-test.conllu"
    guess = tmp_path / "guess.conllu"
    guess.write_text(gold.read_text().replace("\tINTJ\t", "\tNOUN\t"))
    assert score("ud_ewt", gold, guess)["accuracy"] == pytest.approx(100 * 8 / 9)
    guess.write_text(gold.read_text().replace("Yes", "No"))
    with pytest.raises(DataError, match="is about 'No'"):
        score("ud_ewt", gold, guess)


def test_accuracy_counts_words_and_not_sentences() -> None:
    assert word_accuracy([("A", "B", "C"), ("A",)], [("A", "B", "C"), ("B",)]) == {"accuracy": 75.0}
    with pytest.raises(DataError, match="Sentence 2 has 1 words but 2"):
        word_accuracy([("A",), ("A",)], [("A",), ("A", "B")])


def test_real_treebank_has_the_official_counts() -> None:
    data = real("ud_ewt").parent
    counts = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}
    for split, expected in counts.items():
        for name in ("ud_ewt", "ud_ewt-relations", "ud_ewt-heads"):
            found = tasks.load(name).examples(data, split)
            assert (len(found), sum(len(one.inputs) for one in found)) == expected
            assert all(len(one.inputs) == len(one.gold) for one in found)


def test_unknown_layers_are_rejected() -> None:
    with pytest.raises(UnknownTask, match="relations, heads"):
        tasks.load("ud_ewt-lemmas")
