"""Sentiment and topics: handwritten files in the published formats, and malformed files that must be rejected."""

from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError, Example, MissingData


def _write(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding=encoding, newline="")
    return path


CSV = {
    "ag_news": (
        '"3","Wall St. Bears (Reuters)","Reuters - Short-sellers, ""ultra-cynics"",\\ are back."\n"1","A","B"\n',
        'Wall St. Bears (Reuters) Reuters - Short-sellers, "ultra-cynics",\\ are back.',
        ("Business", "World"),
    ),
    "dbpedia": (
        '1,"Abbott"," Abbott of Farnham E D Ltd was a company."\n14,"Naïve ☃","A book."\n',
        "Abbott  Abbott of Farnham E D Ltd was a company.",
        ("Company", "WrittenWork"),
    ),
    "yelp_polarity": (
        '"1","Bad.\\n\\nSo ""bad""."\n"2","Good"\n',
        'Bad.\n\nSo "bad".',
        ("negative", "positive"),
    ),
    "yelp_full": ('"5","Dr. Goldberg, yes"\n"1","No"\n', "Dr. Goldberg, yes", ("5", "1")),
    "yahoo": (
        '"5","why doesn\'t it work?","","Because."\n"10","who?","what?","me"\n',
        "why doesn't it work? Because.",
        ("Computers & Internet", "Politics & Government"),
    ),
}


@pytest.mark.parametrize("name", CSV)
def test_comma_separated_data_sets_are_read(name: str, tmp_path: Path) -> None:
    content, text, labels = CSV[name]
    for split in ("train", "test"):
        _write(tmp_path / f"{split}.csv", content)
        examples = list(tasks.load(name).read(tmp_path, split))
        assert examples[0].inputs == (text,)
        assert [example.gold for example in examples] == list(labels)
        assert [example.id for example in examples] == ["0", "1"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"5","A","B"', "the class '5' is not a number from 1 to 4"),
        ('"0","A","B"', "the class '0' is not a number from 1 to 4"),
        ('"World","A","B"', "the class 'World' is not a number from 1 to 4"),
        ('"1","A"', "2 comma-separated fields where 3 were expected"),
        ('"1","A","B","C"', "4 comma-separated fields where 3 were expected"),
        ('"1","A","B', "not comma-separated values"),
        ('"1","A" x,"B"', "not comma-separated values"),
    ],
)
def test_errors_name_the_line_of_malformed_rows(row: str, message: str, tmp_path: Path) -> None:
    _write(tmp_path / "train.csv", f'"1","A","B"\n\n{row}\n')
    with pytest.raises(DataError, match=f"train.csv, line 3: .*{message}.*official file"):
        list(tasks.load("ag_news").read(tmp_path, "train"))


@pytest.mark.parametrize(
    ("tree", "text", "label"),
    [
        ("(3 (2 It) (4 (2 's) (4 (3 (2 a) (4 lovely)) (2 film))))", "It 's a lovely film", "3"),
        ("(2 (2 -LRB-) (2 (2 and\\/or) (2 -RRB-)))", "( and/or )", "2"),
        ("(0 Naïve)", "Naïve", "0"),
    ],
)
def test_sentiment_trees_are_read(tree: str, text: str, label: str, tmp_path: Path) -> None:
    _write(tmp_path / "dev.txt", f"{tree}\n\n{tree}\n")
    examples = list(tasks.load("sst5").read(tmp_path, "dev"))
    assert [example.id for example in examples] == ["0", "1"]
    assert (examples[1].inputs, examples[1].gold) == ((text,), label)


@pytest.mark.parametrize("tree", ["(3 (2 It) (4 's)", "(5 It)", "It 's", "(3 (2 It)) (2 is)", "(3 (2 It) is)", "(3 )"])
def test_invalid_trees_are_rejected(tree: str, tmp_path: Path) -> None:
    _write(tmp_path / "dev.txt", f"(3 (2 It) (4 's))\n{tree}\n")
    with pytest.raises(DataError, match="dev.txt, line 2: .* is not a tree"):
        list(tasks.load("sst5").read(tmp_path, "dev"))


def _reviews(folder: Path) -> Path:
    for name, text in (
        ("neg/10_2", "Bad.<br /><br />Very bad."),
        ("neg/2_1", "No."),
        ("pos/0_9", "Très bien, \u2028 yes."),
    ):
        _write(folder / "test" / f"{name}.txt", text)
    _write(folder / "test" / "urls_neg.txt", "no review")
    return folder


def test_reviews_are_read_from_folders(tmp_path: Path) -> None:
    examples = list(tasks.load("imdb").read(_reviews(tmp_path), "test"))
    assert examples == [
        Example(id="neg/10_2", inputs=("Bad. Very bad.",), gold="neg"),
        Example(id="neg/2_1", inputs=("No.",), gold="neg"),
        Example(id="pos/0_9", inputs=("Très bien, yes.",), gold="pos"),
    ]
    (tmp_path / "test" / "pos" / "0_9.txt").unlink()
    with pytest.raises(DataError, match=r"pos holds no review"):
        list(tasks.load("imdb").read(tmp_path, "test"))
    with pytest.raises(MissingData):
        tasks.load("imdb").examples(tmp_path, "train")


def test_reviews_are_scored_against_the_official_folder(tmp_path: Path) -> None:
    _reviews(tmp_path)
    guess = _write(tmp_path / "guess.tsv", "index\tprediction\n0\tneg\n1\tpos\n2\tpos\n")
    assert score("imdb", tmp_path / "test", guess)["accuracy"] == pytest.approx(200 / 3)
    _write(guess, "index\tprediction\n0\tneg\n1\tpos\n")
    with pytest.raises(DataError, match="index 2 is the first in only one of them"):
        score("imdb", tmp_path / "test", guess)


def test_trec_questions_are_read_without_their_non_utf8_byte(tmp_path: Path) -> None:
    rows = "DESC:manner How did it ?\r\nNUM:dist How far is a sister\xf0city ?\r\n"
    _write(tmp_path / "train_5500.label", rows, encoding="latin-1")
    examples = list(tasks.load("trec").read(tmp_path, "train"))
    assert [(example.inputs[0], example.gold) for example in examples] == [
        ("How did it ?", "DESC"),
        ("How far is a sister city ?", "NUM"),
    ]
    fine = list(tasks.load("trec_fine").read(tmp_path, "train"))
    assert [example.gold for example in fine] == ["DESC:manner", "NUM:dist"]
    assert [example.inputs for example in fine] == [example.inputs for example in examples]


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("trec", "How far ?", "not a 'COARSE:fine question'"),
        ("trec", "NUM:dist ", "not a 'COARSE:fine question'"),
        ("trec", "WHO:ind Who ?", "the label 'WHO' is not one of 'ABBR'"),
        ("trec_fine", "NUM:ind Who ?", "the label 'NUM:ind' is not one of 'ABBR:abb'"),
    ],
)
def test_errors_describe_malformed_questions(name: str, row: str, message: str, tmp_path: Path) -> None:
    _write(tmp_path / "TREC_10.label", f"NUM:dist How far ?\n{row}\n")
    with pytest.raises(DataError, match=f"TREC_10.label, line 2: .*{message}"):
        list(tasks.load(name).read(tmp_path, "test"))


def test_trec_has_fifty_fine_classes() -> None:
    labels = tasks.load("trec_fine").labels
    assert len(labels) == len(set(labels)) == 50
    assert {label.partition(":")[0] for label in labels} == set(tasks.load("trec").labels)


def test_official_csv_files_are_scored(tmp_path: Path) -> None:
    gold = _write(tmp_path / "test.csv", CSV["ag_news"][0])
    guess = _write(tmp_path / "guess.tsv", "index\tprediction\n0\tBusiness\n1\tSci/Tech\n")
    assert score("ag_news", gold, guess)["accuracy"] == 50
    with pytest.raises(DataError, match="line 2: the label '3' is not one of 'World'"):
        score("ag_news", gold, _write(guess, "index\tprediction\n0\t3\n1\t1\n"))
