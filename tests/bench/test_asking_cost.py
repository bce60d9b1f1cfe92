"""Dry-run estimates of cells that train nothing, against the recorded cost of the same cells."""

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
    """A run of random networks that trains only a tokenizer: its plan, and its records by key."""
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
def test_the_estimate_matches_the_recorded_cost_of_the_cells(run, world):
    """Covers all adaptations without training: likelihoods, pseudo-likelihoods, replaced tokens, gaps, words, prompts.

    The same cells are not applicable, for the same reasons."""
    plan, records = run
    seen, counted = {}, {}
    for cell in plan.cells:
        _, flops, reason = estimate.cell_cost(cell, world, seen, None, cut=estimate._cut(plan, cell))
        record = records[cell.key]
        assert (record.status == "not_applicable") == bool(reason), (cell.title, reason, record.reason)
        if reason:
            assert record.reason["text"].removeprefix("because ") == reason
            continue
        recorded_flops = record.cost["flops_evaluate"]
        tolerance = 0.05 if "shots" in cell.adaptation else 0.02  # the examples in a prompt are drawn at random
        assert flops == pytest.approx(recorded_flops, rel=tolerance), (cell.title, flops / max(recorded_flops, 1))
        counted.setdefault(cell.task, set()).add(cell.row.model)
    assert counted["blimp"] == counted["word_similarity"] == counted["word_analogy"] == set(MODELS)
    assert counted["bits_per_byte"] == counted["sst2"] == {"gpt"} and counted["bits_per_byte-pseudo"] == {"bert", "t5"}


def test_an_adaptation_without_a_head_for_the_task_costs_nothing(planned, world):
    """Early exit is for classification. Words are tagged by the other adaptation."""
    adaptations = ("pabee", "finetune")
    whole = planned(models=("random-bert",), adaptations=adaptations, baselines=False, tasks=("sst2", "conll2003"))
    found = [one for one in estimate.estimates(whole, world, 1e9) if one.piece.kind == "cell"]
    (refused,) = [one for one in found if one.note]
    assert refused.names[2:4] == ("conll2003", "pabee") and refused.seconds == refused.flops == 0
    assert "pabee is for classification tasks" in refused.line
    assert f"0 pre-trainings, {len(found)} cells, 1 of them not applicable" in estimate.table(found, 1e9)


def test_a_transform_that_cannot_learn_from_the_task_costs_nothing(planned, world):
    """AdaBERT learns from probabilities of classes, DynaBERT from the logits of words too."""
    whole = planned(models=("random-bert",), transforms=("adabert", "dynabert"), baselines=False,
                    tasks=("sst2", "conll2003"))  # fmt: skip
    found = [one for one in estimate.estimates(whole, world, 1e9) if one.piece.kind == "cell"]
    (refused,) = [one for one in found if one.note]
    assert "conll2003" in refused.names and refused.seconds == refused.flops == 0
    assert "finetune on a tagging task gives no probabilities of classes" in refused.line


def test_without_a_tokenizer_a_constant_number_of_tokens_per_word_is_assumed():
    cut = Cut(Vocabulary(size=1000))
    assert cut.lengths(["a b c d e", ""]) == [round(5 * TOKENS_PER_WORD), 0]


def test_every_token_is_scored_once():
    for count in range(40):
        for room, stride in ((8, 4), (8, 8), (8, 20), (5, 1)):
            windows = left_to_right_windows(count, room, stride)
            assert [i for _, scored, end in windows for i in range(scored, end)] == list(range(count))
            assert all(end - begin <= room and begin <= scored for begin, scored, end in windows)
