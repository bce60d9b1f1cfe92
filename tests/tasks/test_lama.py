"""Cloze questions about facts: ranking metrics, and LAMA's files, real if present and written by hand."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.forms import BLANK, Rank, Target, gold_details, prediction_details
from ptmbench.tasks.metrics.ranks import by_relation, directions, rank, ranking
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask
from tests.tasks.folders import DATA, real, write_rows


@pytest.mark.parametrize(
    ("scores", "right", "others", "expected"),
    [
        ([3, 2, 1], 0, (), 1),
        ([3, 2, 1], 2, (), 3),
        ([3, 2, 1], 2, (0,), 2),
        ([3, 2, 1], 0, (2,), 1),  # leaving out a lower-ranked word changes nothing
        ([1, 1, 1, 1], 2, (), 2.5),  # all equal: the middle rank
        ([1, 1, 1, 1], 2, (0, 1), 1.5),
        ([1, 1, 1, 1], 2, (2, 0), 2),  # the right answer itself is never left out
        ([5, 1, 1, 0], 1, (), 2.5),
        ([np.nan, 1, 0], 0, (), 3),  # NaN has the worst rank
        ([np.nan, np.nan, np.nan], 1, (), 2),
        ([-np.inf, -np.inf, 4], 0, (2,), 1.5),
        ([7], 0, (), 1),
    ],
)
def test_ranks_with_ties_and_without_other_answers(scores: list, right: int, others: tuple, expected: float) -> None:
    assert rank(np.array(scores, float), right, others) == expected


def test_a_tied_rank_is_the_mean_over_all_orders() -> None:
    """Compares with brute force over all orders, because each order of equal scores is equally likely."""
    scores, others = [2, 1, 1, 1, 0, 1], (3,)
    places = []
    for order in permutations(range(len(scores))):
        best = sorted((i for i in order if i not in others), key=lambda i: -scores[i])  # a stable sort keeps the order
        places.append(best.index(2) + 1)
    assert rank(np.array(scores, float), 2, others) == pytest.approx(np.mean(places))


def test_ranking_metrics_by_hand() -> None:
    gold = [Target("a", kind="tail"), Target("b", kind="head"), Target("c", kind="tail"), Target("d", kind="head")]
    found = ranking(gold, [Rank(1), Rank(2.5), Rank(4), Rank(20)])
    assert found["mr"] == pytest.approx(27.5 / 4) and found["mrr"] == pytest.approx(100 * (1 + 0.4 + 0.25 + 0.05) / 4)
    assert [found[f"hits_at_{k}"] for k in (1, 3, 10)] == [25, 50, 75]
    sides = directions(gold, [1.0, 2.5, 4.0, 20.0])
    assert sides["mrr_tail"] == pytest.approx(62.5) and sides["mrr_head"] == pytest.approx(22.5)
    assert (sides["mr_tail"], sides["mr_head"], sides["hits_at_3_head"]) == (2.5, 11.25, 50)


def test_relations_have_equal_weight_whatever_their_number_of_facts() -> None:
    gold = [Target("a", kind="P1")] * 3 + [Target("b", kind="P2")]
    found = by_relation(gold, [1.0, 1.0, 5.0, 11.0])
    assert found["p_at_1"] == pytest.approx((200 / 3 + 0) / 2) and found["p_at_10"] == pytest.approx(50)
    assert found["relations_mrr"] == pytest.approx(100 * (2.2 / 3 + 1 / 11) / 2)


def test_rank_and_target_are_written_to_json_with_details() -> None:
    guess, gold = Rank(2.5, best="Rome"), Target("Oslo", {"Oslo": "Oslo"}, others=("Rome",), kind="P36")
    assert (
        json.dumps(guess) == "2.5"
        and prediction_details(guess) == {"best": "Rome"}
        and prediction_details(Rank(1.0)) == {}
    )
    assert json.dumps(gold) == '"Oslo"' and gold_details(gold) == {"kind": "P36"} and gold == "Oslo"


def _lama(folder: Path, templates: bool = True) -> Path:
    facts = [
        {"uuid": "1", "sub_label": "Italy", "obj_label": "Rome"},
        {"uuid": "2", "sub_label": "Rome \u2028 Italy", "obj_label": "Rome"},
        {"uuid": "3", "sub_label": "Italy", "obj_label": "Oslo"},
        {"uuid": "4", "sub_label": "Chad", "obj_label": "N'Djamena"},
    ]
    write_rows(folder / "TREx" / "P36.jsonl", *facts)
    write_rows(folder / "TREx" / "P31.jsonl", {"uuid": "9", "sub_label": "Rome", "obj_label": "Oslo"})
    write_rows(folder / "common_vocab_cased.txt", "Oslo", "Rome", "Paris")
    if templates:
        write_rows(folder / "relations.jsonl", {"relation": "P36", "template": "The capital of [X] is [Y] ."})
    else:
        write_rows(
            folder / "pararel_patterns" / "P36.jsonl", {"pattern": "[X], whose capital is [Y]"}, {"pattern": "x"}
        )
    return folder


@pytest.mark.parametrize(
    ("templates", "text"),
    [(True, f"The capital of Italy is {BLANK} ."), (False, f"Italy, whose capital is {BLANK}")],
)
def test_lama_reads_facts_in_templates(templates: bool, text: str, tmp_path: Path) -> None:
    _lama(tmp_path / "lama", templates)
    examples = tasks.load("lama").examples(tmp_path, "test")
    assert [(e.id, str(e.gold), e.gold.kind) for e in examples] == [
        ("P36-1", "Rome", "P36"), ("P36-2", "Rome", "P36"), ("P36-3", "Oslo", "P36"),
    ]  # fmt: skip
    assert examples[0].inputs == (text,)
    assert [sorted(e.gold.others) for e in examples] == [["Oslo"], [], ["Rome"]]
    assert list(examples[0].gold.candidates) == ["Oslo", "Rome", "Paris"]
    assert examples[0].gold.candidates is examples[2].gold.candidates


def test_string_match_variant_drops_facts_whose_subject_contains_the_object(tmp_path: Path) -> None:
    _lama(tmp_path / "lama")
    examples = tasks.load("lama-string_match").examples(tmp_path, "test")
    assert [e.id for e in examples] == ["P36-1", "P36-3"]
    with pytest.raises(MissingData, match="TREx_UHN"):
        tasks.load("lama-uhn").examples(tmp_path, "test")
    with pytest.raises(UnknownTask, match="google_re"):
        tasks.load("lama-wordnet")


def test_the_subject_of_a_fact_is_a_mention_of_its_entity(tmp_path: Path) -> None:
    facts = [
        {"uuid": "1", "sub_label": "Italy", "sub_uri": "Q38", "obj_label": "Rome"},
        {"uuid": "2", "sub_label": "Rome", "sub_uri": "http://www.wikidata.org/entity/Q220", "obj_label": "Oslo"},
        {"uuid": "3", "sub_label": "Chad", "obj_label": "Oslo"},
    ]
    write_rows(_lama(tmp_path / "lama") / "TREx" / "P36.jsonl", *facts)
    for template in ("The capital of [X] is [Y] .", "[Y] is the capital of [X] ."):
        write_rows(tmp_path / "lama" / "relations.jsonl", {"relation": "P36", "template": template})
        found = tasks.load("lama").examples(tmp_path, "test")
        given = [[(e.inputs[m.text][m.begin : m.end], m.symbol) for m in e.channels["entities"]] for e in found]
        assert given == [[("Italy", "Q38")], [("Rome", "Q220")], []]
        assert all(e.channels["languages"] == ("en",) for e in found)


def test_vocabulary_file_of_the_models_takes_precedence(tmp_path: Path) -> None:
    write_rows(_lama(tmp_path / "lama") / "vocabulary.txt", "Rome", "", "Lima")
    (first, second) = tasks.load("lama").examples(tmp_path, "test")
    assert (first.id, second.id) == ("P36-1", "P36-2") and list(first.gold.candidates) == ["Rome", "Lima"]


def test_duplicate_pairs_of_names_are_read_once(tmp_path: Path) -> None:
    words = enumerate(["Rome", "Oslo", "Rome"])
    rows = [{"uuid": str(n), "sub_label": "Italy", "obj_label": word} for n, word in words]
    write_rows(_lama(tmp_path / "lama") / "TREx" / "P36.jsonl", *rows)
    found = tasks.load("lama").examples(tmp_path, "test")
    assert [(e.id, e.gold.others) for e in found] == [("P36-0", {"Oslo"}), ("P36-1", {"Rome"})]


def test_the_other_corpora_of_lama(tmp_path: Path) -> None:
    folder = tmp_path / "lama"
    write_rows(folder / "common_vocab_cased.txt", "1901", "fly", "gold")
    birth = {"pred": "/people/person/date_of_birth", "sub_label": "Ann Lee", "obj_label": "1901", "uuid": "u"}
    write_rows(folder / "Google_RE" / "date_of_birth_test.jsonl", birth)
    write_rows(folder / "ConceptNet" / "test.jsonl", {"pred": "CapableOf", "masked_sentences": ["Birds can [MASK]."],
                                                  "obj_label": "fly", "uuid": "c"})  # fmt: skip
    write_rows(folder / "Squad" / "test.jsonl", {"masked_sentences": ["It is made of [MASK] ."], "obj_label": "gold",
                                             "id": "s_0", "sub_label": "Squad"})  # fmt: skip

    def only(name: str) -> Example:
        (example,) = tasks.load(f"lama-{name}").examples(tmp_path, "test")
        return example

    assert only("google_re").inputs == (f"Ann Lee (born {BLANK}).",) and only("google_re").gold.kind == "date_of_birth"
    assert only("conceptnet").inputs == (f"Birds can {BLANK}.",) and only("conceptnet").gold.kind == "test"
    assert only("squad").inputs == (f"It is made of {BLANK} .",) and only("squad").id == "test-s_0"


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        ("TREx/P36.jsonl", {"uuid": "1", "sub_label": "Italy"}, 'line 1: the key "obj_label" is missing'),
        ("TREx/P36.jsonl", {"obj_label": "Rome"}, 'line 1: the key "sub_label" is missing'),
        ("relations.jsonl", {"relation": "P36", "template": "[X] is"}, "needs one .X. and one .Y."),
        ("relations.jsonl", {"relation": "P36"}, 'line 1: the key "template" is missing'),
    ],
)
def test_errors_describe_malformed_facts(file: str, row: dict, message: str, tmp_path: Path) -> None:
    write_rows(_lama(tmp_path / "lama") / file, row)
    with pytest.raises(DataError, match=message):
        tasks.load("lama").examples(tmp_path, "test")


def test_real_facts_have_the_official_counts() -> None:
    real("lama")
    examples = tasks.load("lama").examples(DATA, "test")
    # Of 27610 facts, 17 are duplicate pairs, and the object of one is not a word.
    assert len(examples) == len({e.id for e in examples}) == 27592
    assert len({e.gold.kind for e in examples}) == 39 and len(examples[0].gold.candidates) == 20970
    assert all(e.inputs[0].count(BLANK) == 1 for e in examples)
    facts = {}
    for path in (DATA / "lama" / "TREx").glob("*.jsonl"):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        facts |= {f"{path.stem}-{row['uuid']}": row for row in rows}
    given = {e.id for e in examples if facts[e.id]["obj_label"].casefold() in facts[e.id]["sub_label"].casefold()}
    kept = {e.id for e in tasks.load("lama-string_match").examples(DATA, "test")}
    assert len(given) > 3000 and kept == {e.id for e in examples} - given


def test_majority_baseline_ranks_the_frequent_words_of_a_relation(tmp_path: Path) -> None:
    _lama(tmp_path / "lama")
    task = tasks.load("lama")
    examples = task.examples(tmp_path, "test")
    found = baselines.predict("majority", task, [], examples)
    # Rome occurs twice, Oslo once. Rome ranks first for its facts. Oslo ranks first where Rome is also right.
    assert found == [1, 1, 1] and [guess.best for guess in found] == ["Rome"] * 3
    # Without the first example, each word occurs once, so they share the first ranks.
    assert baselines.predict("majority", task, [], examples[1:]) == [1.5, 1]


def test_ranked_word_lists_are_scored(tmp_path: Path) -> None:
    folder = _lama(tmp_path / "lama")
    lists = {"P36-1": ["Oslo", "Paris", "Rome"], "P36-2": ["Paris"], "P36-3": []}
    path = write_rows(tmp_path / "guess.jsonl", *({"id": key, "ranked": names} for key, names in lists.items()))
    found = score("lama", folder, path)
    # Rank 2 behind Paris, because Oslo is also right; 1 + (2 + 1) / 2 behind Paris; (2 + 1) / 2 of Oslo and Paris.
    assert found["mr"] == pytest.approx((2 + 2.5 + 1.5) / 3) and found["examples"] == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "P36-1", "ranked": ["Lima"]}], "no prediction for the example P36-2"),
        ([{"id": f"P36-{n}", "ranked": ["Lima"]} for n in (1, 2, 3)], "'Lima' is not a candidate of LAMA"),
        ([{"id": "P36-1", "ranked": ["Rome", "Rome"]}], "line 1: a candidate appears twice in the list"),
        ([{"id": "P36-1", "ranked": []}] * 2, "line 2: the id P36-1 appears twice"),
        ([{"id": "P36-1"}], 'line 1: the key "ranked" is missing'),
    ],
)
def test_invalid_word_lists_are_rejected(rows: list, message: str, tmp_path: Path) -> None:
    folder = _lama(tmp_path / "lama")
    with pytest.raises(DataError, match=message):
        score("lama", folder, write_rows(tmp_path / "guess.jsonl", *rows))
    with pytest.raises(DataError, match="is a file. Name the folder"):
        score("lama", folder / "TREx" / "P36.jsonl", tmp_path / "guess.jsonl")
