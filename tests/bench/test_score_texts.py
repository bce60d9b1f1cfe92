"""Files of written texts against references: summaries and translations, line by line or by their ids."""

import json
from pathlib import Path

import pytest

from bench.scoring.score_files import score
from tasks.task import DataError


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_generation(tmp_path: Path) -> None:
    gold = _write(tmp_path / "test_2016_flickr.de", "ein Hund läuft im Park\nzwei Katzen\n")
    found = score("multi30k", gold, _write(tmp_path / "guess", "ein Hund läuft im Park\nzwei Katzen\n"))
    assert (found["bleu"], found["chrf"]) == pytest.approx((100, 100)) and found["examples"] == 2
    with pytest.raises(DataError, match="has 2 references but .* has 1 lines: line 2 is the first"):
        score("multi30k", gold, _write(tmp_path / "guess", "ein Hund\n"))


def test_generation_from_an_official_folder(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    folder.mkdir()
    _write(folder / "b.subject", "body\n\n@subject\nlunch now\n\n@ann0\nmeal\n")
    _write(folder / "a.subject", "body\n\n@subject\nhello\n")
    found = score("aeslc", folder, _write(tmp_path / "guess", "hello\nmeal\n"))
    assert (found["rouge1"], found["author_rouge1"]) == (100.0, 50.0)


def test_references_are_read_from_official_json(tmp_path: Path) -> None:
    """The best of several references counts, and no reference is a line of JSON."""
    rows = [{"fname": str(n), "dialogue": "hi", "summary1": "they meet", "summary2": "lunch now"} for n in range(2)]
    gold = _write(tmp_path / "dialogsum.test.jsonl", "\n".join(map(json.dumps, rows)))
    guess = _write(tmp_path / "guess", "lunch now\nthey\n")
    assert score("dialogsum", gold, guess)["rouge1"] == pytest.approx((100 + 200 / 3) / 2)
    assert score("dialogsum", tmp_path, guess)["rouge1"] == pytest.approx((100 + 200 / 3) / 2)
    chats = [{"id": "1", "dialogue": "A: hi", "summary": "hi"}]
    gold = _write(tmp_path / "any.json", json.dumps(chats, indent=1))
    assert score("samsum", gold, _write(tmp_path / "guess", "hi\n"))["rouge1"] == 100


def test_texts_of_several_lines_come_with_their_ids(tmp_path: Path) -> None:
    """As `predict` writes them, in any order: ROUGE-Lsum compares sentence by sentence, and a sentence is a line."""
    chats = [{"id": str(n), "dialogue": "A: hi", "summary": f"{n} comes\r\nall meet"} for n in (1, 2)]
    gold = _write(tmp_path / "test.json", json.dumps(chats))
    told = [{"id": str(n), "prediction": f"comes all\n{n} meet"} for n in (2, 1)]
    guess = _write(tmp_path / "samsum.test.jsonl", "\n".join(map(json.dumps, told)) + "\n")
    found = score("samsum", gold, guess)
    assert (found["rougeLsum"], found["rougeL"]) == pytest.approx((100, 75))
    plain = _write(tmp_path / "guess", "comes all 1 meet\ncomes all 2 meet\n")
    assert score("samsum", gold, plain)["rougeLsum"] == pytest.approx(75)
    lines = _write(tmp_path / "gold.txt", "comes all 2 meet\ncomes all 1 meet\n")
    assert score("samsum", lines, guess)["rouge2"] == pytest.approx(100)  # no ids: in the order of the lines
    for text, message in (
        (json.dumps(told[0]), "no prediction for 1 of"),
        ("\n".join(map(json.dumps, [*told, told[0]])), "line 3: the id 2 is there twice"),
        (json.dumps({"id": "1", "prediction": ["hi"]}), 'line 1: .*"prediction"'),
    ):
        with pytest.raises(DataError, match=message):
            score("samsum", gold, _write(guess, text))


def test_sources_are_no_references(tmp_path: Path) -> None:
    for language in ("en", "de"):
        _write(tmp_path / f"test_2016_flickr.{language}", f"{language} a b c d\n")
    guess = _write(tmp_path / "guess", "de a b c d\n")
    assert score("multi30k", tmp_path, guess)["bleu"] == pytest.approx(100)
    with pytest.raises(DataError, match=r"flickr\.en holds no references, .* such as test_2016_flickr\.de"):
        score("multi30k", tmp_path / "test_2016_flickr.en", guess)
    with pytest.raises(DataError, match="name one file of it, such as newstest2014.de"):
        score("wmt", tmp_path, guess)
    addresses = _write(tmp_path / "all_test.txt", "http://news/1\n")
    with pytest.raises(DataError, match="holds no references"):
        score("cnn_dailymail", addresses, guess)
    talks = _write(tmp_path / "IWSLT14.TED.tst2012.de-en.en.xml", '<seg id="1"> a </seg>\n')
    with pytest.raises(DataError, match="holds no references"):
        score("iwslt14", talks, guess)
