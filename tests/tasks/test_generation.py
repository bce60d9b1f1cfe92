"""Readers of translation and summarisation: small files in the official layouts, written by hand."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ptmbench import tasks
from ptmbench.tasks import cnn_dailymail, dialogsum, gigaword, iwslt14, plain, samsum, wmt, xsum
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask


def _write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _story(root: Path, site: str, address: str, text: str) -> str:
    name = hashlib.sha1(address.encode()).hexdigest()
    _write(root, **{f"{site}/stories/{name}.story": text})
    return name


def test_cnn_dailymail_reads_stories_in_the_order_of_the_list(tmp_path: Path) -> None:
    root = tmp_path / "cnn_dailymail"
    first = _story(root, "dailymail", "http://b", "By . Jo .\r\n\r\nA cat sat.\r\n\r\n@highlight\r\n\r\nCat sits\r\n")
    text = "(CNN)\u2028Rain fell.\n\nIt\x85stopped.\n\n@highlight\n\nRain\n\n@highlight\n\nNo rain\n"
    second = _story(root, "cnn", "http://a", text)
    _story(root, "cnn", "http://of-another-split", "x\n\n@highlight\n\ny")
    _write(root, **{"url_lists/all_val.txt": "http://b\nhttp://a\n"})
    task = cnn_dailymail.TASK
    assert task.examples(tmp_path, "dev") == [
        Example(id=first, inputs=("By . Jo .\nA cat sat.",), gold=("Cat sits",)),
        Example(id=second, inputs=("(CNN)\u2028Rain fell.\nIt\x85stopped.",), gold=("Rain\nNo rain",)),
    ]
    before = task.fingerprint(tmp_path, ["dev"])
    _story(root, "cnn", "http://a", text.replace("fell", "came"))
    assert task.fingerprint(tmp_path, ["dev"]) != before  # the fingerprint includes the stories, not just the list
    # Highlights are sentences. In another order, rougeLsum stays the same and rougeL is lower.
    found = task.score([("Rain\nNo snow",)], ["No snow\nRain"])
    assert found["rougeLsum"] == found["headline"] == pytest.approx(100)
    assert found["rougeL"] == pytest.approx(200 / 3)


def test_cnn_dailymail_errors_describe_malformed_files(tmp_path: Path) -> None:
    root = tmp_path / "cnn_dailymail"
    _write(root, **{"all_test.txt": "http://a\n"})
    with pytest.raises(MissingData, match=r"all_test\.txt, line 1: there is no .*cnn/stories/[0-9a-f]{40}\.story"):
        list(cnn_dailymail.read(root, "test"))
    _story(root, "cnn", "http://a", "Only text.\n\n@highlight\n")
    with pytest.raises(DataError, match="no line '@highlight' with a highlight"):
        list(cnn_dailymail.read(root, "test"))
    with pytest.raises(UnknownTask, match="no variant 'nonymous'"):
        tasks.load("cnn_dailymail-nonymous")


def test_cnn_dailymail_reads_json_lines(tmp_path: Path) -> None:
    row = {"article": "A. B.", "highlights": "A .\nB .", "id": "f1"}
    _write(tmp_path / "cnn_dailymail", **{"validation.jsonl": json.dumps(row) + "\n"})
    found = cnn_dailymail.TASK.examples(tmp_path, "dev")
    assert found == [Example(id="f1", inputs=("A. B.",), gold=("A .\nB .",))]
    _write(tmp_path / "cnn_dailymail", **{"validation.jsonl": '\n{"article": "A."}\n'})
    with pytest.raises(DataError, match='line 2: the key "highlights" is missing'):
        cnn_dailymail.TASK.examples(tmp_path, "dev")


def test_cnn_dailymail_anonymised(tmp_path: Path) -> None:
    text = "http://x\n\n@entity0 sat .\t\t\t1\nit rained .\t\t\t0\n\n*@entity0 sits\n*rain\n\n@entity0:Jo\n"
    _write(tmp_path / "neuralsum", **{"cnn/test/1.summary": text, "dailymail/test/0.summary": text})
    task = tasks.load("cnn_dailymail-anonymised")
    assert task.name == "cnn_dailymail-anonymised" and task is cnn_dailymail.variant("anonymised")
    first, second = task.examples(tmp_path, "test")
    assert first.id == "cnn-1" and second.id == "dailymail-0"
    assert first.inputs == ("@entity0 sat .\nit rained .",) and first.gold == ("@entity0 sits\nrain",)
    _write(tmp_path / "neuralsum", **{"cnn/test/1.summary": "http://x\n\nno more"})
    with pytest.raises(DataError, match="an address, sentences and highlights"):
        task.examples(tmp_path, "test")


def test_xsum_reads_the_sections_of_the_articles_on_the_list(tmp_path: Path) -> None:
    root = tmp_path / "xsum"
    text = "[SN]URL[SN]\nhttp://x\n\n[SN]TITLE[SN]\nRain\n\n[SN]FIRST-SENTENCE[SN]\nIt rained.\n\n"
    _write(
        root,
        **{
            "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json": '{"test": ["7", "3"], "train": [], "validation": ["9"]}',
            "bbc-summary-data/7.summary": text + "[SN]RESTBODY[SN]\nMuch.\n\n  And long.\n",
            "bbc-summary-data/3.summary": text + "[SN]RESTBODY[SN]\n",
            "bbc-summary-data/9.summary": text,
        },
    )
    assert list(xsum.read(root, "test")) == [
        Example(id="7", inputs=("Much.\n  And long.",), gold=("It rained.",)),
        Example(id="3", inputs=("",), gold=("It rained.",)),
    ]
    with pytest.raises(DataError, match=r"9\.summary lacks \[SN\]FIRST-SENTENCE\[SN\] or \[SN\]RESTBODY\[SN\]"):
        list(xsum.read(root, "dev"))
    (root / "bbc-summary-data/7.summary").unlink()
    with pytest.raises(MissingData, match="lists 7, but there is no"):
        list(xsum.read(root, "test"))
    _write(tmp_path / "lines", **{"train.jsonl": '{"document": "a\\nb", "summary": "c", "id": "5"}\n'})
    assert list(xsum.read(tmp_path / "lines", "train")) == [Example(id="5", inputs=("a\nb",), gold=("c",))]


def test_gigaword_reads_both_layouts(tmp_path: Path) -> None:
    _write(tmp_path, **{"Giga/input.txt": "rain in UNK .\nsnow #### .\n", "Giga/task1_ref0.txt": "rain\nsnow\n"})
    _write(tmp_path, **{"train.src.txt": "a\n", "train.tgt.txt": "b\nc\n"})
    assert [(e.inputs, e.gold) for e in gigaword.read(tmp_path, "test")] == [
        (("rain in UNK .",), ("rain",)),
        (("snow #### .",), ("snow",)),
    ]
    with pytest.raises(DataError, match=r"train\.src\.txt ends after line 1"):
        list(gigaword.read(tmp_path, "train"))


def test_samsum_keeps_one_turn_per_line(tmp_path: Path) -> None:
    row = {"id": "13", "dialogue": "Jo: hi\r\nAl: bye", "summary": "Jo greets Al.\r\n"}
    _write(tmp_path, **{"val.json": json.dumps([row]), "test.json": "{}", "train.json": '[{"dialogue": 1}]'})
    assert list(samsum.read(tmp_path, "dev")) == [
        Example(id="13", inputs=("Jo: hi\nAl: bye",), gold=("Jo greets Al.",))
    ]
    with pytest.raises(DataError, match="a list of chats was expected"):
        list(samsum.read(tmp_path, "test"))
    with pytest.raises(DataError, match='"dialogue" is 1'):
        list(samsum.read(tmp_path, "train"))


def test_dialogsum_has_three_references_in_the_test_set(tmp_path: Path) -> None:
    one = {"fname": "train_0", "dialogue": "#Person1#: Hi.", "summary": "A greeting.", "topic": "hi"}
    three = {"fname": "test_0", "dialogue": "#Person1#: Hi.", **{f"{k}{n}": f"{k} {n}" for n in "123" for k in KEYS}}
    _write(
        tmp_path, **{"dialogsum.train.jsonl": json.dumps(one) + "\n", "dialogsum.test.jsonl": json.dumps(three) + "\n"}
    )
    assert list(dialogsum.read(tmp_path, "train"))[0].gold == ("A greeting.",)
    (found,) = dialogsum.read(tmp_path, "test")
    assert found == Example(id="test_0", inputs=("#Person1#: Hi.",), gold=("summary 1", "summary 2", "summary 3"))


KEYS = ("summary", "topic")

TAGS = "<url>http://x</url>\n<title>Eins</title>\nHallo &amp; Welt.\n <description>nein</description>\n\u2028Ende. \n"
XML = '<?xml version="1.0"?>\n<doc docid="1">\n<title>nein</title>\n<seg id="1"> Hallo &amp; Welt. </seg>\n</doc>\n'


def test_iwslt14_drops_metadata_of_the_talks(tmp_path: Path) -> None:
    root = tmp_path / "iwslt14" / "de-en"
    _write(root, **{"train.tags.de-en.de": TAGS, "train.tags.de-en.en": TAGS.replace("Welt", "world")})
    for part in iwslt14.SETS["test"]:
        _write(root, **{f"IWSLT14.TED.{part}.de-en.{code}.xml": XML.replace("Hallo", part) for code in ("de", "en")})
    found = iwslt14.TASK.examples(tmp_path, "train")
    assert [(e.inputs[0], e.gold[0]) for e in found] == [
        ("Hallo &amp; Welt.", "Hallo &amp; world."),
        ("Ende.", "Ende."),
    ]
    test = [(e.id, e.inputs[0]) for e in iwslt14.TASK.examples(tmp_path, "test")]
    assert test == [(f"{part}-0", f"{part} & Welt.") for part in ("tst2010", "tst2011", "tst2012")]
    back = tasks.load("iwslt14-en-de")  # reads the same archive in the other direction
    assert [e.gold[0] for e in back.examples(tmp_path, "train")] == ["Hallo &amp; Welt.", "Ende."]
    _write(root, **{"IWSLT14.TED.tst2010.de-en.de.xml": '<seg id="1"> cut\n</seg>'})
    with pytest.raises(DataError, match="line 1: a <seg> does not end here"):
        iwslt14.TASK.examples(tmp_path, "test")


@pytest.mark.parametrize(
    "name, files",
    [
        ("plain-fr-en", ("plain/fr-en", "val.fr", "val.en.gz")),
        ("plain-en-fr", ("plain/fr-en", "valid.en", "dev.fr.gz")),
        ("wmt-16-ro-en", ("wmt16", "newstest2015.ro", "newstest2015.en.gz")),
        ("wmt", ("wmt14/en-de", "newstest2013.en", "newstest2013.de.gz")),
    ],
)
def test_any_pair_of_files_can_be_translated(name: str, files: tuple[str, str, str], tmp_path: Path) -> None:
    folder, ours, theirs = files
    _write(tmp_path / folder, **{ours: "a\r\n\r\nb\u2028c\r\n"})
    (tmp_path / folder / theirs).write_bytes(gzip.compress(b"x\n\nz\n"))
    task = tasks.load(name)
    assert task.name == name and task.headline == "bleu"
    found = [(e.inputs[0], e.gold) for e in task.examples(tmp_path, "dev")]
    assert found == [("a", ("x",)), ("", ("",)), ("b\u2028c", ("z",))]


@pytest.mark.parametrize("name", ["plain-de", "wmt-14-en-en", "wmt-2014-en-de", "wmt-en-de", "iwslt14-x-../y"])
def test_invalid_language_pairs_are_rejected(name: str) -> None:
    with pytest.raises(UnknownTask, match="Write "):
        tasks.load(name)
    assert (plain.variant("en-de"), wmt.variant("14-en-de")) == (plain.TASK, wmt.TASK)


@pytest.mark.parametrize(
    "gold, guess, expected",
    [
        ("the cat sat", "", {"rouge1": 0, "rouge2": 0, "rougeL": 0, "rougeLsum": 0}),
        ("rain", "rain", {"rouge1": 100, "rouge2": 0, "rougeL": 100, "rougeLsum": 100}),  # no bigram in one token
        # Six predicted tokens, three in the reference: P 1/2, R 1. Bigrams: a b, b c of five. In the union of a line's
        # common subsequences, a token counts at most as often as it occurs on the side that has it less often.
        ("a b c", "a b c\na b c", {"rouge1": 66.667, "rouge2": 57.143, "rougeL": 66.667, "rougeLsum": 66.667}),
        ("a b\r\nc d", "c d\r\na b", {"rouge1": 100, "rouge2": 66.667, "rougeL": 50, "rougeLsum": 100}),
        ("今天下雨", "今天下雨", {"rouge1": 0, "rouge2": 0, "rougeL": 0, "rougeLsum": 0}),  # ASCII only
    ],
)
def test_rouge_of_edge_cases(gold: str, guess: str, expected: dict[str, Any]) -> None:
    """Empty, one token, repeated lines, CRLF, CJK. The values are worked out by hand from Google's scorer."""
    found = samsum.TASK.score([(gold,)], [guess])
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-3)
