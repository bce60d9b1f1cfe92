"""Each metric, compared with a library that implements the official scorer and with cases worked out by hand."""

import math
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer
from scipy import stats
from sklearn import metrics as sklearn_metrics

from ptmbench import tasks
from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.bleu import bleu, bleu_into
from ptmbench.tasks.metrics.correlation import correlation
from ptmbench.tasks.metrics.entity_f1 import entities, entity_f1, iob2
from ptmbench.tasks.metrics.f1 import binary_f1
from ptmbench.tasks.metrics.matthews import matthews
from ptmbench.tasks.metrics.perplexity import perplexity, size
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.metrics.squad import normalise, squad
from ptmbench.tasks.task import DataError

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["the", "a", "Oslo", "Łódź", "naïve", "running", "runs", "U.S.", "-", "10,000", "東京", "e\u0301", "it's", "."]


def _labels(rng: random.Random, classes: int) -> tuple[list[str], list[str]]:
    size = rng.randrange(1, 40)
    return [str(rng.randrange(classes)) for _ in range(size)], [str(rng.randrange(classes)) for _ in range(size)]


def _sentence(rng: random.Random, longest: int = 12) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(longest)))


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_classification_metrics_equal_scikit_learn(classes: int) -> None:
    rng = random.Random(classes)
    for _ in range(100):
        gold, guess = _labels(rng, classes)
        assert accuracy(gold, guess)["accuracy"] == pytest.approx(100 * sklearn_metrics.accuracy_score(gold, guess))
        f1 = sklearn_metrics.f1_score(gold, guess, labels=["1"], average="macro", zero_division=0)
        assert binary_f1("1")(gold, guess)["f1"] == pytest.approx(100 * f1)
        mcc = sklearn_metrics.matthews_corrcoef(gold, guess)
        assert matthews(gold, guess)["mcc"] == pytest.approx(100 * mcc, abs=1e-10)


def test_metrics_of_constant_and_perfect_predictions() -> None:
    assert matthews(["0", "1", "1"], ["1", "1", "1"]) == {"mcc": 0.0}
    assert matthews(["1", "1", "1"], ["1", "1", "1"]) == {"mcc": 0.0}  # as in scikit-learn, not 100
    assert matthews(["0", "1"], ["1", "0"])["mcc"] == pytest.approx(-100)
    assert binary_f1("1")(["0", "0"], ["0", "0"]) == {"f1": 0.0}
    assert binary_f1("1") is binary_f1("1"), "tasks that share a metric share the object"
    assert accuracy([0, 1], [0, None]) == {"accuracy": 50.0}


def test_correlation_equals_scipy_with_ties() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        gold, guess = rng.integers(0, 6, 30).astype(float).tolist(), rng.normal(size=30).round(1).tolist()
        found = correlation(gold, guess)
        assert found["pearson"] == pytest.approx(100 * np.corrcoef(gold, guess)[0, 1])
        ranks = stats.rankdata(gold), stats.rankdata(guess)
        assert found["spearman"] == pytest.approx(100 * np.corrcoef(*ranks)[0, 1])


def test_correlation_of_a_constant_is_zero_and_of_nan_an_error(recwarn: pytest.WarningsRecorder) -> None:
    for gold, guess in (([1.0, 2.0, 3.0], [2.5] * 3), ([2.0] * 3, [1.0, 2.0, 3.0]), ([1.0], [1.0])):
        assert correlation(gold, guess) == {"pearson": 0.0, "spearman": 0.0}
    assert correlation([1.0, 2.0, 3.0], [1e-9, 2e-9, 3e-9])["pearson"] == pytest.approx(100)
    assert not recwarn.list
    with pytest.raises(DataError, match="Prediction 2 is nan"):
        correlation([1.0, 2.0], [1.0, math.nan])


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("", []),
        ("O O", []),
        ("I-PER I-PER O", [(0, 2, "PER")]),  # IOB1
        ("I-PER B-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("B-PER I-PER B-PER", [(0, 2, "PER"), (2, 3, "PER")]),  # IOB2
        ("O I-LOC O", [(1, 2, "LOC")]),  # only IOB1 allows it: repaired
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("B-PER E-PER S-LOC", [(0, 2, "PER"), (2, 3, "LOC")]),  # IOBES
        ("S-PER S-PER", [(0, 2, "PER")]),
        ("S-PER O S-PER", [(0, 1, "PER"), (2, 3, "PER")]),
        ("B-PER E-PER B-PER E-PER", [(0, 4, "PER")]),
        ("E-PER E-PER I-PER", [(0, 1, "PER"), (1, 2, "PER"), (2, 3, "PER")]),  # IOE
        ("B-A-B I-A-B I-A", [(0, 2, "A-B"), (2, 3, "A")]),  # hyphens in a type
        ("B I O", [(0, 2, "")]),  # no types, as in chunking without labels
    ],
)
def test_entities_by_hand(tags: str, found: list[tuple[int, int, str]]) -> None:
    assert entities(tags.split()) == found


def _conlleval(gold: list[list[str]], predictions: list[list[str]]) -> dict[str, float]:
    """Counts independently of `entities`, which compares sets: in one parallel pass over both tag sequences."""

    def differ(tag: tuple[str, str], before: tuple[str, str], after: tuple[str, str]) -> bool:
        return tag[0] != "O" and before[1] != after[1]

    ends = re.compile(r"B[BO]|I[BO]|E[EIO]")
    starts = re.compile(r"[BIO]B|OI|E[EI]|OE")
    right = actual = predicted = hits = words = 0
    inside = False
    last = [("O", ""), ("O", "")]
    stream = [pair for g, p in zip(gold, predictions, strict=True) for pair in [*zip(g, p, strict=True), None]]
    for pair in stream:
        now = [tuple((tag.split("-", 1) + [""])[:2]) for tag in (pair or ("O", "O"))]
        pairs = list(zip(last, now, strict=True))
        end = [bool(ends.fullmatch(a[0] + b[0])) or differ(a, a, b) for a, b in pairs]
        start = [bool(starts.fullmatch(a[0] + b[0])) or differ(b, a, b) for a, b in pairs]
        if inside:
            if all(end) and last[0][1] == last[1][1]:
                inside, right = False, right + 1
            elif end[0] != end[1] or now[0][1] != now[1][1]:
                inside = False
        if all(start) and now[0][1] == now[1][1]:
            inside = True
        actual, predicted = actual + start[0], predicted + start[1]
        if pair:
            hits, words = hits + (now[0] == now[1]), words + 1
        last = now
    precision, recall = 100 * right / predicted if predicted else 0, 100 * right / actual if actual else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    return {"f1": f1, "precision": precision, "recall": recall, "token_accuracy": 100 * hits / words if words else 0}


def test_entity_f1_equals_conlleval_count_on_random_tags() -> None:
    rng = random.Random(1)
    tags = ["O", "O"] + [f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC")]
    for _ in range(300):
        gold = [[rng.choice(tags) for _ in range(rng.randrange(9))] for _ in range(rng.randrange(1, 6))]
        guess = [[tag if rng.random() < 0.7 else rng.choice(tags) for tag in sentence] for sentence in gold]
        assert entity_f1(gold, guess) == pytest.approx(_conlleval(gold, guess))


def test_iob2_keeps_every_entity() -> None:
    rng = random.Random(2)
    tags = ["O"] + [f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC")]
    for _ in range(300):
        sentence = [rng.choice(tags) for _ in range(rng.randrange(9))]
        assert entities(iob2(sentence)) == entities(sentence)
        assert iob2(iob2(sentence)) == iob2(sentence)


def test_entity_f1_rejects_a_different_number_of_tags() -> None:
    with pytest.raises(DataError, match="Sentence 2 has 2 words but 1 predicted tags"):
        entity_f1([["O"], ["O", "O"]], [["O"], ["O"]])


@pytest.mark.parametrize(
    ("golds", "guess", "exact", "f1"),
    [
        (("The Cat",), "cat!", 100, 100),
        (("a cat",), "an  the\tcat", 100, 100),
        (("U.S.",), "us", 100, 100),
        (("the",), "a", 100, 0),  # both normalise to nothing: version 1.1 finds no common word
        (("the",), "", 100, 0),
        (("cat",), "", 0, 0),
        (("cat",), None, 0, 0),
        (("black cat",), "black dog", 0, 50),
        (("dog", "black dog"), "Black Dog.", 100, 100),
        (("cat cat",), "cat", 0, 200 / 3),
        (("10–12",), "1012", 0, 0),  # an en dash is not ASCII punctuation
        (("ÉCOLE",), "école", 100, 100),
        (("theatre",), "atre", 0, 0),  # articles are whole words
    ],
)
def test_squad_by_hand(golds: tuple[str, ...], guess: str | None, exact: float, f1: float) -> None:
    found = squad([tuple(Answer(text, 0) for text in golds)], [guess])
    assert found == pytest.approx({"exact_match": exact, "f1": f1})


def test_squad_is_the_mean_over_questions_and_rejects_missing_answers() -> None:
    gold = [(Answer("cat", 0),), (Answer("dog", 3),)]
    assert squad(gold, ["cat", "x"]) == {"exact_match": 50.0, "f1": 50.0}
    assert normalise("The  U.S.\u00a0Army") == "us army"
    with pytest.raises(DataError, match="Question 1 has no gold answer"):
        squad([()], ["cat"])


def test_bleu_chrf_and_ter_equal_sacrebleu() -> None:
    rng = random.Random(3)
    for _ in range(60):
        gold = [tuple(_sentence(rng) + " x" for _ in range(2)) for _ in range(rng.randrange(1, 8))]
        guess = [rng.choice([texts[0], _sentence(rng), texts[1][:-2] + " .", ""]) for texts in gold]
        streams = [list(stream) for stream in zip(*gold, strict=True)]
        found = bleu(gold, guess)
        assert found["bleu"] == sacrebleu.corpus_bleu(guess, streams).score
        assert found["chrf"] == sacrebleu.corpus_chrf(guess, streams).score
        assert found["ter"] == sacrebleu.corpus_ter(guess, streams).score


def test_languages_without_spaces_are_tokenized_as_in_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, guess = [("今天天气很好，我们去公园。",), ("你好 2026！",)], ["今天天气很好，我们去公园吧。", "您好 2026！"]
    official = sacrebleu.metrics.BLEU(trg_lang="zh")
    right = official.corpus_score(guess, [[texts[0] for texts in gold]]).score
    task = tasks.load("wmt-17-en-zh")
    found = task.score(gold, guess)
    assert found["bleu"] == found["headline"] == right > bleu(gold, guess)["bleu"] + 50
    assert task.metrics[0].signatures(gold)["bleu"] == str(official.get_signature()) and task.version == 2
    assert bleu_into("de") is bleu and tasks.load("wmt").version == 1
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(DataError, match=r"pip install 'sacrebleu\[ja\]'"):
        bleu_into("ja")(gold, guess)


def test_bleu_accepts_any_number_of_references() -> None:
    gold, guess = [("a b c d e",), ("f g h i j", "k l m n o")], ["a b c d e", "k l m n o"]
    assert bleu(gold, guess) == pytest.approx({"bleu": 100, "chrf": 100, "ter": 0})
    assert bleu([("a b",)], [""]) == {"bleu": 0.0, "chrf": 0.0, "ter": 100.0}
    for metric in (bleu, rouge):
        with pytest.raises(DataError, match="Example 1 needs a tuple"):
            metric(["a bare string"], ["x"])
        with pytest.raises(DataError, match="Example 1 needs a text"):
            metric([("x",)], [None])
        with pytest.raises(ValueError):
            metric([("x",)], ["x", "y"])


def test_rouge_equals_googles_scorer_with_the_best_reference() -> None:
    rng, kinds = random.Random(4), ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(kinds, use_stemmer=True)
    gold = [tuple(_sentence(rng).replace(" . ", "\n") for _ in range(rng.randrange(1, 4))) for _ in range(60)]
    guess = [rng.choice([texts[-1], _sentence(rng), ""]) for texts in gold]
    found = rouge(gold, guess)
    for kind in kinds:
        best = [max(scorer.score(t, p)[kind].fmeasure for t in texts) for texts, p in zip(gold, guess, strict=True)]
        assert found[kind] == pytest.approx(100 * np.mean(best))


def test_rouge_by_hand() -> None:
    found = rouge([("the cats ran\nhome we go",)], ["home we go\nthe cat ran"])
    assert found["rouge1"] == pytest.approx(100)  # stemmed
    assert found["rougeLsum"] == pytest.approx(100)  # lines in any order
    assert found["rougeL"] == pytest.approx(50)  # one sequence
    assert rouge([("東京",)], ["東京"])["rouge1"] == 0  # the official tokenizer supports only ASCII


def test_perplexity_by_hand() -> None:
    text = " = A B = \n \n c <unk> . \n"
    assert size(text) == (4 + 1 + 1 + 3 + 1, len(text))
    found = perplexity([None, None], [(math.log(8) * 3, 3, 12), (0.0, 1, 4)])
    assert found["perplexity"] == pytest.approx(8**0.75)
    assert found["bits_per_character"] == pytest.approx(9 / 16)
    assert perplexity([None], [(1e6, 10, 50)])["perplexity"] == math.inf
    assert perplexity([None], [(0.0, 0, 0)])["perplexity"] == math.inf


def test_signatures_equal_those_of_sacrebleu_after_scoring() -> None:
    from sacrebleu.metrics import BLEU, CHRF, TER

    for gold in ([("a b", "c"), ("d e", "f")], [("a b",), ("d e",)], [("a b",), ("d e", "f")]):
        most = max(map(len, gold))
        streams = list(zip(*[list(texts) + [None] * (most - len(texts)) for texts in gold], strict=True))
        found = bleu.signatures(gold)
        for name, scorer in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
            scorer.corpus_score(["a b", "x"], streams)
            assert found[name] == str(scorer.get_signature())
    assert "tok:13a" in found["bleu"] and f"version:{sacrebleu.__version__}" in found["bleu"]


CASES = {
    "accuracy": (accuracy, ["0", "1", "1", "0"], ["1", "1", "0", "0"]),
    "f1": (binary_f1("1"), ["0", "1", "1", "0"], ["1", "1", "0", "0"]),
    "matthews": (matthews, ["0", "1", "2", "0"], ["1", "1", "2", "0"]),
    "entity_f1": (entity_f1, [["B-A", "I-A"], ["O"], ["B-B"], ["O"]], [["B-A", "O"], ["B-A"], ["B-B"], ["O"]]),
    "squad": (squad, [(Answer(w, 0),) for w in ["ab", "cd", "ef", "gh"]], ["ab", "x", "ef gh", ""]),
    "bleu": (bleu, [(w * 3,) for w in ("one two ", "three four ", "five ", "six ")], ["one two", "four", "five", ""]),
    "rouge": (rouge, [(w,) for w in ("one two", "three", "five", "six")], ["one", "three", "x", ""]),
    "perplexity": (perplexity, [None] * 4, [(3.0, 2, 9), (1.0, 1, 4), (7.5, 3, 20), (2.0, 2, 8)]),
}


@pytest.mark.parametrize("name", CASES)
def test_summed_statistics_give_the_value_of_any_resample(name: str) -> None:
    metric, gold, guess = CASES[name]
    assert isinstance(metric, Additive)
    table = metric.statistics(gold, guess)
    assert table.shape[0] == len(gold) and table.dtype == np.float64
    for rows in ([0, 1, 2, 3], [0, 0, 3, 2], [1, 1, 1, 2]):
        direct = metric([gold[row] for row in rows], [guess[row] for row in rows])
        assert metric.value(table[rows].sum(axis=0)) == pytest.approx(direct)


def test_importing_metrics_does_not_import_heavy_libraries() -> None:
    names = sorted(file.stem for file in (ROOT / "tasks" / "metrics").glob("[!_]*.py"))
    heavy = ["tensorflow", "keras", "scipy", "sklearn", "sacrebleu", "nltk"]
    code = f"import sys, importlib\nfor n in {names}: importlib.import_module('ptmbench.tasks.metrics.' + n)\n"
    code += f"print([h for h in {heavy} if h in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
