"""Files of generated texts (summaries, translations) are scored against references, by line or by id."""

import gzip
import json
from pathlib import Path

import pytest

from ptmbench.bench.scoring.score import keep_predictions
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError, Example
from tests.bench.files import written


def test_generation_is_scored_line_by_line(tmp_path: Path) -> None:
    gold = written(tmp_path / "test_2016_flickr.de", "ein Hund läuft im Park\nzwei Katzen\n")
    scores = score("multi30k", gold, written(tmp_path / "guess", "ein Hund läuft im Park\nzwei Katzen\n"))
    assert (scores["bleu"], scores["chrf"]) == pytest.approx((100, 100)) and scores["examples"] == 2
    with pytest.raises(DataError, match="has 2 references but .* has 1 lines: line 2 is the first"):
        score("multi30k", gold, written(tmp_path / "guess", "ein Hund\n"))


def test_generation_is_scored_against_an_official_folder(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    folder.mkdir()
    written(folder / "b.subject", "body\n\n@subject\nlunch now\n\n@ann0\nmeal\n")
    written(folder / "a.subject", "body\n\n@subject\nhello\n")
    scores = score("aeslc", folder, written(tmp_path / "guess", "hello\nmeal\n"))
    assert (scores["rouge1"], scores["author_rouge1"]) == (100.0, 50.0)


def test_references_are_read_from_official_json(tmp_path: Path) -> None:
    """The best of several references counts. Lines of raw JSON are not taken as references."""
    rows = [{"fname": str(n), "dialogue": "hi", "summary1": "they meet", "summary2": "lunch now"} for n in range(2)]
    gold = written(tmp_path / "dialogsum.test.jsonl", "\n".join(map(json.dumps, rows)))
    guess = written(tmp_path / "guess", "lunch now\nthey\n")
    assert score("dialogsum", gold, guess)["rouge1"] == pytest.approx((100 + 200 / 3) / 2)
    assert score("dialogsum", tmp_path, guess)["rouge1"] == pytest.approx((100 + 200 / 3) / 2)
    chats = [{"id": "1", "dialogue": "A: hi", "summary": "hi"}]
    gold = written(tmp_path / "any.json", json.dumps(chats, indent=1))
    assert score("samsum", gold, written(tmp_path / "guess", "hi\n"))["rouge1"] == 100


def test_multiline_predictions_are_matched_by_id(tmp_path: Path) -> None:
    """Predictions of `predict`, in any order. ROUGE-Lsum compares sentences, and each line is a sentence."""
    chats = [{"id": str(n), "dialogue": "A: hi", "summary": f"{n} comes\r\nall meet"} for n in (1, 2)]
    gold = written(tmp_path / "test.json", json.dumps(chats))
    predictions = [{"id": str(n), "prediction": f"comes all\n{n} meet"} for n in (2, 1)]
    guess = written(tmp_path / "samsum.test.jsonl", "\n".join(map(json.dumps, predictions)) + "\n")
    scores = score("samsum", gold, guess)
    assert (scores["rougeLsum"], scores["rougeL"]) == pytest.approx((100, 75))
    plain = written(tmp_path / "guess", "comes all 1 meet\ncomes all 2 meet\n")
    assert score("samsum", gold, plain)["rougeLsum"] == pytest.approx(75)
    for text, message in (
        (json.dumps(predictions[0]), "no prediction for the example 1 of"),
        ("\n".join(map(json.dumps, [*predictions, predictions[0]])), "line 3: the id 2 appears twice"),
        (json.dumps({"id": "1", "prediction": ["hi"]}), 'line 1: .*"prediction"'),
        ('{"id": "1", "prediction": "a", "id": "2"}', "line 1: the object has the key 'id' twice"),
    ):
        with pytest.raises(DataError, match=message):
            score("samsum", gold, written(guess, text))


TEXTS = ["ein Hund läuft im Park", "zwei Katzen schlafen hier", "drei rote Autos fahren", "vier Vögel singen laut"]


def _rows(texts: list[str], ids: list) -> list[str]:
    return [json.dumps({"id": n, "prediction": text}, ensure_ascii=False) for n, text in zip(ids, texts, strict=True)]


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.txt", "p", "p.jsonl.gz", "p.gz"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_json_lines_are_recognised_by_content_and_matched_by_id(tmp_path: Path, name: str, order) -> None:
    """Regression: files not named .jsonl used to be read as plain text and scored in file order."""
    gold = written(tmp_path / "test_2016_flickr.de", "\n".join(TEXTS) + "\n")
    for ids in ([str(n) for n in order], list(order)):
        rows = "\ufeff\n" + "".join(row + "\r\n" for row in _rows([TEXTS[n] for n in order], ids))
        data = rows.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert score("multi30k", gold, tmp_path / name)["bleu"] == pytest.approx(100)


def test_predictions_kept_by_a_run_can_be_scored(tmp_path: Path) -> None:
    """The kept rows hold gold labels, groups and more in addition to the prediction."""
    gold = written(tmp_path / "test_2016_flickr.de", "\n".join(TEXTS) + "\n")
    examples = [Example(id=str(n), inputs=("x",), gold=(text,), group="g") for n, text in enumerate(TEXTS)]
    kept = keep_predictions(tmp_path, "k" * 40, examples, TEXTS)
    assert score("multi30k", gold, tmp_path / kept["file"])["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (("0", "1", "2", "4"), "has no prediction for 3, but one for 4"),
        (("2", "1", "3", "4"), "has no prediction for 0, but one for 4"),
        (("1", "0", "3", "3"), "the id 3 appears twice"),
    ],
)
def test_ids_that_do_not_match_the_gold_lines_are_rejected(tmp_path: Path, ids: tuple[str, ...], message: str) -> None:
    gold = written(tmp_path / "test_2016_flickr.de", "\n".join(TEXTS) + "\n")
    with pytest.raises(DataError, match=message):
        score("multi30k", gold, written(tmp_path / "guess", "\n".join(_rows(TEXTS, ids))))


@pytest.mark.parametrize("ids", [("1", "2", "3", "4"), ("13818513", "9", "x", "07")])
def test_ids_that_are_not_line_numbers_fall_back_to_line_order(tmp_path: Path, ids: tuple[str, ...], capsys) -> None:
    gold = written(tmp_path / "test_2016_flickr.de", "\n".join(TEXTS) + "\n")
    assert score("multi30k", gold, written(tmp_path / "guess", "\n".join(_rows(TEXTS, ids))))["bleu"] == pytest.approx(
        100
    )
    assert "matched line by line" in capsys.readouterr().err


@pytest.mark.parametrize("first", ["{ lacht } ja", "[ Applaus ]", "[1]", "{1}", '{"Hund"} ja', "{", "[", '"id"'])
def test_a_text_may_begin_with_a_bracket(tmp_path: Path, first: str) -> None:
    texts = "\n".join([first, *TEXTS]) + "\n"
    gold = written(tmp_path / "test_2016_flickr.de", texts)
    assert score("multi30k", gold, written(tmp_path / "guess", texts))["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "ein Hund"}\n{"text": "zwei"}', "a JSON object a line without these keys"),
        ('{"0": "ein Hund", "1": "zwei"}\n', "a JSON object a line without these keys"),
        ('{\n"0": "ein Hund",\n"1": "zwei"}\n', "one JSON object or list, .* without these keys"),
        ('["ein Hund", "zwei"]\n', "one JSON object or list"),
        ('[\n{"id": "0", "prediction": "ein"}\n]\n', "one JSON object or list"),
        ('{"id": "0", "prediction": "ein Hu\n{"id": "1", "prediction": "zwei"}\n', "is damaged JSON"),
        ('ein Hund\n{"id": "1", "prediction": "zwei"}\n', "line 2: a JSON object was found among texts"),
        ('{"id": "0", "prediction": "ein"}\nzwei\n', "line 2: this is not JSON"),
    ],
)
def test_json_in_an_unknown_layout_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    gold = written(tmp_path / "test_2016_flickr.de", "ein Hund\nzwei\n")
    with pytest.raises(DataError, match=f"guess.*{message}"):
        score("multi30k", gold, written(tmp_path / "guess", text))


@pytest.mark.parametrize("name", ["any.json", "any.json.gz", "references", "gold.txt"])
def test_the_format_of_gold_is_recognised_by_content(tmp_path: Path, name: str) -> None:
    """Regression: JSON references not named .json used to be read as lines of text."""
    chats = [{"id": str(n), "dialogue": "A: hi", "summary": text} for n, text in enumerate(TEXTS)]
    data = json.dumps(chats, indent=1, ensure_ascii=False).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    guess = written(tmp_path / "guess", "\n".join(_rows(TEXTS[::-1], ["3", "2", "1", "0"])))
    assert score("samsum", tmp_path / name, guess)["rouge2"] == pytest.approx(100)
    rows = "\n".join(
        json.dumps({"fname": str(n), "dialogue": "hi", "summary": t}) for n, t in enumerate(TEXTS)
    ).encode()
    (tmp_path / name).write_bytes(gzip.compress(rows) if name.endswith("gz") else rows)
    assert score("dialogsum", tmp_path / name, guess)["rouge2"] == pytest.approx(100)
    with pytest.raises(DataError, match="is JSON, which Multi30k .* has no file of"):
        score("multi30k", tmp_path / name, guess)


def test_the_layout_of_cnn_dailymail_is_recognised_by_content(tmp_path: Path) -> None:
    """CNN/DailyMail has two layouts. Regression: a compressed file of JSON lines used to be read as a list of URLs."""
    row = json.dumps({"id": "7", "article": "long text", "highlights": "two cats"})
    (tmp_path / "test.jsonl.gz").write_bytes(gzip.compress(row.encode()))
    guess = written(tmp_path / "guess", '{"id": "7", "prediction": "two cats"}')
    assert score("cnn_dailymail", tmp_path / "test.jsonl.gz", guess)["rouge2"] == pytest.approx(100)


def test_source_files_are_rejected_as_references(tmp_path: Path) -> None:
    for language in ("en", "de"):
        written(tmp_path / f"test_2016_flickr.{language}", f"{language} a b c d\n")
    guess = written(tmp_path / "guess", "de a b c d\n")
    assert score("multi30k", tmp_path, guess)["bleu"] == pytest.approx(100)
    with pytest.raises(DataError, match=r"flickr\.en holds no references, .* such as test_2016_flickr\.de"):
        score("multi30k", tmp_path / "test_2016_flickr.en", guess)
    with pytest.raises(DataError, match="name one file of it, such as newstest2014.de"):
        score("wmt", tmp_path, guess)
    addresses = written(tmp_path / "all_test.txt", "http://news/1\n")
    with pytest.raises(DataError, match="holds no references"):
        score("cnn_dailymail", addresses, guess)
    talks = written(tmp_path / "IWSLT14.TED.tst2012.de-en.en.xml", '<seg id="1"> a </seg>\n')
    with pytest.raises(DataError, match="holds no references"):
        score("iwslt14", talks, guess)
