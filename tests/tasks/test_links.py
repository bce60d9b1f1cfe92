"""Links of knowledge graphs: files, real if present, baselines, and embeddings that learn a graph."""

from pathlib import Path

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.baselines import embeddings
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.forms import Target
from ptmbench.tasks.task import DataError, Example, MissingData
from tests.tasks.folders import DATA, real, write_rows

TRIPLES = {"train": [("1", "_hypernym", "2"), ("3", "_hypernym", "2")], "valid": [("1", "_hypernym", "4")],
           "test": [("1", "_hypernym", "3"), ("4", "_also_see", "1")]}  # fmt: skip


def _graph(folder: Path, named: bool = True, names: dict | None = None) -> Path:
    words = {"1": "land_reform.n.01", "2": "reform.n.01", "3": "a.b.v.02", "4": "fast.s.03"} | (names or {})
    for split, rows in TRIPLES.items():
        write_rows(folder / f"{split}.txt", *("\t".join(row) for row in rows))
        if named:
            write_rows(folder / "text" / f"{split}.txt", *(f"{words[h]}\t{r}\t{words[t]}" for h, r, t in rows))
    return folder


def test_each_triple_gives_a_tail_and_a_head_question(tmp_path: Path) -> None:
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


def test_texts_from_two_column_files_take_precedence(tmp_path: Path) -> None:
    write_rows(_graph(tmp_path / "WN18RR") / "entity2text.txt", *(f"{n}\tword {n},  its meaning" for n in "1234"))
    assert tasks.load("wn18rr").examples(tmp_path, "test")[0].inputs[0] == "word 1, its meaning"
    folder = _graph(tmp_path / "FB15k-237", named=False)
    with pytest.raises(MissingData, match="entity2text.txt"):
        tasks.load("fb15k237").examples(tmp_path, "test")
    write_rows(folder / "entity2text.txt", *(f"{n}\tThing {n}" for n in "01234"))
    task = tasks.load("fb15k237")
    first = task.examples(tmp_path, "test")[0]
    assert first.inputs == ("Thing 1", "hypernym")
    assert set(first.gold.candidates) == set("1234"), "KG-BERT's file has texts of all of FB15k"
    write_rows(folder / "relation2text.txt", "_hypernym\tis a kind of")
    assert task.examples(tmp_path, "test")[1].inputs == ("Thing 3", "inverse is a kind of")


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("test.txt", "1\t_hypernym", "line 1: 2 tab-separated fields where 3 were expected"),
        ("test.txt", "1\t\t2", "line 1: a triple needs a head, a relation and a tail"),
        ("entity2text.txt", "1", "line 1: a name and its text"),
        ("entity2text.txt", "1\tone", "line 1: there is no text for the entity '2'"),
        ("text/valid.txt", "a.n.01\t_other\tb.n.01", "line 1: its relation differs from the relation on the same line"),
    ],
)
def test_errors_describe_malformed_triples(name: str, row: str, message: str, tmp_path: Path) -> None:
    write_rows(_graph(tmp_path / "WN18RR") / name, row)
    with pytest.raises(DataError, match=message):
        tasks.load("wn18rr").examples(tmp_path, "test")


def test_ranked_entity_lists_are_scored_with_filtering(tmp_path: Path) -> None:
    folder = _graph(tmp_path / "WN18RR")
    lists = {"0-tail": ["2", "4", "1", "3"], "0-head": [], "1-tail": ["1"], "1-head": ["1", "2", "3", "4"]}
    found = score(
        "wn18rr", folder, write_rows(tmp_path / "x.jsonl", *({"id": k, "ranked": v} for k, v in lists.items()))
    )
    # 2 and 4 are also right, so rank 2. No list: the middle of four. First. Fourth.
    assert found["mr"] == pytest.approx((2 + 2.5 + 1 + 4) / 4) and found["mr_tail"] == 1.5
    assert found["mrr_head"] == pytest.approx(100 * (0.4 + 0.25) / 2)


def test_majority_baseline_on_links(tmp_path: Path) -> None:
    _graph(tmp_path / "WN18RR")
    task = tasks.load("wn18rr")
    train, test = task.examples(tmp_path, "train"), task.examples(tmp_path, "test")
    # Tail 3 of "hypernym": 2 and 4 are left out, 1 and 3 never occur. Head 1: 1 and 3 occur once each, 2 and 4 never.
    assert baselines.predict("majority", task, train, test)[:2] == [1.5, 1.5]


def test_embeddings_memorise_a_graph() -> None:
    """The graph is a cycle of 12 names. "next" goes forward, "inverse next" back. No fact is held out."""
    names = {str(n): str(n) for n in range(12)}

    def link(n: int, kind: str) -> Example:
        step = 1 if kind == "tail" else -1
        gold = Target(str((n + step) % 12), names, kind=kind)
        return Example(id="", inputs=(str(n), "next" if step == 1 else "inverse next"), gold=gold)

    facts = [link(n, kind) for n in range(12) for kind in ("tail", "head")]
    assert embeddings.ranks(tasks.load("wn18rr"), facts * 20, facts) == [1.0] * 24
    untrained = embeddings.ranks(tasks.load("wn18rr"), facts[:1], facts[1:])
    assert np.mean(untrained) > 3


def test_embedding_gradients_equal_finite_differences_of_the_loss() -> None:
    """Compares the squared gradients in Adagrad's sums with finite differences of ln softmax. The step must go down."""
    rng = np.random.default_rng(0)
    triples = np.array([[0, 0, 1], [2, 1, 3]])

    def loss(tables: list) -> float:
        h, r = tables[0][triples[:, 0]], tables[1][triples[:, 1]]
        t = tables[0][triples[:, 2]]
        scores = (((h * r)[:, None] * np.conj(t)[None]).real).sum(axis=-1)
        nll = np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)
        return float(nll.sum() + embeddings.WEIGHT * sum((np.abs(x) ** 3).sum() for x in (h, r, t)))

    tables = [rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3)) for n in (4, 2)]
    gradients = [np.zeros_like(table) for table in tables]
    for table, gradient in zip(tables, gradients, strict=True):
        for i in np.ndindex(table.shape):
            for unit in (1.0, 1j):
                losses = []
                for sign in (1, -1):
                    table[i] += sign * 1e-6 * unit
                    losses.append(loss(tables))
                    table[i] -= sign * 1e-6 * unit
                gradient[i] += unit * (losses[0] - losses[1]) / 2e-6
    moved = [table.copy() for table in tables]
    sums = [np.full(table.shape, 1e-30) for table in tables]
    embeddings._step(moved, sums, triples, triples[:, 2])
    for sum_, gradient in zip(sums, gradients, strict=True):
        np.testing.assert_allclose(sum_, np.abs(gradient) ** 2, rtol=1e-4, atol=1e-7)  # Adagrad sums squared gradients
    for new, old, gradient in zip(moved, tables, gradients, strict=True):
        assert ((new - old) * np.conj(gradient)).real.max() <= 1e-9, "every step goes down"


@pytest.mark.parametrize(("split", "count"), [("train", 86835), ("dev", 3034), ("test", 3134)])
def test_real_links_have_the_official_counts(split: str, count: int) -> None:
    real("WN18RR")
    examples = tasks.load("wn18rr").examples(DATA, split)
    assert len(examples) == 2 * count and len(examples[0].gold.candidates) == 40943
    assert len({e.inputs[1] for e in examples if e.gold.kind == "tail"}) == 11
    assert all(e.gold in e.gold.others for e in examples)
    if split == "test":
        assert examples[2].inputs == ("call , verb", "verb group")
