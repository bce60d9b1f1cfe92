"""GLUE and COPA: the official counts of the real files if present, and small files with their irregularities."""

import gzip
import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks import files, mnli, qnli, qqp
from ptmbench.tasks.task import DataError, Example, MissingData

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

COUNTS = {
    "cola": (8551, 1043, 1063),
    "sst2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "stsb": (5749, 1500, 1379),
    "qnli": (None, 5463, 5463),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
    "ax": (None, None, 1104),
    "copa": (400, 100, 500),
}
POSITIVE = {"cola": ("1", 721), "sst2": ("1", 444), "mrpc": ("1", 279), "rte": ("entailment", 146), "wnli": ("1", 31)}
"""A label and its count in the official dev set, which a shifted column or a merged row would change."""

HEADERS = {
    "cola": None,
    "sst2": "sentence\tlabel",
    "mrpc": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "qnli": "index\tquestion\tsentence\tlabel",
    "rte": "index\tsentence1\tsentence2\tlabel",
    "wnli": "index\tsentence1\tsentence2\tlabel",
}
ROW = {
    "cola": "src\t1\t\tA \u2028cat \x85 sat.",
    "sst2": 'a " bare \x0c quote \t1',
    "mrpc": '1\t7\t8\t" An open quote .\tAnother " one .',
    "stsb": '0\tg\tf\t2012\t0\tnone\tnone\tA "cat.\tA dog".\t2.500',
    "qqp": "5\t1\t2\tWhy?\tHow?\t1",
    "qnli": "0\tWho?\tThe cat.\tentailment",
    "rte": "0\tA cat sat.\tA cat.\tentailment",
    "wnli": "0\tIt sat.\tThe cat sat.\t1",
}

INPUTS = {
    "cola": ("A \u2028cat \x85 sat.",),
    "sst2": ('a " bare \x0c quote ',),
    "mrpc": ('" An open quote .', 'Another " one .'),
    "stsb": ('A "cat.', 'A dog".'),
    "qqp": ("Why?", "How?"),
    "qnli": ("Who?", "The cat."),
    "rte": ("A cat sat.", "A cat."),
    "wnli": ("It sat.", "The cat sat."),
}
"""The expected inputs of each `ROW`, whatever is before and after it in the file."""


def _split(name: str, split: str) -> list[Example]:
    task = tasks.load(name)
    try:
        task.paths(DATA, split)
    except MissingData as reason:
        pytest.skip(f"no real data: {reason}")
    return task.examples(DATA, split)


@pytest.mark.parametrize("name", COUNTS)
def test_real_files_have_the_official_counts(name: str) -> None:
    for split, count in zip(("train", "dev", "test"), COUNTS[name], strict=True):
        if count is None:
            with pytest.raises(MissingData):
                tasks.load(name).examples(DATA, split)
            continue
        examples = _split(name, split)
        assert len(examples) == count
        assert len({example.id for example in examples}) == count
        assert all(text.strip() for example in examples for text in example.inputs)
        assert all((example.gold is None) == (split == "test") for example in examples)
        if split == "test":
            assert [example.id for example in examples] == [str(index) for index in range(count)]
            assert count == tasks.load(name).extra.get("submission", {}).get("rows", count)


@pytest.mark.parametrize("name", POSITIVE)
def test_real_dev_sets_have_the_official_labels(name: str) -> None:
    label, count = POSITIVE[name]
    assert sum(example.gold == label for example in _split(name, "dev")) == count


def test_real_rows_are_read_completely() -> None:
    assert _split("cola", "train")[0].inputs == (
        "Our friends won't buy this analysis, let alone the next one we propose.",
    )
    assert _split("sst2", "train")[0] == Example(
        id="0", inputs=("hide new secretions from the parental units ",), gold="0"
    )
    assert _split("mrpc", "dev")[0].inputs[1].startswith('" The foodservice pie business')
    assert _split("stsb", "dev")[1].gold == 4.75
    assert _split("ax", "test")[0].inputs == ("The cat sat on the mat.", "The cat did not sit on the mat.")
    first = _split("copa", "train")[0]
    assert first.inputs == ("My body cast a shadow over the grass because", "The sun was rising.", "The grass was cut.")
    assert first.gold == 0


@pytest.mark.parametrize(
    ("read", "folder", "split", "count"),
    [
        (mnli.read, "glue_derived/MNLI", "train", 9999),
        (mnli.read, "glue_derived/MNLI", "dev", 9815),
        (qnli.read, "glue_derived/QNLI", "train", 9999),
        (qqp.read, "glue_derived/QQP", "train", 8999),
        (qqp.read, "glue_derived/QQP", "dev", 1000),
        (mnli.read, "glue_kshot/MNLI/16-13", "train", 48),
        (mnli.read, "glue_kshot/MNLI/16-13", "dev", 48),
        (qnli.read, "glue_kshot/QNLI/16-13", "dev", 32),
        (qqp.read, "glue_kshot/QQP/16-13", "train", 32),
    ],
)
def test_readers_on_real_rows_of_the_large_data_sets(read, folder: str, split: str, count: int) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"no real data: {DATA / folder}")
    examples = list(read(DATA / folder, split))
    assert len(examples) == count
    assert len({example.gold for example in examples}) == (3 if "MNLI" in folder else 2)


def test_subsamples_are_never_read_as_the_official_split() -> None:
    for name in ("mnli", "mnli_mm", "qqp", "ax"):
        assert not any("derived" in folder or "kshot" in folder for folder in tasks.load(name).folders)
        if DATA.is_dir():
            with pytest.raises(MissingData):
                tasks.load(name).paths(DATA, "train")


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_bom_crlf_quotes_empty_lines_and_odd_separators(name: str, packed: bool, tmp_path: Path) -> None:
    header = [] if HEADERS[name] is None else [HEADERS[name]]
    text = "\r\n".join([*header, ROW[name], "", ROW[name]])
    raw = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / "train.tsv").write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    examples = list(tasks.load(name).read(tmp_path, "train"))
    assert len(examples) == 2
    assert [example.inputs for example in examples] == [INPUTS[name]] * 2
    assert str(examples[1].gold) in {"1", "2.5", "entailment"}


def test_mnli_skips_pairs_without_gold_label_and_reads_sixteen_columns(tmp_path: Path) -> None:
    votes = [f"label{i}" for i in range(1, 6)]
    names = ["index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"]
    names += ["sentence1_parse", "sentence2_parse", "sentence1", "sentence2", *votes, "gold_label"]
    pair = ["", "", "", "", "", "", "", "A.", "B."]
    rows = [["0", *pair, *["neutral"] * 5, "-"], ["1", *pair, *["neutral"] * 5, "contradiction"]]
    for name in ("dev_matched.tsv", "dev_mismatched.tsv"):
        (tmp_path / name).write_text("\n".join("\t".join(row) for row in [names, *rows]))
    expected = [Example(id="1", inputs=("A.", "B."), gold="contradiction")]
    assert list(tasks.load("mnli").read(tmp_path, "dev")) == expected
    assert list(tasks.load("mnli_mm").read(tmp_path, "dev")) == expected


def test_qqp_skips_broken_rows_of_train_but_not_of_test(tmp_path: Path) -> None:
    broken = ["7\t1\t2\tWhere", "\tis it?\t0"]
    (tmp_path / "train.tsv").write_text("\n".join([HEADERS["qqp"], *broken, ROW["qqp"]]))
    assert [example.id for example in qqp.read(tmp_path, "train")] == ["5"]
    (tmp_path / "test.tsv").write_text("id\tquestion1\tquestion2\n0\tWhy?\tHow?\n1\tWhere\n")
    with pytest.raises(DataError, match=r"test.tsv, line 3: 2 tab-separated fields where 3 were expected"):
        list(qqp.read(tmp_path, "test"))


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        (
            "rte",
            [HEADERS["rte"], ROW["rte"], "1\tA\tB\tperhaps"],
            r"line 3: the label 'perhaps' is not one of 'entailment'",
        ),
        ("rte", [HEADERS["rte"], "", "1\tA\tB"], r"line 3: 3 tab-separated fields where 4 were expected"),
        ("rte", ["index\tsentence1\tsentence2"], r"line 1: the header lacks 'label'"),
        ("rte", [], r"is empty: a header with 'index'"),
        ("stsb", [HEADERS["stsb"], ROW["stsb"].replace("2.500", "nan")], r"line 2: 'nan' is not a number from 0 to 5"),
        ("stsb", [HEADERS["stsb"], ROW["stsb"].replace("2.500", "5.1")], r"line 2: '5.1' is not a number from 0 to 5"),
        ("cola", ["a\tb"], r"line 1: 2 tab-separated fields where 4 were expected"),
        ("cola", [ROW["cola"], "x\t2\t*\tA."], r"line 2: the label '2' is not one of '0', '1'"),
    ],
)
def test_malformed_rows_name_file_line_and_next_step(name: str, lines: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        list(tasks.load(name).read(tmp_path, "train"))
    assert "train.tsv" in str(error.value)
    assert "official file" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, r"line 2: the label 2 is not one of 0, 1"),
        ({"label": True}, r'line 2: the key "label" is True; a whole number'),
        ({"question": "reason"}, r"line 2: the label 'reason' is not one of 'cause', 'effect'"),
        ({"premise": None}, r'line 2: the key "premise" is None; a text'),
    ],
)
def test_errors_describe_malformed_copa_rows(change: dict, message: str, tmp_path: Path) -> None:
    good = {"premise": "It fell.", "choice1": "A", "choice2": "B", "question": "effect", "label": 1, "idx": 0}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(good | change)}\n")
    with pytest.raises(DataError, match=message):
        list(tasks.load("copa").read(tmp_path, "train"))
    (tmp_path / "train.jsonl").write_text(f"\ufeff{json.dumps(good)}\r\n\r\n", encoding="utf-8")
    assert list(tasks.load("copa").read(tmp_path, "train")) == [
        Example(id="0", inputs=("It fell so", "A", "B"), gold=1)
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"one\n\xff\xfe", r"line 2: byte 1 of the line is not UTF-8"),
        (gzip.compress(b"one\n" * 9999, mtime=0)[:40], r"the gzip stream is damaged or cut short"),
        (b"\x1f\x8bnot gzip after all", r"the gzip stream is damaged or cut short"),
    ],
)
def test_damaged_text_files_are_reported(raw: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        list(files.lines(tmp_path / "text"))


def test_lines_end_only_at_line_feeds_and_are_read_lazily(tmp_path: Path) -> None:
    text = "a\u2028b\x85c\x0b\x0c\x1ed\re\r\n\nlast"
    (tmp_path / "text").write_text(text, encoding="utf-8", newline="")
    assert list(files.lines(tmp_path / "text")) == [(1, "a\u2028b\x85c\x0b\x0c\x1ed\re"), (2, ""), (3, "last")]
    (tmp_path / "half").write_bytes(b"fine\n" * 100_000 + b"\xff\n")
    assert next(files.lines(tmp_path / "half")) == (1, "fine")


@pytest.mark.parametrize(
    ("line", "message"), [("[1]", "a JSON object was expected, not list"), ("{", "not JSON"), ("[" * 200_000, "JSON")]
)
def test_json_lines_reject_values_that_are_not_objects(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f"{{}}\n{line}\n")
    with pytest.raises(DataError, match=f"line 2: .*{message}"):
        list(files.json_lines(tmp_path / "x.jsonl"))


def test_missing_and_unreadable_files_give_error_messages(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"no file a.tsv or b.tsv"):
        files.pick(tmp_path, "a.tsv|b.tsv")
    with pytest.raises(MissingData, match=r"is missing"):
        list(files.lines(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"cannot be read"):
        list(files.lines(tmp_path))
