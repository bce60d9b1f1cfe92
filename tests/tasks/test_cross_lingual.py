"""Cross-lingual inference: the real Chinese files if present, and the official layouts written by hand."""

from collections import Counter
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

HEADER = (
    "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1"
    "\tsentence2\tpromptID\tpairID\tgenre\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tsentence1_tokenized"
    "\tsentence2_tokenized\tmatch"
)
"""The 19 column names of xnli.dev.tsv, as its authors wrote them."""


def _row(language: str, label: str, first: str, second: str, pair: str) -> str:
    votes = "\t".join([label] * 5)
    return f"{language}\t{label}\t\t\t\t\t{first}\t{second}\t7\t{pair}\tfacetoface\t{votes}\t{first}\t{second}\tTrue"


def _write(path: Path, *rows: str, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row + end for row in rows), encoding="utf-8", newline="")
    return path


@pytest.fixture
def official(tmp_path: Path) -> Path:
    folder = tmp_path / "xnli"
    for split in ("dev", "test"):
        rows = [_row("en", "neutral", "He said \u2028 it.", '"Mama', "1"), _row("zh", "neutral", "他说。", "妈妈", "1")]
        rows += [_row("zh", "contradiction", "他说。", "他没说。", "2")]
        _write(folder / "XNLI-1.0" / f"xnli.{split}.tsv", HEADER, *rows)
    for language, text in (("en", "A dog ."), ("zh", "狗 。")):
        path = folder / "XNLI-MT-1.0" / "multinli" / f"multinli.train.{language}.tsv"
        _write(path, "premise\thypo\tlabel", f"{text}\tB .\tcontradictory", f"{text}\tC .\tentailment")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "train", "dev", "test"),
    [
        ("xnli", "A dog .", ["He said \u2028 it."], ["He said \u2028 it."]),
        ("xnli-zh", "A dog .", ["He said \u2028 it."], ["他说。", "他说。"]),
        ("xnli-zh-translated", "狗 。", ["他说。", "他说。"], ["他说。", "他说。"]),
    ],
)
def test_languages_of_train_dev_and_test_splits(name: str, train: str, dev: list, test: list, official: Path) -> None:
    task = tasks.load(name)
    learned = task.examples(official, "train")
    assert [(e.id, e.inputs[0], e.gold) for e in learned] == [("0", train, "contradiction"), ("1", train, "entailment")]
    assert [e.inputs[0] for e in task.examples(official, "dev")] == dev
    assert [e.inputs[0] for e in task.examples(official, "test")] == test
    assert {e.group for e in task.examples(official, "test")} == {"7"}
    assert task.name == name and task.report == "test"


def test_the_reported_language_has_a_separate_dev_split(official: Path) -> None:
    assert [e.id for e in tasks.load("xnli-zh").examples(official, "dev-zh")] == ["1", "2"]
    assert "dev-zh" not in tasks.load("xnli-zh-translated").files


@pytest.mark.parametrize("name", ["xnli-xx", "xnli-zh-", "xnli-zh-mt", "xnli-en-translated", "xnli_zh-de"])
def test_errors_of_unknown_variants_name_the_known_variants(name: str) -> None:
    with pytest.raises(UnknownTask, match="xnli-zh-translated|xnli_zh-en"):
        tasks.load(name)


def test_a_file_of_all_languages_is_scored_in_the_language_of_the_task(official: Path, tmp_path: Path) -> None:
    gold = official / "xnli" / "XNLI-1.0" / "xnli.test.tsv"
    guess = _write(tmp_path / "guess.tsv", "index\tprediction", "0\tneutral", "1\tneutral")
    found = score("xnli-zh", gold, guess)
    assert (found["examples"], found["accuracy"]) == (2, 50)
    with pytest.raises(DataError, match="1 rows but .* has 2: index 1 is the first in only one of them"):
        score("xnli", gold, guess)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A\tB", "2 tab-separated fields where 3 were expected"),
        ("A\tB\tmaybe", "the label 'maybe' is not one of 'entailment'"),
    ],
)
@pytest.mark.parametrize("name", ["xnli", "xnli_zh"])
def test_malformed_pairs_name_file_and_line(name: str, row: str, message: str, tmp_path: Path) -> None:
    task = tasks.load(name)
    header = "premise\thypo\tlabel" if name == "xnli" else "text_a\ttext_b\tlabel"
    _write(tmp_path / task.files["train"][0], header, "A\tB\tneutral", row, end="\r\n")
    with pytest.raises(DataError, match=f"train.*, line 3: .*{message}"):
        list(task.read(tmp_path, "train"))


def test_chinese_files_of_three_columns(tmp_path: Path) -> None:
    folder = tmp_path / "xnli_zh"
    rows = ("text_a\ttext_b\tlabel", "他说。\t妈妈\tneutral", "他说。\t他没说。\tcontradictory", "校车\t他\tentailment")
    for split in ("dev", "test"):
        _write(folder / f"{split}.tsv", *rows)
    expected = [("0", "neutral", "0"), ("1", "contradiction", "0"), ("2", "entailment", "1")]
    assert [(e.id, e.gold, e.group) for e in tasks.load("xnli_zh").examples(tmp_path, "dev")] == expected
    few = tasks.load("xnli_zh-dev")
    assert few.examples(tmp_path, "train") == tasks.load("xnli_zh").examples(tmp_path, "dev")
    with pytest.raises(MissingData, match="train.tsv"):
        tasks.load("xnli_zh").examples(tmp_path, "train")
    _write(folder / "MNLI" / "train.tsv", "index\tsentence1\tsentence2\tgold_label", "5\tA\tB\tneutral")
    zero = tasks.load("xnli_zh-en")
    english = Example(id="5", inputs=("A", "B"), gold="neutral", channels={"languages": ("en", "en")})
    assert zero.examples(tmp_path, "train") == [english]
    assert zero.examples(tmp_path, "test")[0].channels == {"languages": ("zh", "zh")}
    assert "dev" not in zero.files and len(zero.examples(tmp_path, "dev-zh")) == 3


@pytest.mark.parametrize(("split", "count"), [("dev", 2490), ("test", 5010)])
def test_real_chinese_files_have_the_official_counts(split: str, count: int) -> None:
    if not (DATA / "xnli_zh_ernie").is_dir():
        pytest.skip("no real data: ../shared/data/xnli_zh_ernie is missing")
    examples = tasks.load("xnli_zh").examples(DATA, split)
    assert len(examples) == count
    assert set(Counter(example.gold for example in examples).values()) == {count // 3}  # balanced, like XNLI
    if split == "dev":
        assert examples[0].inputs == ("他说，妈妈，我回来了。", "校车把他放下后，他立即给他妈妈打了电话。")
