"""What a dry run says of cells that train nothing, against the cost that the same cells had."""

import pytest

import ptmbench
from ptmbench.bench.adapt.effort import TOKENS_PER_WORD, Cut
from ptmbench.bench.adapt.likelihood.windows import left_to_right_windows
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions
from ptmbench.bench.runs import estimate
from ptmbench.bench.runs.plan import Plan
from ptmbench.leaderboard.records.store import load
from ptmbench.models.text.tokenizers import Vocabulary

MODELS = ("bert", "gpt", "electra", "t5", "pegasus")
TASKS = ("blimp", "bits_per_byte", "bits_per_byte-pseudo", "word_similarity", "word_analogy", "sst2")


@pytest.fixture(scope="module")
def run(world, tmp_path_factory):
    """A run of random networks that trains nothing but a tokenizer: its plan, and its records by key."""
    out = tmp_path_factory.mktemp("run")
    ptmbench.run(
        RunOptions(
            suite="demo", models=tuple(f"random-{name}" for name in MODELS), data=world, baselines=False,
            cells=CellOptions(tasks=TASKS, adaptations=("prompt", "prompt:shots=2"), seeds=1, limit=60),
            training=TrainingOptions(corpus=(world / "corpus",), vocabulary=400), output=OutputOptions(out=out),
        )
    )  # fmt: skip
    plan = Plan.from_json((out / "plan.json").read_text())
    return plan, {one.key: one for one in load([out]).records}


@pytest.mark.slow
def test_the_estimate_is_what_the_cells_cost(run, world):
    """Of all ways to ask without training: likelihoods, pseudo-likelihoods, replaced tokens, gaps, words and prompts.
    The same cells are not applicable, for the same reasons."""
    plan, records = run
    seen, counted = {}, {}
    for cell in plan.cells:
        _, flops, why = estimate.cell_cost(cell, world, seen, None, cut=estimate._cut(plan, cell))
        record = records[cell.key]
        assert (record.status == "not_applicable") == bool(why), (cell.title, why, record.reason)
        if why:
            assert record.reason["text"].removeprefix("because ") == why
            continue
        spent = record.cost["flops_evaluate"]
        near = 0.05 if "shots" in cell.adaptation else 0.02  # which examples a prompt shows is drawn
        assert flops == pytest.approx(spent, rel=near), (cell.title, flops / max(spent, 1))
        counted.setdefault(cell.task, set()).add(cell.row.model)
    assert counted["blimp"] == counted["word_similarity"] == counted["word_analogy"] == set(MODELS)
    assert counted["bits_per_byte"] == counted["sst2"] == {"gpt"} and counted["bits_per_byte-pseudo"] == {"bert", "t5"}


def test_without_a_tokenizer_a_word_has_a_number_of_tokens():
    cut = Cut(Vocabulary(size=1000))
    assert cut.lengths(["a b c d e", ""]) == [round(5 * TOKENS_PER_WORD), 0]


def test_every_token_is_scored_once():
    for count in range(40):
        for room, stride in ((8, 4), (8, 8), (8, 20), (5, 1)):
            windows = left_to_right_windows(count, room, stride)
            assert [i for _, scored, end in windows for i in range(scored, end)] == list(range(count))
            assert all(end - begin <= room and begin <= scored for begin, scored, end in windows)
