"""Knowledge: facts by cloze, relations in few examples, types, links. Real files where they are, official layouts by
hand."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import tasks
from bench import baselines
from bench.baselines import embeddings
from bench.scoring.score_files import score
from tasks import fewrel
from tasks.forms import BLANK, Marked, Rank, Target, behind, beside
from tasks.metrics.ranks import by_relation, directions, rank, ranking
from tasks.task import DataError, Example, MissingData, UnknownTask

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def _real(*parts: str) -> Path:
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: ../shared/data/{'/'.join(parts)} is missing")
    return path


def _write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("scores", "right", "others", "expected"),
    [
        ([3, 2, 1], 0, (), 1),
        ([3, 2, 1], 2, (), 3),
        ([3, 2, 1], 2, (0,), 2),
        ([3, 2, 1], 0, (2,), 1),  # what comes behind anyway changes nothing
        ([1, 1, 1, 1], 2, (), 2.5),  # all alike: the middle
        ([1, 1, 1, 1], 2, (0, 1), 1.5),
        ([1, 1, 1, 1], 2, (2, 0), 2),  # the right one itself is never left out
        ([5, 1, 1, 0], 1, (), 2.5),
        ([np.nan, 1, 0], 0, (), 3),  # not a number: the worst
        ([np.nan, np.nan, np.nan], 1, (), 2),
        ([-np.inf, -np.inf, 4], 0, (2,), 1.5),
        ([7], 0, (), 1),
    ],
)
def test_ranks_with_ties_and_without_the_others(scores: list, right: int, others: tuple, expected: float) -> None:
    assert rank(np.array(scores, float), right, others) == expected


def test_a_tied_rank_is_the_mean_over_all_orders() -> None:
    """By brute force: every order of equals is as likely."""
    scores, others = [2, 1, 1, 1, 0, 1], (3,)
    places = []
    for order in permutations(range(len(scores))):
        best = sorted((i for i in order if i not in others), key=lambda i: -scores[i])  # a stable sort keeps the order
        places.append(best.index(2) + 1)
    assert rank(np.array(scores, float), 2, others) == pytest.approx(np.mean(places))


def test_measures_of_ranks_by_hand() -> None:
    gold = [Target("a", kind="tail"), Target("b", kind="head"), Target("c", kind="tail"), Target("d", kind="head")]
    found = ranking(gold, [Rank(1), Rank(2.5), Rank(4), Rank(20)])
    assert found["mr"] == pytest.approx(27.5 / 4) and found["mrr"] == pytest.approx(100 * (1 + 0.4 + 0.25 + 0.05) / 4)
    assert [found[f"hits_at_{k}"] for k in (1, 3, 10)] == [25, 50, 75]
    sides = directions(gold, [1.0, 2.5, 4.0, 20.0])
    assert sides["mrr_tail"] == pytest.approx(62.5) and sides["mrr_head"] == pytest.approx(22.5)
    assert (sides["mr_tail"], sides["mr_head"], sides["hits_at_3_head"]) == (2.5, 11.25, 50)


def test_relations_count_alike_however_many_facts_they_have() -> None:
    gold = [Target("a", kind="P1")] * 3 + [Target("b", kind="P2")]
    found = by_relation(gold, [1.0, 1.0, 5.0, 11.0])
    assert found["p_at_1"] == pytest.approx((200 / 3 + 0) / 2) and found["p_at_10"] == pytest.approx(50)
    assert found["relations_mrr"] == pytest.approx(100 * (2.2 / 3 + 1 / 11) / 2)


def test_a_rank_and_a_target_keep_what_files_need() -> None:
    guess, gold = Rank(2.5, best="Rome"), Target("Oslo", {"Oslo": "Oslo"}, others=("Rome",), kind="P36")
    assert json.dumps(guess) == "2.5" and beside(guess) == {"best": "Rome"} and beside(Rank(1.0)) == {}
    assert json.dumps(gold) == '"Oslo"' and behind(gold) == {"kind": "P36"} and gold == "Oslo"


def _lama(folder: Path, templates: bool = True) -> Path:
    facts = [
        {"uuid": "1", "sub_label": "Italy", "obj_label": "Rome"},
        {"uuid": "2", "sub_label": "Rome \u2028 Italy", "obj_label": "Rome"},
        {"uuid": "3", "sub_label": "Italy", "obj_label": "Oslo"},
        {"uuid": "4", "sub_label": "Chad", "obj_label": "N'Djamena"},
    ]
    _write(folder / "TREx" / "P36.jsonl", *facts)
    _write(folder / "TREx" / "P31.jsonl", {"uuid": "9", "sub_label": "Rome", "obj_label": "Oslo"})
    _write(folder / "common_vocab_cased.txt", "Oslo", "Rome", "Paris")
    if templates:
        _write(folder / "relations.jsonl", {"relation": "P36", "template": "The capital of [X] is [Y] ."})
    else:
        _write(folder / "pararel_patterns" / "P36.jsonl", {"pattern": "[X], whose capital is [Y]"}, {"pattern": "x"})
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


def test_lama_without_what_the_name_gives_away(tmp_path: Path) -> None:
    _lama(tmp_path / "lama")
    examples = tasks.load("lama-string_match").examples(tmp_path, "test")
    assert [e.id for e in examples] == ["P36-1", "P36-3"]
    with pytest.raises(MissingData, match="TREx_UHN"):
        tasks.load("lama-uhn").examples(tmp_path, "test")
    with pytest.raises(UnknownTask, match="google_re"):
        tasks.load("lama-wordnet")


def test_a_list_of_words_made_for_the_models_goes_first(tmp_path: Path) -> None:
    _write(_lama(tmp_path / "lama") / "vocabulary.txt", "Rome", "", "Lima")
    (first, second) = tasks.load("lama").examples(tmp_path, "test")
    assert (first.id, second.id) == ("P36-1", "P36-2") and list(first.gold.candidates) == ["Rome", "Lima"]


def test_the_other_corpora_of_lama(tmp_path: Path) -> None:
    folder = tmp_path / "lama"
    _write(folder / "common_vocab_cased.txt", "1901", "fly", "gold")
    birth = {"pred": "/people/person/date_of_birth", "sub_label": "Ann Lee", "obj_label": "1901", "uuid": "u"}
    _write(folder / "Google_RE" / "date_of_birth_test.jsonl", birth)
    _write(folder / "ConceptNet" / "test.jsonl", {"pred": "CapableOf", "masked_sentences": ["Birds can [MASK]."],
                                                  "obj_label": "fly", "uuid": "c"})  # fmt: skip
    _write(folder / "Squad" / "test.jsonl", {"masked_sentences": ["It is made of [MASK] ."], "obj_label": "gold",
                                             "id": "s_0", "sub_label": "Squad"})  # fmt: skip

    def only(name: str) -> Example:
        (example,) = tasks.load(f"lama-{name}").examples(tmp_path, "test")
        return example

    assert only("google_re").inputs == (f"Ann Lee (born {BLANK}).",) and only("google_re").gold.kind == "date_of_birth"
    assert only("conceptnet").inputs == (f"Birds can {BLANK}.",) and only("conceptnet").gold.kind == "CapableOf"
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
def test_malformed_facts_are_sentences(file: str, row: dict, message: str, tmp_path: Path) -> None:
    _write(_lama(tmp_path / "lama") / file, row)
    with pytest.raises(DataError, match=message):
        tasks.load("lama").examples(tmp_path, "test")


def test_real_facts_have_their_counts() -> None:
    _real("lama")
    examples = tasks.load("lama").examples(DATA, "test")
    assert len(examples) == len({e.id for e in examples}) == 27609  # of 27610 with a template one object is no word
    assert len({e.gold.kind for e in examples}) == 39 and len(examples[0].gold.candidates) == 20970
    assert all(e.inputs[0].count(BLANK) == 1 for e in examples)
    facts = {}
    for path in (DATA / "lama" / "TREx").glob("*.jsonl"):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        facts |= {f"{path.stem}-{row['uuid']}": row for row in rows}
    given = {e.id for e in examples if facts[e.id]["obj_label"].casefold() in facts[e.id]["sub_label"].casefold()}
    kept = {e.id for e in tasks.load("lama-string_match").examples(DATA, "test")}
    assert len(given) > 3000 and kept == {e.id for e in examples} - given


def test_the_usual_word_of_a_relation_is_the_floor(tmp_path: Path) -> None:
    _lama(tmp_path / "lama")
    task = tasks.load("lama")
    examples = task.examples(tmp_path, "test")
    found = baselines.predict("majority", task, [], examples)
    # Rome twice, Oslo once: Rome is first wherever it is right; Oslo is first where Rome is right as well.
    assert found == [1, 1, 1] and [guess.best for guess in found] == ["Rome"] * 3
    assert baselines.predict("majority", task, [], examples[1:]) == [1.5, 1]  # a word each: they share the first places


def test_lists_of_words_are_scored(tmp_path: Path) -> None:
    folder = _lama(tmp_path / "lama")
    lists = {"P36-1": ["Oslo", "Paris", "Rome"], "P36-2": ["Paris"], "P36-3": []}
    path = _write(tmp_path / "guess.jsonl", *({"id": key, "ranked": names} for key, names in lists.items()))
    found = score("lama", folder, path)
    # 2 behind Paris, Oslo being right too; 1 + (2 + 1) / 2 behind Paris; (2 + 1) / 2 of Oslo and Paris.
    assert found["mr"] == pytest.approx((2 + 2.5 + 1.5) / 3) and found["examples"] == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "P36-1", "ranked": ["Lima"]}], "no prediction for P36-2"),
        ([{"id": f"P36-{n}", "ranked": ["Lima"]} for n in (1, 2, 3)], "'Lima' is no candidate of LAMA"),
        ([{"id": "P36-1", "ranked": ["Rome", "Rome"]}], "line 1: a candidate is in the list twice"),
        ([{"id": "P36-1", "ranked": []}] * 2, "line 2: the id P36-1 is there twice"),
        ([{"id": "P36-1"}], 'line 1: the key "ranked" is missing'),
    ],
)
def test_lists_that_do_not_fit_are_refused(rows: list, message: str, tmp_path: Path) -> None:
    folder = _lama(tmp_path / "lama")
    with pytest.raises(DataError, match=message):
        score("lama", folder, _write(tmp_path / "guess.jsonl", *rows))
    with pytest.raises(DataError, match="is a file; name the folder"):
        score("lama", folder / "TREx" / "P36.jsonl", tmp_path / "guess.jsonl")


def _mention(name: str, *given: str) -> dict:
    return {"annot_id": name, "left_context_token": ["In", "1999", ","], "mention_span": "the firm \u2028 Acme",
            "right_context_token": ["moved", "."], "y_str": list(given)}  # fmt: skip


def test_open_entity_asks_for_each_general_type(tmp_path: Path) -> None:
    path = tmp_path / "open_entity" / "crowd" / "train.json"
    _write(path, _mention("a", "company", "organization", "group"), _mention("b", "spokeswoman"))
    examples = tasks.load("open_entity").examples(tmp_path, "train")
    assert len(examples) == 18 and {e.inputs[0] for e in examples} == {"In 1999 , * the firm Acme * moved ."}
    assert [e.inputs[1] for e in examples if e.gold == "1"] == ["group", "organization"]
    assert (examples[1].id, examples[1].group, examples[1].gold.whole, examples[1].gold.kind) == (
        "a-group", "a", "a", "group",
    )  # fmt: skip


TYPED = [({"person"}, {"person"}), ({"group", "organization"}, {"group"}), (set(), {"event"}), ({"place"}, set())]
"""Gold and predicted types of four mentions."""


def _reference(pairs: list[tuple[set, set]]) -> dict[str, float]:
    """The published scorer's formulas, over sets."""
    hits, guessed, actual = (sum(map(len, sets)) for sets in ([g & p for g, p in pairs], [p for _, p in pairs],
                                                             [g for g, _ in pairs]))  # fmt: skip
    p, r = hits / guessed, hits / actual
    precisions = [len(g & q) / len(q) for g, q in pairs if q]
    recalls = [len(g & q) / len(g) for g, q in pairs if g]
    mp, mr = np.mean(precisions), np.mean(recalls)
    found = {"micro_f1": 2 * p * r / (p + r), "macro_f1": 2 * mp * mr / (mp + mr), "micro_precision": p}
    found |= {"micro_recall": r, "strict_accuracy": np.mean([g == q for g, q in pairs])}
    return {name: 100 * float(value) for name, value in found.items()}


def test_types_are_scored_from_files_as_the_official_scorer_does(tmp_path: Path) -> None:
    gold = _write(tmp_path / "any.json", *(_mention(str(i), *given) for i, (given, _) in enumerate(TYPED)))
    answers = {str(i): {"gold": [], "pred": [*guess, "firm"]} for i, (_, guess) in enumerate(TYPED)}
    found = score("open_entity", gold, _write(tmp_path / "guess.json", answers))
    for name, value in _reference(TYPED).items():
        assert found[name] == pytest.approx(value), name
    assert found["micro_f1"] == pytest.approx(2 * 100 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))  # by hand
    with pytest.raises(DataError, match="no prediction for 3-person"):
        del answers["3"]
        score("open_entity", gold, _write(tmp_path / "guess.json", answers))
    with pytest.raises(DataError, match='needs a list of types under "pred"'):
        score("open_entity", gold, _write(tmp_path / "guess.json", {"0": ["person"]}))


def test_nothing_predicted_is_zero_and_not_an_error() -> None:
    task = tasks.load("open_entity")
    assert task.score(["1", "0"], ["0", "0"])["micro_f1"] == 0 and task.score(["0"], ["0"])["macro_f1"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_str": "person"}, 'line 1: the key "y_str" is .person.; a list'),
        ({"left_context_token": [1]}, 'line 1: the key "left_context_token" must be a list of texts'),
        ({"mention_span": None}, 'line 1: the key "mention_span" is None; a text'),
    ],
)
def test_malformed_mentions_are_sentences(change: dict, message: str, tmp_path: Path) -> None:
    _write(tmp_path / "crowd" / "train.json", _mention("a") | change)
    with pytest.raises(DataError, match=message):
        list(tasks.load("open_entity").read(tmp_path, "train"))


@pytest.mark.parametrize(("split", "people"), [("train", 803), ("dev", 759), ("test", 759)])
def test_real_mentions_have_their_counts(split: str, people: int) -> None:
    _real("open_entity")
    examples = tasks.load("open_entity").examples(DATA, split)
    assert len({e.group for e in examples}) == 1998 and len(examples) == 9 * 1998
    assert sum(e.gold == "1" for e in examples if e.gold.kind == "person") == people


def _sentence(word: str) -> dict:
    tokens = ["In", "New", "York", word, "*", "lives"]
    return {"tokens": tokens, "h": ["ann", "Q1", [[3], [5]]], "t": ["new york", "Q2", [[1, 2]]]}


def _relations(path: Path, count: int, sentences: int) -> Path:
    return _write(path, {f"P{r}": [_sentence(f"w{r}.{n}") for n in range(sentences)] for r in range(count)})


def test_episodes_hold_a_question_and_solved_sentences(tmp_path: Path) -> None:
    _relations(tmp_path / "fewrel" / "val_wiki.json", 7, 4)
    task = tasks.load("fewrel-5-3")
    examples = task.examples(tmp_path, "dev")
    assert len(examples) == 1000 and [e.id for e in examples[:2]] == ["0", "1"]
    for example in examples:
        query, *solved = example.inputs
        names = [text.name for text in solved]
        assert query.name is None and len(set(names)) == 5 and all(names.count(name) == 3 for name in names)
        assert len(set(map(str, example.inputs))) == 16, "no sentence twice"
        assert example.gold in names and f" {query.split(' * ')[1]} ".startswith(f" w{example.gold[1:]}.")
        assert all(f"w{name[1:]}." in text for name, text in zip(names, solved, strict=True))
    assert len({e.gold for e in examples}) == 7
    assert examples == task.examples(tmp_path, "dev"), "all seeds and models get the same episodes"
    assert [e.gold for e in examples] != [e.gold for e in tasks.load("fewrel-5-1").examples(tmp_path, "dev")]


def test_both_entities_are_marked_where_they_are_named_first(tmp_path: Path) -> None:
    found = fewrel.relations(_relations(tmp_path / "x.json", 1, 1))["P0"][0]
    assert found == "In # New York # * w0.0 * * lives"
    assert [found[mark] for mark in found.marks] == ["*", "#"] and found.marks == (16, 3)


def test_variants_of_fewrel(tmp_path: Path) -> None:
    half = tasks.load("fewrel-half")
    _relations(tmp_path / "fewrel" / "val_wiki.json", 16, 3)
    seen = [{text.name for e in half.examples(tmp_path, split) for text in e.inputs} for split in ("train", "dev")]
    assert (len(seen[0] - {None}), len(seen[1] - {None})) == (10, 6) and seen[0] & seen[1] == {None}
    assert tasks.load("fewrel-pubmed-10-5").files["dev"] == ("val_pubmed.json",)
    assert tasks.load("fewrel-10-5").chance == 10
    with pytest.raises(MissingData, match="train_wiki.json"):
        tasks.load("fewrel").examples(tmp_path, "train")
    with pytest.raises(DataError, match="has 16 relations for the dev split; 20-way 1-shot episodes take 20"):
        tasks.load("fewrel-20-1").examples(tmp_path, "dev")
    for name in ("fewrel-x", "fewrel-5-0", "fewrel-1-5", "fewrel-5"):
        with pytest.raises(UnknownTask, match="FewRel has no"):
            tasks.load(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must be one JSON object"),
        ({"P1": [{"tokens": ["a"], "h": ["a", "Q", [[0]]]}]}, "P1, sentence 1: not in FewRel's format"),
        ({"P1": [_sentence("x"), _sentence("x") | {"h": ["a", "Q", [[9]]]}]}, "P1, sentence 2: .*outside the sentence"),
        ({"P1": [_sentence("x") | {"t": ["a", "Q", []]}]}, "P1, sentence 1: not in FewRel's format"),
    ],
)
def test_malformed_relations_are_sentences(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        fewrel.relations(_write(tmp_path / "x.json", content))


def test_answers_to_episodes_are_scored(tmp_path: Path) -> None:
    gold = _relations(tmp_path / "any.json", 16, 3)
    right = {str(i): e.gold for i, e in enumerate(_read_as(gold, "fewrel-half"))}
    answers = right | {"0": "P0", "1": "P0"}  # no relation that "half" reports
    found = score("fewrel-half", gold, _write(tmp_path / "guess.json", answers))
    assert found["accuracy"] == pytest.approx(99.8) and found["examples"] == 1000


def _read_as(gold: Path, name: str) -> list[Example]:
    task = tasks.load(name)
    folder = gold.parent / "fewrel"
    folder.mkdir()
    (folder / task.files["dev"][0]).write_bytes(gold.read_bytes())
    return task.examples(gold.parent, "dev")


@pytest.mark.parametrize(("domain", "count", "each"), [("", 16, 700), ("nyt", 25, 100), ("pubmed", 10, 100)])
def test_real_relations_have_their_counts(domain: str, count: int, each: int) -> None:
    found = fewrel.relations(_real("fewrel", fewrel.DOMAINS[domain]))
    assert len(found) == count and {len(texts) for texts in found.values()} == {each}
    assert all(text[text.marks[0]] == "*" and text[text.marks[1]] == "#" for texts in found.values() for text in texts)


def test_floors_of_episodes(tmp_path: Path) -> None:
    _relations(tmp_path / "fewrel" / "val_wiki.json", 16, 3)
    task = tasks.load("fewrel-half")
    train, dev = task.examples(tmp_path, "train"), task.examples(tmp_path, "dev")
    constant = task.score([e.gold for e in dev], baselines.predict("majority", task, train, dev))
    assert 15 < constant["accuracy"] < 25  # a fifth, give or take 4 standard deviations
    solved = Marked("a * b * # c #", (2, 8), "P1"), Marked("x * y * # z #", (2, 8), "P2")
    asked = Example(id="0", inputs=(Marked("x * q * # z #", (2, 8)), *solved), gold="P2")
    assert baselines.predict("bag-of-words", task, [asked], [asked]) == ["P2"]


TRIPLES = {"train": [("1", "_hypernym", "2"), ("3", "_hypernym", "2")], "valid": [("1", "_hypernym", "4")],
           "test": [("1", "_hypernym", "3"), ("4", "_also_see", "1")]}  # fmt: skip


def _graph(folder: Path, named: bool = True, names: dict | None = None) -> Path:
    words = {"1": "land_reform.n.01", "2": "reform.n.01", "3": "a.b.v.02", "4": "fast.s.03"} | (names or {})
    for split, rows in TRIPLES.items():
        _write(folder / f"{split}.txt", *("\t".join(row) for row in rows))
        if named:
            _write(folder / "text" / f"{split}.txt", *(f"{words[h]}\t{r}\t{words[t]}" for h, r, t in rows))
    return folder


def test_each_triple_asks_for_its_tail_and_its_head(tmp_path: Path) -> None:
    _graph(tmp_path / "WN18RR")
    first, second, third, fourth = tasks.load("wn18rr").examples(tmp_path, "test")
    assert [e.id for e in (first, second, third, fourth)] == ["0-tail", "0-head", "1-tail", "1-head"]
    assert first.inputs == ("land reform , noun", "hypernym") and first.inputs[0].name == "1"
    assert second.inputs == ("a.b , verb", "inverse hypernym") and third.inputs == ("fast , adjective", "also see")
    assert (first.gold, first.gold.kind, second.gold, second.gold.kind) == ("3", "tail", "1", "head")
    assert first.gold.others == {"2", "3", "4"}, "right by any of the three files"
    assert second.gold.others == {"1"} and first.group == second.group == "0"
    assert dict(first.gold.candidates)["2"] == "reform , noun" and len(first.gold.candidates) == 4
    assert len(tasks.load("wn18rr").examples(tmp_path, "train")) == 4


def test_texts_of_two_columns_go_first(tmp_path: Path) -> None:
    _write(_graph(tmp_path / "WN18RR") / "entity2text.txt", *(f"{n}\tword {n},  its meaning" for n in "1234"))
    assert tasks.load("wn18rr").examples(tmp_path, "test")[0].inputs[0] == "word 1, its meaning"
    folder = _graph(tmp_path / "FB15k-237", named=False)
    with pytest.raises(MissingData, match="entity2text.txt"):
        tasks.load("fb15k237").examples(tmp_path, "test")
    _write(folder / "entity2text.txt", *(f"{n}\tThing {n}" for n in "1234"))
    task = tasks.load("fb15k237")
    assert task.examples(tmp_path, "test")[0].inputs == ("Thing 1", "hypernym")
    _write(folder / "relation2text.txt", "_hypernym\tis a kind of")
    assert task.examples(tmp_path, "test")[1].inputs == ("Thing 3", "inverse is a kind of")


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("test.txt", "1\t_hypernym", "line 1: 2 tab-separated fields where 3 were expected"),
        ("test.txt", "1\t\t2", "line 1: a triple needs a head, a relation and a tail"),
        ("entity2text.txt", "1", "line 1: a name and its text"),
        ("entity2text.txt", "1\tone", "line 1: there is no text for the entity '2'"),
        ("text/valid.txt", "a.n.01\t_other\tb.n.01", "line 1: its relation is not that of the same line"),
    ],
)
def test_malformed_triples_are_sentences(name: str, row: str, message: str, tmp_path: Path) -> None:
    _write(_graph(tmp_path / "WN18RR") / name, row)
    with pytest.raises(DataError, match=message):
        tasks.load("wn18rr").examples(tmp_path, "test")


def test_lists_of_entities_are_scored_without_other_right_ones(tmp_path: Path) -> None:
    folder = _graph(tmp_path / "WN18RR")
    lists = {"0-tail": ["2", "4", "1", "3"], "0-head": [], "1-tail": ["1"], "1-head": ["1", "2", "3", "4"]}
    found = score("wn18rr", folder, _write(tmp_path / "x.jsonl", *({"id": k, "ranked": v} for k, v in lists.items())))
    # 2 and 4 are right as well: 2nd. Nothing said: the middle of four. First. Fourth.
    assert found["mr"] == pytest.approx((2 + 2.5 + 1 + 4) / 4) and found["mr_tail"] == 1.5
    assert found["mrr_head"] == pytest.approx(100 * (0.4 + 0.25) / 2)


def test_floors_of_links(tmp_path: Path) -> None:
    _graph(tmp_path / "WN18RR")
    task = tasks.load("wn18rr")
    train, test = task.examples(tmp_path, "train"), task.examples(tmp_path, "test")
    # Tail 3 of "hypernym": 2 and 4 are left out, 1 and 3 never occur. Head 1: 1 and 3 once each, 2 and 4 never.
    assert baselines.predict("majority", task, train, test)[:2] == [1.5, 1.5]


def test_embeddings_learn_a_graph_by_heart() -> None:
    """A cycle of 12 names: "next" leads on, "inverse next" back; every other fact of it is held out nowhere."""
    names = {str(n): str(n) for n in range(12)}

    def asked(n: int, kind: str) -> Example:
        step = 1 if kind == "tail" else -1
        gold = Target(str((n + step) % 12), names, kind=kind)
        return Example(id="", inputs=(str(n), "next" if step == 1 else "inverse next"), gold=gold)

    facts = [asked(n, kind) for n in range(12) for kind in ("tail", "head")]
    assert embeddings.ranks(facts * 20, facts) == [1.0] * 24
    untrained = embeddings.ranks(facts[:1], facts[1:])
    assert np.mean(untrained) > 3


def test_the_slopes_of_the_embeddings_are_those_of_the_loss() -> None:
    """Against finite differences of ln softmax: one step at a tiny rate lowers the loss as the slope says."""
    rng = np.random.default_rng(0)
    triples = np.array([[0, 0, 1], [2, 1, 3]])

    def loss(tables: list) -> float:
        h, r = tables[0][triples[:, 0]], tables[1][triples[:, 1]]
        t = tables[0][triples[:, 2]]
        scores = (((h * r)[:, None] * np.conj(t)[None]).real).sum(axis=-1)
        nll = np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)
        return float(nll.sum() + embeddings.WEIGHT * sum((np.abs(x) ** 3).sum() for x in (h, r, t)))

    tables = [rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3)) for n in (4, 2)]
    slopes = [np.zeros_like(table) for table in tables]
    for table, slope in zip(tables, slopes, strict=True):
        for i in np.ndindex(table.shape):
            for unit in (1.0, 1j):
                ends = []
                for sign in (1, -1):
                    table[i] += sign * 1e-6 * unit
                    ends.append(loss(tables))
                    table[i] -= sign * 1e-6 * unit
                slope[i] += unit * (ends[0] - ends[1]) / 2e-6
    moved = [table.copy() for table in tables]
    sums = [np.full(table.shape, 1e-30) for table in tables]
    embeddings._step(moved, sums, triples, triples[:, 2])
    for sum_, slope in zip(sums, slopes, strict=True):
        np.testing.assert_allclose(sum_, np.abs(slope) ** 2, rtol=1e-4, atol=1e-7)  # Adagrad's sums are squared slopes
    for new, old, slope in zip(moved, tables, slopes, strict=True):
        assert ((new - old) * np.conj(slope)).real.max() <= 1e-9, "every step goes down"


@pytest.mark.parametrize(("split", "count"), [("train", 86835), ("dev", 3034), ("test", 3134)])
def test_real_links_have_their_counts(split: str, count: int) -> None:
    _real("WN18RR")
    examples = tasks.load("wn18rr").examples(DATA, split)
    assert len(examples) == 2 * count and len(examples[0].gold.candidates) == 40943
    assert len({e.inputs[1] for e in examples if e.gold.kind == "tail"}) == 11
    assert all(e.gold in e.gold.others for e in examples)
    if split == "test":
        assert examples[2].inputs == ("call , verb", "verb group")
