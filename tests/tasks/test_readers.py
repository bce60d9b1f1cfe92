"""The readers beyond GLUE: real files with their official counts if present, and small malformed files."""

import gzip
import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks import aeslc, conll2003, multi30k, squad11, wikitext2
from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.perplexity import size
from ptmbench.tasks.task import DataError, Example, MissingData, Task, UnknownTask

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def _real(task: Task, split: str) -> list[Example]:
    try:
        task.paths(DATA, split)
    except MissingData as reason:
        pytest.skip(f"no real data: {reason}")
    return task.examples(DATA, split)


@pytest.mark.parametrize(
    ("split", "sentences", "words", "documents"),
    [("train", 14041, 203621, 946), ("dev", 3250, 51362, 216), ("test", 3453, 46435, 231)],
)
def test_conll2003_has_the_official_counts(split: str, sentences: int, words: int, documents: int) -> None:
    examples = _real(conll2003.TASK, split)
    assert len(examples) == sentences
    assert sum(len(example.inputs) for example in examples) == words
    assert len({example.group for example in examples}) == documents
    assert {tag for example in examples for tag in example.gold} <= set(conll2003.TASK.labels)


def test_conll2003_test_has_the_official_entities() -> None:
    starts = [tag for example in _real(conll2003.TASK, "test") for tag in example.gold if tag.startswith("B-")]
    counts = {kind: starts.count(f"B-{kind}") for kind in conll2003.TYPES}
    assert counts == {"PER": 1617, "ORG": 1661, "LOC": 1668, "MISC": 702}  # table 2 of the paper


def test_wikitext2_has_the_official_counts() -> None:
    for split, articles, row_count, words in (
        ("train", 600, 36718, 2088628),
        ("dev", 60, 3760, 217646),
        ("test", 60, 4358, 245569),
    ):
        texts = [example.inputs[0] for example in _real(wikitext2.TASK, split)]
        assert len(texts) == articles
        assert sum(text.count("\n") for text in texts) == row_count
        assert sum(size(text)[0] for text in texts) == words


@pytest.mark.parametrize("pair", ["en-de", "de-en", "fr-cs"])
def test_multi30k_has_the_official_counts(pair: str) -> None:
    task = multi30k.variant(pair)
    counts = {"train": 29000, "dev": 1014, "test": 1000, "test2018": 1071}
    counts |= {} if "cs" in pair else {"test2017": 1000, "coco": 461}
    for split, count in counts.items():
        assert len(_real(task, split)) == count
    if "cs" in pair:
        with pytest.raises(MissingData, match="test_2017_flickr.cs of the test2017 split is missing"):
            task.examples(DATA, "test2017")


@pytest.mark.parametrize(("split", "count", "references"), [("dev", 1960, 4), ("test", 1906, 4)])
def test_aeslc_has_the_official_counts(split: str, count: int, references: int) -> None:
    examples = _real(aeslc.TASK, split)
    assert len(examples) == count
    assert {len(example.gold) for example in examples} == {references}
    assert all(example.inputs[0] and "@subject" not in example.inputs[0] for example in examples)


@pytest.mark.slow
def test_aeslc_train_has_the_official_count() -> None:
    assert len(_real(aeslc.TASK, "train")) == 14436


def test_squad_reads_a_real_file_in_its_format() -> None:
    path = DATA / "xquad" / "xquad.en.json"
    if not path.exists():
        pytest.skip("no real data: ../shared/data/xquad/xquad.en.json is missing")
    examples = list(squad11.questions(path))
    assert len(examples) == 1190 and len({example.id for example in examples}) == 1190
    assert len({example.group for example in examples}) == 240  # paragraphs
    for example in examples:
        for answer in example.gold:
            assert example.inputs[1][answer.start :].startswith(answer.text)


def test_xquad_keeps_each_article_in_one_split_and_loses_none() -> None:
    train, dev = (_real(tasks.load("xquad_en"), split) for split in ("train", "dev"))
    titles = [{example.group.rpartition("#")[0] for example in part} for part in (train, dev)]
    assert (len(titles[0]), len(titles[1])) == (36, 12) and not titles[0] & titles[1]
    assert len({example.id for example in (*train, *dev)}) == 1190


CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nA\u00a0B NN I-NP B-ORG\n. . O O\n\n\n"
    "-DOCSTART- -X- O O\n\nBonn NNP I-NP I-LOC\n"
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_conll2003_reads_all_line_ends_and_a_bom(tmp_path: Path, end: str, mark: str) -> None:
    (tmp_path / "eng.testb").write_bytes((mark + CONLL.replace("\n", end)).encode())
    assert list(conll2003.read(tmp_path, "test")) == [
        Example(id="0", inputs=("EU", "A\u00a0B", "."), gold=("B-ORG", "B-ORG", "O"), group="1"),
        Example(id="1", inputs=("Bonn",), gold=("B-LOC",), group="2"),
    ]


def test_conll2003_reads_iob2_copies_and_names_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("EU\tB-ORG\nof\tI-ORG\n\nx\tO")
    examples = list(conll2003.read(tmp_path, "train"))
    assert [example.gold for example in examples] == [("B-ORG", "I-ORG"), ("O",)]
    assert examples[0].group is None
    (tmp_path / "train.txt").write_text("EU B-ORG\n\nx O\ny B-GENE\n")
    with pytest.raises(DataError, match=r"train\.txt, line 4: .*PER or ORG or LOC or MISC.*B-GENE"):
        list(conll2003.read(tmp_path, "train"))
    (tmp_path / "train.txt").write_bytes(b"EU B-ORG\n\xff O\n")
    with pytest.raises(DataError, match="line 2: byte 1 of the line is not UTF-8"):
        list(conll2003.read(tmp_path, "train"))


def _squad(answers: list[dict] | None) -> dict:
    row = {"id": "q1", "question": "Who?\u2028", "answers": answers}
    if answers is None:
        del row["answers"]
    return {"version": "1.1", "data": [{"title": "../x", "paragraphs": [{"context": "Ann and Bo.", "qas": [row]}]}]}


def test_squad_keeps_every_answer(tmp_path: Path) -> None:
    answers = [{"text": "Ann", "answer_start": 0}, {"text": "Bo", "answer_start": 8}]
    (tmp_path / "dev-v1.1.json").write_text("\ufeff" + json.dumps(_squad(answers)), encoding="utf-8")
    inputs, gold = ("Who?\u2028", "Ann and Bo."), (Answer("Ann", 0), Answer("Bo", 8))
    assert list(squad11.read(tmp_path, "dev")) == [Example(id="q1", inputs=inputs, gold=gold, group="../x#0")]
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(_squad(None)))
    assert next(squad11.read(tmp_path, "dev")).gold is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [', "line 1: this is not JSON"),
        ("[]", "not in SQuAD's format"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "not in SQuAD's format .KeyError: 'context'"),
        (json.dumps(_squad([{"text": "Ann", "answer_start": "x"}])), "not in SQuAD's format"),
    ],
)
def test_squad_errors_describe_malformed_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "dev-v1.1.json").write_text(content)
    with pytest.raises(DataError, match=rf"dev-v1\.1\.json.*{message}"):
        list(squad11.read(tmp_path, "dev"))


def test_multi30k_reads_plain_and_gzipped_files_of_any_language(tmp_path: Path) -> None:
    folder = tmp_path / "multi30k"
    folder.mkdir()
    (folder / "val.en").write_bytes("\ufeffa\u2028b\r\n\r\nc\x85 \r\n".encode())
    (folder / "val.mw.gz").write_bytes(gzip.compress(b"x\n\nz\n"))
    task = multi30k.variant("en-mw")
    assert task.name == "multi30k-en-mw" and task.extra["languages"] == ("en", "mw")
    found = [(example.inputs[0], example.gold) for example in task.examples(tmp_path, "dev")]
    assert found == [("a\u2028b", ("x",)), ("", ("",)), ("c\x85 ", ("z",))]
    assert [e.inputs[0] for e in multi30k.variant("mw-en").examples(tmp_path, "dev")] == ["x", "", "z"]


def test_multi30k_rejects_files_of_different_length(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("a\nb\nc\n")
    (tmp_path / "train.de").write_text("x\ny\n")
    with pytest.raises(DataError, match=r"train\.de ends after line 2"):
        list(multi30k.read(tmp_path, "train"))
    (tmp_path / "train.de").unlink()
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"x\ny\nz\n")[:-9])
    with pytest.raises(DataError, match=r"train\.de\.gz, line \d: the gzip stream is damaged"):
        list(multi30k.read(tmp_path, "train"))


@pytest.mark.parametrize("pair", ["de", "de-de", "en-../x", "en-de-fr", ""])
def test_multi30k_rejects_invalid_language_pairs(pair: str) -> None:
    with pytest.raises(UnknownTask, match="has no pair"):
        multi30k.variant(pair)


def test_multi30k_default_is_english_to_german() -> None:
    assert multi30k.variant("en-de") is multi30k.TASK and multi30k.TASK.name == "multi30k"


def test_aeslc_reads_subject_and_annotations(tmp_path: Path) -> None:
    folder = tmp_path / "enron_subject_line" / "dev"
    folder.mkdir(parents=True)
    (folder / "b_1.subject").write_text(
        "Hi @subject x\n\nBye\n\n@subject\nLunch\n\n@ann0\nmeal\n\n@ann1\n\n@ann2\nfood"
    )
    (folder / "a_2.subject").write_bytes(b"Body\r\n\r\n@subject\r\nOne\r\n")
    (folder / "notes.txt").write_text("not an e-mail")
    first, second = aeslc.read(tmp_path, "dev")
    assert first == Example(id="a_2", inputs=("Body",), gold=("One",))
    assert second == Example(id="b_1", inputs=("Hi @subject x\n\nBye",), gold=("Lunch", "meal", "food"))
    values = aeslc.TASK.score([first.gold, second.gold], ["one", "food"])
    assert values["rouge1"] == 100 and values["author_rouge1"] == values["headline"] == 50
    (folder / "c.subject").write_text("no mark")
    with pytest.raises(DataError, match=r"c\.subject has no line '@subject'"):
        list(aeslc.read(tmp_path, "dev"))


def test_wikitext_finds_articles_only_between_empty_lines(tmp_path: Path) -> None:
    text = " \n = A = \n \n text \n = not a title = \n \n = = Part = = \n \n more \n \n = B = C = \n \n end \n"
    (tmp_path / "wiki.test.tokens").write_text(text)
    texts = [example.inputs[0] for example in wikitext2.read(tmp_path, "test")]
    assert [text.split("=")[1].strip() for text in texts] == ["A", "B"]
    assert "".join(texts) == text
    (tmp_path / "wiki.test.tokens").write_text(text.removeprefix(" \n"))
    assert len(list(wikitext2.read(tmp_path, "test"))) == 2, "a title may be the first line"
    (tmp_path / "wiki.test.tokens").write_text("no title at all")
    assert [example.inputs[0] for example in wikitext2.read(tmp_path, "test")] == ["no title at all\n"]
