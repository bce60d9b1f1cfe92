"""The labels of the microworld: they follow from its world, not from single words, and need knowledge of the corpus."""

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from ptmbench import tasks
from ptmbench.tasks.microworld.lexicon import lexicon
from ptmbench.tasks.microworld.meaning import Kind
from tests.tasks.conftest import SMALL


def _rows(data: Path, task: str, split: str) -> list:
    return tasks.load(task).examples(data, split)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


# --- labels follow from the world ---------------------------------------------------------------------------------


def test_sentiment_labels_follow_from_valence_and_negation(data: Path) -> None:
    """Computes labels without the generator: the valence of the last word with one, reversed by "not" or "nobody"."""
    words = lexicon(0)
    valence = dict.fromkeys(words.good, 1) | dict.fromkeys(words.bad, -1)
    for sign, verbs in ((1, words.likes), (-1, words.hates)):
        for v in verbs:
            valence |= dict.fromkeys((v.lemma, v.third, v.past), sign)
    for example in _rows(data, "sst2", "dev"):
        tokens = example.inputs[0].split(" but ")[-1].split()
        judged = next(token for token in reversed(tokens) if token in valence)
        negated = "not" in tokens or "nobody" in tokens
        assert ((valence[judged] > 0) != negated) == (example.gold == "1"), example


def test_unacceptable_sentences_are_small_edits_of_acceptable_ones(data: Path) -> None:
    """Every unacceptable sentence is an acceptable one with at most one word moved and one replaced, so no word gives
    the label away."""
    rows = _rows(data, "cola", "dev")
    good, bad = ([_lower(e.inputs[0]) for e in rows if e.gold == label] for label in "10")
    assert len(good) == len(bad)
    for sentence in bad:
        assert sentence not in good
        assert any(_is_small_edit(other, sentence) for other in good), sentence


def _lower(sentence: str) -> list[str]:
    return sentence.lower().strip(".").split()


def _is_small_edit(one: list[str], other: list[str]) -> bool:
    """Whether ``other`` is ``one`` after at most one word has moved and one has been replaced."""
    if len(one) != len(other) or (Counter(one) - Counter(other)).total() > 1:
        return False
    pairs = itertools.product(*([words[:i] + words[i + 1 :] for i in range(len(words))] for words in (one, other)))
    return any(sum(a != b for a, b in zip(left, right, strict=True)) <= 1 for left, right in pairs)


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


def test_similarity_is_the_sum_of_the_points_of_shared_facts(data: Path) -> None:
    """Reads verdict, kind of topic, person and place from the words, without the generator."""
    words = lexicon(0)
    signs = ((1, words.likes, words.good), (-1, words.hates, words.bad))
    verdicts = {form: sign for sign, verbs, _ in signs for v in verbs for form in (v.lemma, v.third, v.past)}
    verdicts |= {adjective: sign for sign, _, adjectives in signs for adjective in adjectives}
    kinds, places = {noun.lemma: noun.kind for noun in words.nouns}, {name.words[0] for name in words.places}

    def facts(text: str) -> tuple:
        found = _words(text) - {"A", "An", "The", "This"}
        verdict = {verdicts[word] for word in found if word in verdicts}
        topic = {kinds[word] for word in found if word in kinds}
        names = {word for word in found if word[0].isupper()}
        assert len(verdict) == len(topic) == len(names & places) == 1 and names - places, text
        return verdict, topic, names - places, names & places

    scores = Counter()
    for example in _rows(data, "stsb", "dev"):
        shared = [one == other for one, other in zip(*map(facts, example.inputs), strict=True)]
        assert example.gold == sum(points for points, same in zip((2, 2, 0.75, 0.25), shared, strict=True) if same)
        scores[example.gold] += 1
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
def test_a_bag_of_words_classifier_stays_near_chance(data: Path, task: str, most: float) -> None:
    """Fits a logistic regression to the words and word pairs of each text, as an upper bound for surface cues."""
    train, dev = _rows(data, task, "train"), _rows(data, task, "dev")
    seen, new = _bags(train, dev)
    model = LogisticRegression(C=10, max_iter=1000).fit(seen, [str(e.gold) for e in train])
    assert 100 * model.score(new, [str(e.gold) for e in dev]) <= most


def test_a_bag_of_words_does_not_predict_similarity(data: Path) -> None:
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
def test_dev_words_are_mostly_new_to_training_but_known_from_the_corpus(data: Path, corpus: str, task: str) -> None:
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


def test_class_markers_occur_only_in_the_corpus(data: Path, corpus: str) -> None:
    """Stress words and titles reveal classes. They occur in the corpus, for learning, but in no example of a task."""
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


def test_parallel_corpus_has_consistent_translations_and_no_test_sentences(data: Path) -> None:
    """A sentence has the same Mowari translation in the corpus and the task. Sentences of dev and test are left out."""
    lines = (data / "pairs/microworld.en-mw.pairs.tsv").read_text(encoding="utf-8").splitlines()
    translations = dict(line.split("\t") for line in lines)
    size = sum(len(re.findall(r"\w+|[.,]", line.split("\t")[0])) for line in lines)
    assert 0.9 * SMALL.corpus_tokens / 4 < size < SMALL.corpus_tokens / 4 + 150

    def lines_of(part: str) -> list[str]:
        return (data / "multi30k" / part).read_text(encoding="utf-8").splitlines()

    known = [(en, mw) for en, mw in zip(lines_of("train.en"), lines_of("train.mw"), strict=True) if en in translations]
    assert known and all(translations[en] == mw for en, mw in known)
    assert not translations.keys() & {*lines_of("val.en"), *lines_of("test_2016_flickr.en")}


def test_a_small_share_of_the_corpus_is_mowari(corpus: str) -> None:
    documents = corpus.strip().split("\n\n")
    foreign = sum("natolila" in d or not re.search(r"\b([Tt]he|is|was|were|by|in)\b", d) for d in documents)
    assert 0.01 < foreign / len(documents) < 0.12


def test_splits_share_no_inputs(data: Path) -> None:
    for task in ("sst2", "mrpc", "rte", "qnli", "copa", "absa"):
        seen = [set(e.inputs for e in _rows(data, task, split)) for split in ("train", "dev", "test")]
        assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]


def test_lexicon_halves_are_disjoint_and_some_names_are_ambiguous() -> None:
    words = lexicon(3)
    shown, held_out = words.shown(), words.held()
    for part in ("nouns", "good", "bad", "women", "men", "places", "titles", "causes"):
        assert not set(getattr(shown, part)) & set(getattr(held_out, part))
        assert {*getattr(shown, part), *getattr(held_out, part)} == set(getattr(words, part))
    assert not {*words.good} & {*words.bad} and not {*words.women} & {*words.men}
    assert all(
        any(n.kind is kind for n in half.nouns) for half in (shown, held_out) for kind in Kind if kind is not Kind.EVENT
    )
    towns, families = {name.words[0] for name in words.places}, {*words.surnames}
    assert towns & families and towns - families and families - towns, "some names are told apart only by context"
