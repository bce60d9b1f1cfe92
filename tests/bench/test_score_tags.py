"""Files of predicted tags: the official scores of words and spans, and refusals."""

import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError
from tests.bench.files import written

ROOT = Path(__file__).resolve().parents[2]

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nsays VB I-VP O\n\nBonn NNP I-NP I-LOC\nBerlin NNP I-NP B-LOC\n"


@pytest.mark.parametrize(
    "text",
    [
        "EU I-ORG I-ORG\nsays O O\n\n\nBonn I-LOC I-LOC\nBerlin B-LOC O\n",
        "I-ORG\nO\n\nI-LOC\nO\n",
        "-DOCSTART- O\n\nEU\tI-ORG\r\nsays\tO\r\n\r\nBonn\tI-LOC\r\nBerlin\tO",
    ],
)
def test_tagging_is_scored(tmp_path: Path, text: str) -> None:
    result = score("conll2003", written(tmp_path / "eng.testb", CONLL), written(tmp_path / "guess", text))
    words = 5 if "-DOCSTART-" in text else 4
    assert result == pytest.approx(
        {"task": "conll2003", "examples": 2, "precision": 100, "recall": 200 / 3, "f1": 80, "headline": 80}
        | {"token_accuracy": 100 * (words - 1) / words}
    )


def test_a_docstart_line_counts_as_a_word_as_in_conlleval(tmp_path: Path) -> None:
    """By hand, from the script: it skips only empty lines and -X-, so a tag on the line counts like any other."""
    gold = written(tmp_path / "eng.testb", CONLL + "\n-DOCSTART- -X- O O\n\nParis NNP I-NP I-LOC\n")
    guess = CONLL.replace("B-LOC", "O") + "\n-DOCSTART- -X- O I-LOC\n\nParis NNP I-NP I-LOC\n"
    result = score("conll2003", gold, written(tmp_path / "guess", guess))
    assert (result["examples"], result["token_accuracy"]) == (3, pytest.approx(100 * 5 / 7))
    assert (result["precision"], result["recall"]) == (75, 75)
    with pytest.raises(DataError, match="guess, line 9: 'Q' is not a tag"):
        score("conll2003", gold, written(tmp_path / "guess", guess.replace("-X- O I-LOC", "-X- O Q")))


def test_conll2003_has_as_many_words_as_in_conlleval(tmp_path: Path) -> None:
    """eng.testb: 46,666 (46,435 words and 231 -DOCSTART- lines), the number in published output of the script."""
    folder = ROOT.parent / "shared" / "data" / "conll2003"
    if not folder.is_dir():
        pytest.skip("no real data: ../shared/data/conll2003 is missing")
    gold = tasks.load("conll2003").paths(folder.parent, "test")[0]
    rows = gold.read_text(encoding="utf-8").split("\n")
    place = next(n for n, row in enumerate(rows) if row.endswith(" O") and not row.startswith("-DOCSTART-"))
    rows[place] = rows[place][:-1] + "I-PER"
    result = score("conll2003", gold, written(tmp_path / "guess", "\n".join(rows)))
    assert result["token_accuracy"] == pytest.approx(100 * 46665 / 46666, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "EU O\nsays O\n\nBonn O\n",
            "guess, line 5: expected 'Berlin' of .* line 7, but found the end of the sentence",
        ),
        ("EU O\nsays O\n\nParis O\nBerlin O\n", "line 4: expected 'Bonn' .* found 'Paris'"),
        ("EU O\nsays O\n", "eng.testb, line 6: this sentence is number 2; the other file has none"),
        ("EU O\nsays O\n\nBonn O\nBerlin O\n\nx O\n", "guess, line 7: this sentence is number 3"),
    ],
)
def test_tagging_refuses_other_words(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score("conll2003", written(tmp_path / "eng.testb", CONLL), written(tmp_path / "guess", text))


@pytest.mark.parametrize(
    ("text", "line", "tag"),
    [
        ("EU\nsays\n\nBonn\nBerlin\n", 1, "EU"),
        ("EU O\nsays VB\n\nBonn O\nBerlin O\n", 2, "VB"),
        ("EU o\nsays O\n\nBonn O\nBerlin O\n", 1, "o"),
        ("EU \0O\nsays O\n\nBonn O\nBerlin O\n", 1, r"\\x00O"),
    ],
)
def test_invalid_tags_are_refused(tmp_path: Path, text: str, line: int, tag: str) -> None:
    """conlleval takes an invalid tag for a word outside entities, so a file without tags would score 0."""
    gold, guess = written(tmp_path / "eng.testb", CONLL), written(tmp_path / "guess", text)
    with pytest.raises(DataError, match=rf"guess, line {line}: '{tag}' is not a tag. Expected: O, or B-"):
        score("conll2003", gold, guess)
    with pytest.raises(DataError, match="is not a tag"):
        score("conll2003", written(gold, CONLL.replace("I-ORG", "VB")), guess)


def test_predictions_in_the_format_of_gold_must_have_the_same_texts(tmp_path: Path) -> None:
    """ABSA's ids are list positions: without this check, other or reordered texts would be scored against gold."""
    pair = {
        "aspects": [{"index": 0, "from": 0, "to": 1, "polarity": "POS", "term": ["x"]}],
        "opinions": [{"index": 0, "from": 2, "to": 3, "term": ["y"]}],
    }
    rows = [{"raw_words": text, "words": text.split()} | pair for text in ("food is good", "staff was nice")]
    gold, guess = written(tmp_path / "test_convert.json", json.dumps(rows)), tmp_path / "guess.json"
    assert score("absa", gold, written(guess, json.dumps(rows)))["f1"] == 100
    with pytest.raises(DataError, match="guess.json: 0 is about 'staff was nice', but in .* about 'food is good'"):
        score("absa", gold, written(guess, json.dumps(rows[::-1])))

    opinion = {"target_entity": "LOCATION1", "aspect": "safety", "sentiment": "Positive"}
    texts = [{"id": 7, "text": "LOCATION1 is safe", "opinions": [opinion]}]
    gold = written(tmp_path / "sentihood-test.json", json.dumps(texts))
    assert score("sentihood", gold, written(guess, json.dumps(texts)))["aspect_f1"] == 100
    with pytest.raises(DataError, match="guess.json: 7-LOCATION1-general appears twice"):
        score("sentihood", gold, written(guess, json.dumps(texts * 2)))


def test_a_line_that_starts_an_abstract_is_not_a_sentence(tmp_path: Path) -> None:
    gold = written(tmp_path / "Genia4EReval1.iob2", "###MEDLINE:1\n\nIL-2\tB-protein\n\n###MEDLINE:2\n\nbinds\tO\n")
    guess = written(tmp_path / "guess", "###MEDLINE:1\n\nIL-2\tO\n\n###MEDLINE:2\n\nbinds\tO\n")
    result = score("jnlpba", gold, guess)
    assert (result["examples"], result["token_accuracy"]) == (2, 50.0)


def test_a_gold_file_with_a_missing_tag_is_refused(tmp_path: Path) -> None:
    gold = written(tmp_path / "test.tsv", "a\tO\n\nDiana\n")
    with pytest.raises(DataError, match="test.tsv, line 3: 'Diana' has no tag"):
        score("ncbi_disease", gold, written(tmp_path / "guess", "a\tO\n\nDiana\tO\n"))
