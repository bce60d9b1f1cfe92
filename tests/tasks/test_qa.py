"""Question answering tasks: their official files, real if present, and prediction files."""

import json
import tempfile
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.errors import UsageError
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.forms import Answer, Piece, Reply, prediction_details
from ptmbench.tasks.mlqa import variant
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import DataError, Example, UnknownTask
from tests.tasks.folders import DATA, real


def _write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def _has_answers_at_offsets(example: Example) -> bool:
    return all(example.inputs[1].startswith(answer.text, answer.start) for answer in example.gold)


@pytest.mark.parametrize(
    ("split", "count", "unanswered", "articles"),
    [("all", 6078, 3168, 16), ("train", 4611, 2427, 12), ("dev", 1467, 741, 4), ("test", 5915, None, 20)],
)
def test_halves_of_squad20_have_official_counts(split: str, count: int, unanswered: int | None, articles: int) -> None:
    real("squad", "cs224n")
    examples = tasks.load("squad20_cs224n").examples(DATA, split)
    assert len({example.id for example in examples}) == len(examples) == count
    assert len({example.group.rpartition("#")[0] for example in examples}) == articles
    if unanswered is None:
        assert all(example.gold is None for example in examples)
    else:
        assert sum(example.gold == () for example in examples) == unanswered
        assert all(_has_answers_at_offsets(example) for example in examples)


@pytest.mark.parametrize("language", ["de", "zh"])
def test_xquad_is_trained_in_english_on_other_articles(language: str) -> None:
    real("xquad", f"xquad.{language}.json")
    task = tasks.load(f"xquad_{language}")
    whole, train, dev = (task.examples(DATA, split) for split in ("all", "train", "dev"))
    assert len(whole) == 1190 and len({example.group for example in whole}) == 240
    assert all(_has_answers_at_offsets(example) for example in (*whole, *train))
    assert {e.id for e in train} | {e.id for e in dev} == {e.id for e in whole}, "translations keep the questions' ids"
    titles = [{example.group.rpartition("#")[0] for example in part} for part in (train, dev)]
    assert (len(titles[0]), len(titles[1])) == (36, 12) and not titles[0] & titles[1]
    assert all(example.inputs[0].isascii() for example in train[:5])
    assert {example.channels["languages"] for example in train} == {("en", "en")}
    assert {example.channels["languages"] for example in (*dev, *whole)} == {(language, language)}


def test_real_sample_of_coqa_is_read() -> None:
    path = real("samples", "coqa", "coqa-dev-v1.0.sample.json")
    story = json.loads(path.read_text())["data"][0]
    (example,) = _read("coqa", path)
    assert example.id == f"{story['id']}#1" and example.inputs == ("What color was Cotton?", story["story"])
    assert [story["story"][answer.start : answer.stop] for answer in example.gold] == ["white", "white"]


def test_real_sample_of_hotpotqa_is_read() -> None:
    (example,) = _read("hotpotqa", real("samples", "hotpotqa", "hotpot_dev_distractor_v1.sample.json"))
    assert example.gold.facts == {("Scott Derrickson", 0), ("Ed Wood", 0)} and example.gold[0].text == "yes"
    pieces = [piece for piece in example.inputs if isinstance(piece, Piece)]
    assert len({piece.name[0] for piece in pieces}) == 10
    assert pieces[0].name == ("Adam Collis", 0) and pieces[0].startswith("Adam Collis is an American")


def test_real_sample_of_mlqa_is_read() -> None:
    path = real("samples", "mlqa", "mlqa.sample.json")
    (example,) = questions(path)
    assert _has_answers_at_offsets(example)


def _read(name: str, path: Path) -> list[Example]:
    """Reads the examples of a file, whatever its name, with the reader of the task."""
    task = tasks.load(name)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / task.files["dev"][0]).symlink_to(path)
        return list(task.read(Path(folder), "dev"))


SQUAD = [
    {"id": "a", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}], "is_impossible": False},
    {"id": "b", "question": "When?", "answers": [], "is_impossible": True, "plausible_answers": []},
]


def _squad(path: Path, rows: list[dict] = SQUAD) -> Path:
    article = {"title": "t", "paragraphs": [{"context": "Ann and Bo.", "qas": rows}]}
    return _write(path, {"version": "v2.0", "data": [article]})


def test_squad20_distinguishes_unanswerable_from_unlabelled_questions(tmp_path: Path) -> None:
    _squad(tmp_path / "dev-v2.0.json", [*SQUAD, {"id": "c", "question": "?", "answers": []}])
    golds = [example.gold for example in tasks.load("squad20").read(tmp_path, "dev")]
    assert golds == [(Answer("Ann", 0),), (), None]


def test_squad20_files_are_scored_with_and_without_no_answer_scores(tmp_path: Path, capsys) -> None:
    gold, guess = _squad(tmp_path / "any.json"), _write(tmp_path / "guess.json", {"a": "ann", "b": "Bo"})
    found = score("squad20", gold, guess)
    assert (found["f1"], found["has_answer_f1"], found["no_answer_f1"]) == (50, 100, 0) and "best_f1" not in found
    na_probs = _write(tmp_path / "doubts.json", {"a": 0.25, "b": 0.75})
    found = score("squad20", gold, guess, na_probs)
    assert (found["f1"], found["best_f1"], found["best_f1_threshold"]) == (50, 100, 0.25)
    _write(na_probs, {"b": 1.5, "a": 1})  # a score above 1, the threshold of the script, means no answer
    assert score("squad20", gold, guess, na_probs)["f1"] == 100
    command = ["score", "squad20", "--gold", str(gold), "--predictions", str(guess), "--na-prob-file", str(na_probs)]
    assert main([*command, "--json"]) == 0 and json.loads(capsys.readouterr().out)["best_f1"] == 100
    for content, message in (
        ({"a": 0.1}, "doubts.json has no prediction for the example b"),
        ({"a": 0.1, "b": 0.2, "c": 0}, "a prediction for c"),
        ({"a": 0.1, "b": "x"}, "the score of b must be a number, not 'x'"),
        ('{"a": 0.1, "b": NaN}', "the score of b must be a number, not nan"),
        ('{"a": 0.1, "a": 2}', "has the key 'a' twice"),
        ([1], "one JSON object"),
        ("{", "line 1: this is not JSON"),
    ):
        with pytest.raises(DataError, match=message):
            score("squad20", gold, guess, _write(na_probs, content))
    with pytest.raises(UsageError, match="Every question of SQuAD 1.1 has an answer"):
        score("squad11", _squad(tmp_path / "one.json", SQUAD[:1]), _write(guess, {"a": "x"}), na_probs)


def test_a_whole_file_is_scored_even_if_only_a_part_is_reported(tmp_path: Path) -> None:
    for name, official in (("xquad_en", "xquad.en.json"), ("xquad_zh", "xquad.zh.json"), ("squad20_cs224n", "x.json")):
        gold, guess = _squad(tmp_path / official, SQUAD[:1]), _write(tmp_path / "guess.json", {"a": "Ann"})
        assert score(name, gold, guess)["examples"] == 1


STORY = {
    "id": "s",
    "source": "mctest",
    "story": "Ann had a big red hat. She did not like it.",
    "questions": [{"turn_id": 1, "input_text": "Who?"}, {"turn_id": 2, "input_text": "Did she like it?"}],
    "answers": [
        {"turn_id": 1, "input_text": "ann", "span_start": 0, "span_end": 22, "span_text": ""},
        {"turn_id": 2, "input_text": "No.", "span_start": 23, "span_end": 43, "span_text": ""},
    ],
    "additional_answers": {
        "0": [
            {"turn_id": 2, "input_text": "unknown", "span_start": -1, "span_end": -1, "span_text": "unknown"},
            {"turn_id": 1, "input_text": "a red hat", "span_start": 0, "span_end": 22, "span_text": ""},
        ]
    },
}


def test_coqa_reads_turns_with_their_history(tmp_path: Path) -> None:
    first, second = _read("coqa", _write(tmp_path / "x.json", {"version": "1.0", "data": [STORY]}))
    assert (first.id, first.group, first.inputs[0]) == ("s#1", "s", "Who?")
    assert second.inputs[0] == "Did she like it? | Who? ann"
    assert first.gold == (Answer("ann", 0, 3), Answer("a red hat", 14, 22)), "the words closest to it"
    assert second.gold == (Answer("no", 23), Answer("unknown", -1)), "named answers have the task's spelling"
    story = json.loads(json.dumps(STORY))
    story["answers"].pop()
    with pytest.raises(DataError, match="story s: a list of answers has none for turn 2"):
        _read("coqa", _write(tmp_path / "x.json", {"data": [story]}))
    for content, message in (("[]", "one JSON object"), ('{"data": 1}', 'the key "data" is 1'), ("{", "not JSON")):
        with pytest.raises(DataError, match=message):
            _read("coqa", _write(tmp_path / "x.json", content))


def test_coqa_files_are_scored(tmp_path: Path) -> None:
    gold = _write(tmp_path / "any.json", {"data": [STORY]})
    rows = [{"id": "s", "turn_id": 1, "answer": "Ann"}, {"id": "s", "turn_id": 2, "answer": "no"}]
    found = score("coqa", gold, _write(tmp_path / "guess.json", rows))
    assert (found["examples"], found["exact_match"], found["f1"]) == (2, 50, 50)  # each matches one of two answers
    for content, message in (
        (rows[:1], "no prediction for the example s#2"),
        ([*rows, rows[0]], "answers s#1 .* twice"),
        ([*rows, {"id": "s", "turn_id": 3, "answer": ""}], "a prediction for s#3"),
        ([{"id": "s", "turn_id": "1", "answer": ""}], 'the key "turn_id" is'),
        ({}, "one JSON list of objects"),
    ):
        with pytest.raises(DataError, match=message):
            score("coqa", gold, _write(tmp_path / "guess.json", content))


HOTPOT = {
    "_id": "h",
    "question": "Who?",
    "answer": "Bo Li",
    "supporting_facts": [["B", 1], ["A", 0]],
    "context": [["Bo Li", ["He is.", " Bo Li sang."]], ["B", ["Nobody.", " It was Bo Li."]], ["A", ["A sentence."]]],
}


def test_hotpotqa_reads_sentences_as_pieces(tmp_path: Path) -> None:
    (example,) = _read("hotpotqa", _write(tmp_path / "x.json", [HOTPOT]))
    context = "Bo Li\nHe is. Bo Li sang.\nB\nNobody. It was Bo Li.\nA\nA sentence.\n"
    assert "".join(example.inputs[1:]) == context
    assert [piece.name for piece in example.inputs if isinstance(piece, Piece)] == [
        ("Bo Li", 0), ("Bo Li", 1), ("B", 0), ("B", 1), ("A", 0)
    ]  # fmt: skip
    (answer,) = example.gold
    assert answer == Answer("Bo Li", context.index("It was") + 7), "in a supporting sentence, not where it stands first"
    places = {"yes": context.index(" It was"), "Nobody": context.index("Nobody"), "nowhere": -1}
    for text, place in places.items():
        (example,) = _read("hotpotqa", _write(tmp_path / "x.json", [HOTPOT | {"answer": text}]))
        assert example.gold == (Answer(text, place),)
    for change, message in (
        ({"supporting_facts": [["A", "0"]]}, "the supporting facts of h must be"),
        ({"context": [["A", "text"]]}, "question h: a paragraph is no"),
        ({"answer": None}, 'the key "answer" is None'),
    ):
        with pytest.raises(DataError, match=message):
            _read("hotpotqa", _write(tmp_path / "x.json", [HOTPOT | change]))
    with pytest.raises(DataError, match="one JSON list of objects"):
        _read("hotpotqa", _write(tmp_path / "x.json", HOTPOT))


def test_hotpotqa_files_are_scored(tmp_path: Path) -> None:
    gold, guess = _write(tmp_path / "any.json", [HOTPOT]), tmp_path / "guess.json"
    found = score("hotpotqa", gold, _write(guess, {"answer": {"h": "bo li"}, "sp": {"h": [["A", 0], ["X", 9]]}}))
    assert (found["f1"], found["facts_f1"], found["headline"]) == pytest.approx((100, 50, 50))
    for content, message in (
        ({"answer": {"h": "x"}}, 'objects under the keys "answer" and "sp"'),
        ({"answer": {"h": "x"}, "sp": {}}, 'h is only one of "answer" and "sp"'),
        ({"answer": {"k": "x"}, "sp": {"k": []}}, "no prediction for the example h"),
        ({"answer": {"h": 3}, "sp": {"h": []}}, 'the key "h" is 3; a text'),
        ({"answer": {"h": "x"}, "sp": {"h": ["A"]}}, "the supporting facts of h must be"),
    ):
        with pytest.raises(DataError, match=message):
            score("hotpotqa", gold, _write(guess, content))


def test_mlqa_has_a_task_for_each_pair_of_languages(tmp_path: Path) -> None:
    task = tasks.load("mlqa-zh-en")
    assert tasks.load("mlqa-de") is tasks.load("mlqa") and tasks.load("mlqa-zh").name == "mlqa-zh"
    assert task.files["test"] == ("test/test-context-zh-question-en.json",) and task.name == "mlqa-zh-en"
    assert task.files["dev"] == ("dev/dev-context-en-question-en.json",), "nothing is tuned in the reported language"
    gold = _squad(tmp_path / "test-context-zh-question-en.json", SQUAD[:1])
    assert score("mlqa-zh-en", gold, _write(tmp_path / "guess.json", {"a": "Ann."}))["exact_match"] == 100
    for pair in ("fr", "zh-", "zh-fr", "de-de-de", ""):
        with pytest.raises(UnknownTask, match="MLQA has no"):
            variant(pair)


CMRC = [
    {
        "context_id": "D_1", "context_text": "中国在亚洲，中国很大。", "title": "中国",
        "qas": [{"query_text": "在哪里？", "query_id": "D_1_Q_0", "answers": ["亚洲", "在亚洲", "欧洲"]}],
    }
]  # fmt: skip


def test_cmrc2018_reads_both_layouts(tmp_path: Path) -> None:
    (example,) = _read("cmrc2018", _write(tmp_path / "x.json", CMRC))
    gold = (Answer("亚洲", 3), Answer("在亚洲", 2), Answer("欧洲", -1))
    assert (example.id, example.inputs, example.group) == ("D_1_Q_0", ("在哪里？", "中国在亚洲，中国很大。"), "D_1")
    assert example.gold == gold and example.channels == {"languages": ("zh", "zh")}
    assert [example.id for example in _read("cmrc2018", _squad(tmp_path / "y.json", SQUAD[:1]))] == ["a"]
    found = score("cmrc2018", _write(tmp_path / "any.json", CMRC), _write(tmp_path / "g.json", {"D_1_Q_0": "在亚洲。"}))
    assert (found["exact_match"], found["f1"], found["headline"]) == (100, 100, 100)
    for change, message in (
        ({"qas": [{"query_text": "?", "query_id": "q", "answers": []}]}, 'the key "answers" of q'),
        ({"qas": [3]}, "must be a list of objects"),
        ({"context_text": 3}, 'the key "context_text" is 3'),
    ):
        with pytest.raises(DataError, match=message):
            _read("cmrc2018", _write(tmp_path / "x.json", [CMRC[0] | change]))


def test_a_reply_equals_its_text() -> None:
    reply = Reply("cat", no_answer=-1.5, facts=[("T", 0)])
    assert reply == "cat" and json.dumps(reply) == '"cat"'
    assert prediction_details(reply) == {"no_answer": -1.5, "facts": (("T", 0),)}
    assert prediction_details("cat") == prediction_details(Reply("cat")) == prediction_details(3) == {}
