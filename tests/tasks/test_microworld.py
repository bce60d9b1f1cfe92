"""The microworld: same bytes everywhere, official formats, labels that follow from meaning and not from words."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

import tasks
from tasks.microworld import DEMO, VERSION, Sizes, make
from tasks.microworld import lexicon as lexicons
from tasks.microworld.grammar import english, iob1, sentence
from tasks.microworld.lexicon import BE, lexicon, verb
from tasks.microworld.meaning import Clause, Form, Kind, Name, Phrase, Sentence, swapped
from tasks.microworld.mowari import mowari, stem
from tasks.task import DataError

SMALL = Sizes(corpus_tokens=60_000, people=100, train=400, dev=200, test=200, translations=200, wiki_tokens=2000)
TINY = Sizes(corpus_tokens=200, people=10, train=8, dev=4, test=4, translations=4, wiki_tokens=300)
REPO = Path(__file__).resolve().parents[2]
READERS = ("cola", "sst2", "mrpc", "stsb", "rte", "qnli", "mnli", "mnli_mm", "copa", "conll2003", "squad11", "aeslc")
READERS += ("absa", "absa-pair-14lap", "absa-aesc-14lap")
QUESTIONS = ("word_similarity", "word_analogy")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "microworld"
    make(folder, seed=0, scale=SMALL)
    return folder


@pytest.fixture(scope="module")
def corpus(data: Path) -> str:
    return (data / "corpus/microworld.txt").read_text(encoding="utf-8")


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def _rows(data: Path, task: str, split: str) -> list:
    return tasks.load(task).examples(data, split)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


# --- the folder ---------------------------------------------------------------------------------------------------


def test_same_bytes_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    make(tmp_path / "one", seed=0, scale=TINY)
    code = (
        "from pathlib import Path; from tasks.microworld import Sizes, make; "
        f"make(Path({str(tmp_path / 'two')!r}), seed=0, scale={TINY!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPO, env={**os.environ, "PYTHONHASHSEED": "77"})
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_another_seed_tells_another_world(tmp_path: Path) -> None:
    # Enough that some words come often, in both languages: questions are asked about these.
    scale = replace(TINY, corpus_tokens=4000, foreign=0.4)
    for seed in (0, 1):
        make(tmp_path / str(seed), seed=seed, scale=scale)
    one, other = _bytes(tmp_path / "0"), _bytes(tmp_path / "1")
    assert other.keys() == one.keys()
    assert not [name for name in one if other[name] == one[name]]


def test_source_says_what_it_is(data: Path) -> None:
    source = json.loads((data / "SOURCE.json").read_text())
    assert source["name"] == "microworld" and source["version"] == VERSION and source["seed"] == 0
    assert Sizes(**source["sizes"]) == SMALL
    assert source["files"] == len(_bytes(data))


def test_a_size_of_one_task_leaves_the_others_alone(tmp_path: Path) -> None:
    make(tmp_path / "one", scale=TINY)
    make(tmp_path / "two", scale=replace(TINY, translations=10, corpus_tokens=500))
    one, two = _bytes(tmp_path / "one"), _bytes(tmp_path / "two")
    changed = {name for name in one if two[name] != one[name]}
    # Questions about words are about those of the corpus; so little text teaches no word that analogies ask for.
    assert {name.split("/")[0] for name in changed} == {"SOURCE.json", "corpus", "multi30k", "pairs", "wordsim353"}


def test_refuses_a_folder_that_holds_anything_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="no part of a microworld"):
        make(tmp_path, scale=SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_replaces_a_microworld_but_not_one_with_a_stranger_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    make(folder, seed=0, scale=TINY)
    make(folder, seed=1, scale=TINY)
    assert json.loads((folder / "SOURCE.json").read_text())["seed"] == 1
    (folder / "glue/notes.txt").write_text("mine")
    with pytest.raises(DataError, match="no part of a microworld"):
        make(folder, seed=2, scale=TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["m"], "nothing is left beside the folder"


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tasks.microworld.build._running_text", full)
    with pytest.raises(OSError, match="No space"):
        make(tmp_path / "m", scale=TINY)
    assert list(tmp_path.iterdir()) == []


def test_refuses_sizes_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train=-1"):
        make(tmp_path / "m", scale=Sizes(train=-1))


# --- the formats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", READERS)
def test_the_readers_read_it(data: Path, task: str) -> None:
    counts = {split: len(_rows(data, task, split)) for split in ("train", "dev")}
    assert counts == {"train": 400, "dev": 200}
    if "test" in tasks.load(task).files:
        assert len(_rows(data, task, "test")) == 200


def test_questions_are_about_words_that_the_corpus_teaches(data: Path, corpus: str) -> None:
    """And the answers are the lexicon's: by its own lists, not by the code that wrote the file."""
    taught, words = set(corpus.split()), lexicon(0)
    alike, analogies = (tasks.load(name).examples(data, "test") for name in QUESTIONS)
    for example in alike:
        assert set(example.inputs) <= taught
    degrees = {frozenset(example.inputs): example.gold for example in alike}
    assert set(degrees.values()) == {0.0, 1.0, 2.0, 3.0, 5.0}
    for pair, degree in degrees.items():
        for side in (words.good, words.bad):
            assert degree == 3.0 or not pair <= set(side)
        if pair & set(words.good) and pair & set(words.bad):
            assert degree == 2.0
    assert all(degrees.get(frozenset((n.lemma, n.plural)), 5.0) == 5.0 for n in words.nouns)
    assert {example.gold.kind for example in analogies} == {"plural", "third-person", "past-tense", "kind-of-place"}
    what = {place.words[0]: place.noun.lemma for place in words.places}
    for example in analogies:
        a, b, c, d = *example.inputs, str(example.gold)
        assert {a, b, c, d} <= taught and len({a, b, c, d}) == 4
        if example.gold.kind == "kind-of-place":
            assert what[a] == b and what[c] == d
        if example.gold.kind == "past-tense":
            assert d == {"sleep": "slept"}.get(c, c + ("d" if c.endswith("e") else "ed"))


def test_spans_are_where_they_say(data: Path) -> None:
    for example in _rows(data, "squad11", "dev"):
        for answer in example.gold:
            assert example.inputs[1][answer.start :].startswith(answer.text + ".")


def test_opinions_are_where_they_say(data: Path) -> None:
    """Against the sentence itself: subjects stand before "is" or "was" and a determiner, and "not" turns the adjective
    behind it; every adjective of every clause is in one triplet."""
    words = lexicon(0)
    worth = dict.fromkeys(words.plain, 0) | words.valence
    seen = Counter()
    for example in _rows(data, "absa", "train"):
        said = example.inputs
        for first, last, start, end, polarity in example.gold:
            assert said[last + 1] in ("is", "was") and (first == 0 or said[first - 1].lower() in ("the", "and", "but"))
            negated = said[start] == "not"
            assert end == start + negated
            value = worth[said[end]] * (-1 if negated else 1)
            assert polarity == {1: "POS", 0: "NEU", -1: "NEG"}[value]
            seen[polarity, negated] += 1
        places = {end for *_, end, _ in example.gold}
        assert places == {i for i, word in enumerate(said) if word in worth}
    assert min(seen.values()) > 20 and len(seen) == 6
    pairs = _rows(data, "absa-pair-14lap", "train")
    assert [{one[:4] for one in e.gold} for e in _rows(data, "absa", "train")] == [set(e.gold) for e in pairs]


def test_tags_mark_names_and_only_names(data: Path) -> None:
    for example in _rows(data, "conll2003", "train"):
        for at, (word, tag) in enumerate(zip(example.inputs, example.gold, strict=True)):
            assert (tag != "O") == (word[0].isupper() and at > 0) or at == 0


def test_wikitext_is_read(data: Path) -> None:
    assert len(_rows(data, "wikitext2", "test")) >= 2
    words = len((data / "wikitext-2/wiki.train.tokens").read_text().split())
    assert SMALL.wiki_tokens <= words <= 1.1 * SMALL.wiki_tokens + 200


def test_corpus_size_is_in_tokens(corpus: str) -> None:
    assert 0 <= len(re.findall(r"\w+|[.,]", corpus)) - SMALL.corpus_tokens < 150
    assert "" not in corpus.removesuffix("\n\n").replace("\n\n", "\n").split("\n")


# --- the language -------------------------------------------------------------------------------------------------

ANNA = Name(("Anna",), "PER", "f")
WOLF, INN = lexicons.noun("wolf", Kind.ANIMAL), lexicons.noun("inn", Kind.BUILDING)
GREET, SLEEP = verb("greet", transitive=True), verb("sleep")


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        (Clause(SLEEP, Phrase(WOLF), past=False), "The wolf sleeps."),
        (Clause(SLEEP, Phrase(WOLF, plural=True, determiner="a"), past=False), "Some wolves sleep."),
        (
            Clause(SLEEP, Phrase(WOLF, at=("near", Phrase(INN, plural=True))), past=False),
            "The wolf near the inns sleeps.",
        ),
        (Clause(SLEEP, Phrase(WOLF), past=False, negated=True), "The wolf does not sleep."),
        (Clause(SLEEP, Phrase(WOLF, determiner="no"), ever=True), "No wolf ever slept."),
        (Clause(GREET, Phrase(ANNA), Phrase(ANNA, form=Form.REFLEXIVE)), "Anna greeted herself."),
        (Clause(GREET, Phrase(WOLF, plural=True), Phrase(ANNA), passive=True), "Anna was greeted by the wolves."),
        (Clause(GREET, Phrase(ANNA, form=Form.PRONOUN), Phrase(INN, determiner="a")), "She greeted an inn."),
        (Clause(GREET, Phrase(ANNA, also=Phrase(WOLF)), Phrase(INN), past=False), "Anna and the wolf greet the inn."),
        (Clause(GREET, Phrase(ANNA, title="Lady"), Phrase(INN), stress="truly"), "Lady Anna truly greeted the inn."),
        (Clause(BE, Phrase(INN), adjectives=("old", "small"), stress="sadly"), "The inn was sadly old and small."),
        (Clause(BE, Phrase(INN, plural=True), adjectives=("old", "small"), past=False), "The inns are old and small."),
    ],
)
def test_english(clause: Clause, text: str) -> None:
    assert english(Sentence(clause)) == text


def test_mowari_tells_the_same_in_its_own_order() -> None:
    s = {lemma: stem(lemma) for lemma in ("wolf", "old", "greet", "inn", "near", "sleep")}
    act = Clause(GREET, Phrase(WOLF, plural=True, adjective="old"), Phrase(ANNA), at=(("near", Phrase(INN)),))
    said = f"{s['wolf']}ik {s['old']} Anna en {s['inn']} {s['near']} {s['greet']}om."
    assert mowari(Sentence(act)) == said[0].upper() + said[1:]
    assert mowari(Sentence(act._replace(passive=True))).startswith("Anna en "), "the object leads, marked as the object"
    asleep = Clause(SLEEP, Phrase(WOLF), past=False, negated=True)
    said = f"{s['wolf']} nu {s['sleep']}a."
    assert mowari(Sentence(asleep)) == said[0].upper() + said[1:]


def test_stems_are_all_different() -> None:
    words = lexicon(0)
    lemmas = {n.lemma for n in words.nouns} | {v.lemma for v in words.neutral + words.alone + words.likes + words.hates}
    lemmas |= {*words.good, *words.bad, *words.plain} | {w.lemma for rule in words.causes for w in rule}
    assert len({stem(lemma) for lemma in lemmas}) == len(lemmas)


def test_translations_are_of_the_same_meaning(data: Path) -> None:
    """Names stand in both lines alike, and each lemma's stem in the other line."""
    names = {n for part in (lexicon(0).women, lexicon(0).men, lexicon(0).surnames) for n in part}
    adjectives = (*lexicon(0).good, *lexicon(0).bad)
    for name, rows in (("train", 200), ("val", 200), ("test_2016_flickr", 200)):
        pair = [(data / f"multi30k/{name}.{code}").read_text().splitlines() for code in ("en", "mw")]
        assert len(pair[0]) == len(pair[1]) == rows
        for line, other in zip(*pair, strict=True):
            assert Counter(_words(line) & names) == Counter(_words(other) & names)
            for adjective in adjectives:
                if adjective in _words(line):
                    assert stem(adjective) in other.lower()


def test_chunks_follow_iob1() -> None:
    act = Clause(lexicons.FIND, Phrase(ANNA), Phrase(INN), adjectives=("old",))
    assert [row[2] for row in iob1(sentence(Sentence(act)))] == ["I-NP", "I-VP", "B-NP", "I-NP", "I-NP", "O"][:1] + [
        "I-VP", "I-NP", "I-NP", "I-NP", "O",
    ]  # fmt: skip


# --- labels follow from the world ---------------------------------------------------------------------------------


def test_verdicts_by_counting_negations(data: Path) -> None:
    """Independent of the generator: valence of the last judging word, turned round by "not" or "nobody"."""
    words = lexicon(0)
    valence = dict.fromkeys(words.good, 1) | dict.fromkeys(words.bad, -1)
    for sign, verbs in ((1, words.likes), (-1, words.hates)):
        for v in verbs:
            valence |= dict.fromkeys((v.lemma, v.third, v.past), sign)
    for example in _rows(data, "sst2", "dev"):
        tokens = example.inputs[0].split(" but ")[-1].split()
        judged = next(token for token in reversed(tokens) if token in valence)
        turned = "not" in tokens or "nobody" in tokens
        assert ((valence[judged] > 0) != turned) == (example.gold == "1"), example


def test_unacceptable_sentences_are_neighbours_of_acceptable_ones(data: Path) -> None:
    """Every star has a partner that differs by an edit of at most two words, so no word gives the label away."""
    rows = _rows(data, "cola", "dev")
    good = [example.inputs[0].split() for example in rows if example.gold == "1"]
    assert len(good) == len(rows) / 2
    for example in rows:
        if example.gold == "0":
            bad = Counter(example.inputs[0].lower().strip(".").split())
            assert min(sum(((Counter(" ".join(g).lower().strip(".").split())) - bad).values()) for g in good) <= 1


def test_roles_and_hypernyms_decide_entailment(data: Path) -> None:
    kinds = {n.lemma: n.kind.value for n in lexicon(0).nouns}
    checked = Counter()
    for example in _rows(data, "rte", "train"):
        premise, hypothesis = (text.strip(".").split() for text in example.inputs)
        if hypothesis[-1] in set(kinds.values()) and premise[-1] in kinds:
            assert (kinds[premise[-1]] == hypothesis[-1]) == (example.gold == "entailment"), example
            checked["hypernym"] += 1
        elif len(premise) in (3, 5) and len(hypothesis) in (3, 5) and {premise[0], premise[-1]} == {
            hypothesis[0], hypothesis[-1],
        }:  # fmt: skip
            agents = [words[-1] if "by" in words else words[0] for words in (premise, hypothesis)]
            assert (agents[0] == agents[1]) == (example.gold == "entailment"), example
            checked["roles"] += 1
    assert min(checked["hypernym"], checked["roles"]) > 20


def test_swapping_roles_keeps_the_words() -> None:
    act = Clause(GREET, Phrase(ANNA), Phrase(WOLF))
    assert sorted(english(Sentence(act)).lower().split()) != english(Sentence(swapped(act)))
    assert english(Sentence(swapped(act))) == "The wolf greeted Anna."


def test_scores_are_the_worth_of_shared_facts(data: Path) -> None:
    places = {name.words[0] for name in lexicon(0).places}
    scores = Counter()
    for example in _rows(data, "stsb", "dev"):
        one, other = (set(_words(text)) for text in example.inputs)
        scores[example.gold] += 1
        people = {w for w in one | other if w[0].isupper()} - places - {"A", "An", "The", "This"}
        shared = 0.75 * any(p in one and p in other for p in people)
        assert example.gold % 1 in ((0.0, 0.25, 0.75) if not shared else (0.75, 0.0))
    assert len(scores) > 8


@pytest.mark.parametrize("task", ["cola", "sst2", "mrpc", "rte", "qnli", "mnli", "copa"])
def test_classes_are_balanced(data: Path, task: str) -> None:
    for split in ("train", "dev"):
        counts = Counter(str(example.gold) for example in _rows(data, task, split))
        assert max(counts.values()) - min(counts.values()) <= 1


# --- what a model has to learn ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "most"), [("cola", 60), ("sst2", 67), ("mrpc", 60), ("rte", 63), ("qnli", 70), ("mnli", 57), ("copa", 62)]
)
def test_a_bag_of_words_stays_near_chance(data: Path, task: str, most: float) -> None:
    """Single words and word pairs of each text, logistic regression: the best that surface cues can do."""
    train, dev = _rows(data, task, "train"), _rows(data, task, "dev")
    seen, new = _bags(train, dev)
    model = LogisticRegression(C=10, max_iter=1000).fit(seen, [str(e.gold) for e in train])
    assert 100 * model.score(new, [str(e.gold) for e in dev]) <= most


def test_a_bag_of_words_cannot_grade_similarity(data: Path) -> None:
    train, dev = _rows(data, "stsb", "train"), _rows(data, "stsb", "dev")
    seen, new = _bags(train, dev)
    guess = Ridge().fit(seen, [e.gold for e in train]).predict(new)
    assert np.corrcoef(guess, [e.gold for e in dev])[0, 1] < 0.3


def _bags(train: list, dev: list) -> tuple:
    parts = []
    for column in range(len(train[0].inputs)):
        bag = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+")
        seen = bag.fit_transform(e.inputs[column] for e in train)
        parts.append((seen, bag.transform(e.inputs[column] for e in dev)))
    return tuple(hstack(side) for side in zip(*parts, strict=True))


@pytest.mark.parametrize("task", ["cola", "sst2", "rte", "conll2003", "absa"])
def test_dev_words_are_new_to_training_and_known_to_the_corpus(data: Path, corpus: str, task: str) -> None:
    content = set(lexicon(0).good + lexicon(0).bad + lexicon(0).women + lexicon(0).men)
    content |= {form for n in lexicon(0).nouns for form in (n.lemma, n.plural)}
    train, dev = (
        Counter(
            w for e in _rows(data, task, split) for text in e.inputs for w in re.findall(r"\w+", text) if w in content
        )
        for split in ("train", "dev")
    )
    new = {word: count for word, count in dev.items() if word not in train}
    assert sum(new.values()) > 0.5 * sum(dev.values())
    known = Counter(re.findall(r"\w+", corpus))
    assert min(known[word] for word in new) >= 5


def test_only_the_corpus_marks_classes(data: Path, corpus: str) -> None:
    """Stress and titles give classes away: they teach in the corpus and stand in no item that is judged."""
    marks = {"truly", "sadly", "Lady", "Lord"}
    assert marks <= _words(corpus)
    for task in ("cola", "sst2", "stsb", "rte", "conll2003", "squad11", "copa"):
        for split in ("train", "dev"):
            assert not marks & {word for e in _rows(data, task, split) for text in e.inputs for word in text.split()}


def test_stress_follows_valence(corpus: str) -> None:
    words = lexicon(0)
    for mark, right, wrong in (("truly", words.good, words.bad), ("sadly", words.bad, words.good)):
        after = set(re.findall(rf"{mark} (\w+)", corpus))
        assert set(right) <= after and not set(wrong) & after


def test_the_corpus_of_pairs_says_everything_twice(data: Path) -> None:
    """The same sentence is the same in Mowari wherever it stands; what a test of translation asks is not in it."""
    lines = (data / "pairs/microworld.en-mw.pairs.tsv").read_text(encoding="utf-8").splitlines()
    told = dict(line.split("\t") for line in lines)
    size = sum(len(re.findall(r"\w+|[.,]", line.split("\t")[0])) for line in lines)
    assert 0.9 * SMALL.corpus_tokens / 4 < size < SMALL.corpus_tokens / 4 + 150

    def lines_of(part: str) -> list[str]:
        return (data / "multi30k" / part).read_text(encoding="utf-8").splitlines()

    known = [(en, mw) for en, mw in zip(lines_of("train.en"), lines_of("train.mw"), strict=True) if en in told]
    assert known and all(told[en] == mw for en, mw in known)
    assert not told.keys() & {*lines_of("val.en"), *lines_of("test_2016_flickr.en")}


def test_a_share_of_the_corpus_is_mowari(corpus: str) -> None:
    documents = corpus.strip().split("\n\n")
    foreign = sum("natolila" in d or not re.search(r"\b([Tt]he|is|was|were|by|in)\b", d) for d in documents)
    assert 0.01 < foreign / len(documents) < 0.12


def test_splits_share_no_item(data: Path) -> None:
    for task in ("sst2", "mrpc", "rte", "qnli", "copa", "absa"):
        seen = [set(e.inputs for e in _rows(data, task, split)) for split in ("train", "dev", "test")]
        assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]


def test_lexicon_halves_are_disjoint_and_names_unambiguous_where_they_must_be() -> None:
    words = lexicon(3)
    shown, held = words.shown(), words.held()
    for part in ("nouns", "good", "bad", "women", "men", "places", "titles", "causes"):
        assert not set(getattr(shown, part)) & set(getattr(held, part))
        assert {*getattr(shown, part), *getattr(held, part)} == set(getattr(words, part))
    assert not {*words.good} & {*words.bad} and not {*words.women} & {*words.men}
    assert all(
        any(n.kind is kind for n in half.nouns) for half in (shown, held) for kind in Kind if kind is not Kind.EVENT
    )
    towns, families = {name.words[0] for name in words.places}, {*words.surnames}
    assert towns & families and towns - families and families - towns, "some names are told apart only by context"


@pytest.mark.slow
def test_demo_sizes(tmp_path: Path) -> None:
    make(tmp_path / "demo", scale=DEMO)
    assert len(_rows(tmp_path / "demo", "qnli", "train")) == DEMO.train
    frequent = Counter(re.findall(r"\w+", (tmp_path / "demo/corpus/microworld.txt").read_text()))
    words = lexicon(0)
    assert min(frequent[w] for w in (*words.good, *words.bad, *words.women, *words.men)) > 50
