"""The tables: correct numbers, blanks for missing scores, and no averages over scores that cannot be compared."""

import math

import pytest

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.stats import summarise
from ptmbench.leaderboard.survey import reported as survey
from tests.leaderboard.made import CARD, blank, record
from tests.leaderboard.pages import Page


def cell(frame, model, column, **where):
    chosen = frame[frame.model == model]
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    assert len(chosen) == 1
    return chosen[column].iloc[0]


def test_scores_show_mean_spread_and_seeds():
    frame = tables.scores([record(seed=seed, value=value) for seed, value in enumerate((70.0, 71.0, 75.0))])
    assert cell(frame, "BERT", "CoLA") == "72.0 ± 2.6 (3)"
    assert cell(tables.scores([record(value=70.0)]), "BERT", "CoLA") == "70.0 (1)"


def test_blank_cells_have_a_reason_and_failures_are_shown():
    made = [record(seed=0), record(seed=1, value=52), blank("diverged", "Loss was NaN.", "diverged", seed=2)]
    made += [blank("missing-data", "train.tsv is missing.", task="sst2")]
    made += [record(name="gpt", task="sst2", value=80)]
    frame = tables.scores(made)
    assert cell(frame, "BERT", "CoLA") == "51.0 ± 1.4 (2); 1 of 3 seeds diverged"
    assert cell(frame, "BERT", "SST-2") == "[missing-data]"
    assert cell(frame, "GPT", "CoLA") == "[not-run]"
    line = tables.cells(made)
    assert cell(line, "BERT", "reason", task="SST-2") == "train.tsv is missing."
    page = Page(board.render(made)).text
    assert "Loss was NaN." in page and "train.tsv is missing." in page and "1 of 3 seeds diverged" in page


def test_only_complete_rows_have_an_average_and_it_is_defined():
    made = [record(task=task, seed=seed, value=v + seed) for task, v in (("cola", 40), ("sst2", 80)) for seed in (0, 1)]
    made += [record(task="wikitext2", value=30.0), record(name="gpt", value=99.0)]
    frame = tables.macro(made)
    assert cell(frame, "BERT", "mean") == 60.5 and cell(frame, "BERT", "sd") == pytest.approx(math.sqrt(0.5))
    assert cell(frame, "GPT", "seeds") == 0 and cell(frame, "GPT", "missing") == "SST-2"
    assert (
        "CoLA (mcc), SST-2 (accuracy)" in frame.attrs["definition"]
        and "Not in it: WikiText-2" in frame.attrs["definition"]
    )
    assert frame.model.tolist() == ["BERT", "GPT"]


def test_a_complete_row_without_a_common_seed_says_so():
    made = [record(seed=0), record(task="sst2", seed=1)]
    assert tables.macro(made).missing.tolist() == ["no seed has every task"]
    assert "no seed has every task" in Page(board.render(made)).text and "2 of 2 tasks" not in board.render(made)
    glue = [record(task=name, seed=int(name == "cola")) for name in survey.glue().tasks]
    assert tables.benchmarks(glue).missing.tolist()[0] == "no seed has every task"
    assert tables.table_2(glue)["GLUE measured"].tolist() == ["[no seed has every task]"]
    assert tables.macro([record(task="wikitext2")]).missing.tolist() == [""]  # nothing to average


def test_published_checkpoints_do_not_inherit_figures_of_their_architecture():
    """MiniLM has the architecture of BERT, but not its training corpus, its size or its scores."""
    made = [record(name="minilm", kind="published", row={"division": "published"}), record()]
    lines = tables.table_2(made).set_index("model")
    assert lines.loc["MINILM", ["objective", "corpus", "parameters"]].tolist() == [survey.NOT_STATED] * 3
    assert lines.loc["MINILM", "architecture"] == lines.loc["BERT", "architecture"] == CARD["architecture"]
    assert lines.loc["BERT", "corpus"] == CARD["corpus"]


def test_twins_are_paired_by_tokenizer():
    """Two runs of one model with two vocabularies are 20 and 40 points above their own twins."""
    made = []
    for sha256, levels in (("1" * 64, (60.0, 40.0)), ("2" * 64, (90.0, 50.0))):
        tokenizer = {"kind": "bpe", "size": 8000, "sha256": sha256}
        made.append(record(value=levels[0], pretraining={"tokenizer": tokenizer}))
        made.append(record(kind="random", value=levels[1], row={"tokenizer": tokenizer}))
    frame = tables.twins(made)
    assert sorted(frame["mean"]) == [20.0, 40.0] and len(tables.scores(made)) == 4
    assert {"tokenizer 111111", "tokenizer 222222"} <= set(tables.scores(made).variant)
    older = [record(value=60.0), record(kind="random", value=50.0)]  # the twin does not name its tokenizer
    assert tables.twins(older)["mean"].tolist() == [10.0]
    assert tables.twins([made[0], made[3]]).empty


def test_a_published_model_is_paired_with_its_imported_twin():
    division = {"division": "published"}
    made = [record(name="minilm", kind="published", value=60.0, row=division)]
    made.append(record(name="random-minilm", kind="random", value=45.0, row=division | {"label": "MINILM"}))
    made.append(record(name="random-bert", kind="random", value=50.0))
    frame = tables.twins(made)
    assert frame["mean"].tolist() == [15.0] and frame["model"].tolist() == ["MINILM"]


def test_twins_are_compared_per_seed():
    levels = {"pretrained": (60.0, 61.0, 65.0), "random": (50.0, 52.0, 53.0)}
    made = [record(kind=kind, seed=seed, value=v) for kind in levels for seed, v in enumerate(levels[kind])]
    made[3] = record(name="random-bert", kind="random", seed=0, value=50.0, row={"label": "BERT"})
    made[4:] = [
        record(name="random-bert", kind="random", seed=s, value=v, row={"label": "BERT"})
        for s, v in ((1, 52.0), (2, 53.0))
    ]
    frame = tables.twins(made)
    expected = summarise([10.0, 9.0, 12.0])
    assert cell(frame, "BERT", "mean") == pytest.approx(expected.mean) and cell(frame, "BERT", "sd") == pytest.approx(
        expected.sd
    )
    assert cell(frame, "BERT", "CoLA") == "+10.3 ± 1.5 (3)"


@pytest.mark.parametrize(
    "task, values, low, high",
    [
        ("sst2", (99.5, 92.0), None, 100.0), ("sst2", (0.0, 5.0), 0.0, None), ("cola", (0.0, 5.0), None, None),
        ("cola", (-96.0, -99.0), -100.0, None), ("wikitext2", (3.0, 300.0), 0.0, None),
    ],
)  # fmt: skip
def test_intervals_stay_within_the_range_of_their_metric(task, values, low, high):
    """Checks accuracies, correlations (which may be negative) and perplexity. A bound that is not reached has no
    effect."""
    made = [record(task=task, seed=seed, value=value) for seed, value in enumerate(values)]
    frame = tables.cells(made)
    (one,) = arrange(made).cells.values()
    free = one.error.around(one.summary.mean)
    assert frame["low"][0] == (free.low if low is None else low) and frame["high"][0] == (high or free.high)
    assert (low is None or free.low < low) and (high is None or free.high > high)
    if task != "wikitext2":
        assert [tables.macro(made)[name][0] for name in ("low", "high")] == [frame[name][0] for name in ("low", "high")]


def test_versions_and_data_sets_are_never_mixed():
    made = [
        record(seed=0, value=10.0),
        record(seed=1, value=90.0, task_={"version": 2}),
        record(seed=2, value=50.0, task_={"data_sha256": "f" * 64}),
    ]
    made += [blank("missing-data", "No file.", name="gpt")]
    grid = arrange(made)
    assert len(grid.columns) == 3 and len({column.title for column in grid.columns}) == 3
    assert all(one.summary.n <= 1 for one in grid.cells.values())
    assert len(grid.averaged) == 1
    assert "may not be compared" in grid.notes[0] and "may not be compared" in Page(board.render(made)).text


def test_corpora_and_budgets_are_never_mixed():
    made = [
        record(seed=0, value=10.0),
        record(seed=1, value=90.0, pretraining={"corpus": "other", "corpus_sha256": "9" * 64}),
    ]
    grid = arrange(made)
    assert len(grid.rows) == 2 and len({row.title for row in grid.rows}) == 2
    budgets = [record(value=10.0), record(value=20.0, pretraining={"tokens": 5})]
    assert len(arrange(budgets).rows) == 2  # the same seed twice, with different budgets
    grid = arrange([record(value=10.0), record(task="sst2", value=90.0, pretraining={"tokens": 5})])
    assert [grid.macro(row) for row in grid.rows] == [{}, {}]  # two tasks with different budgets are not averaged
    again = [record(), record(adaptation={"settings": {"epochs": 9}}), record(seed=1, pretraining={"tokens": 5})]
    assert len(arrange(again).rows) == 1  # the same seed twice, after the same pre-training
    minutes = [record(value=10.0), record(seed=1, value=20.0, pretraining={"tokens": 5})]
    assert len(arrange(minutes).rows) == 1  # with a budget in minutes, seeds differ in their number of tokens


def test_rows_with_different_extra_encoders_are_not_mixed():
    """Two runs of Flair are stacked on GloVe's vectors. The vectors of the second run were trained for longer."""
    made = record().pretraining

    def stacked(value, kind="pretrained", tokens=20_000_000, **changes):
        adaptation = {"name": "stacked", "neighbours": {"glove": made | {"tokens": tokens}}}
        return record(name="flair", value=value, kind=kind, adaptation=adaptation, **changes)

    longer = stacked(70.0, tokens=5_000_000_000)
    twins = [stacked(40.0, kind="random"), stacked(45.0, kind="random", tokens=5_000_000_000)]
    grid = arrange([stacked(60.0), longer, *twins, record(name="flair", task="wikitext2", value=9.0)])
    titles = sorted(row.title for row in grid.rows if row.kind == "pretrained" and row.adaptation == "stacked")
    assert len(titles) == 2 and "with glove cccccc, tokenizer dddddd, 20,000,000 tokens" in titles[0]
    found = sorted(_twin_gain(grid, row, twin).mean for row, twin in tables.twin_rows(grid))
    assert found == [20.0, 25.0]  # the differences from the twins with the same vectors
    seeds = [stacked(60.0), stacked(70.0, tokens=5, seed=1)]
    assert len(arrange(seeds).rows) == 1  # a budget in minutes
    alone = arrange([stacked(60.0), record(name="flair", task="wikitext2", value=9.0)])
    assert [row.title for row in alone.rows] == ["FLAIR (mini · pre-trained · stacked)"]


def _twin_gain(grid, row, twin):
    return tables.twin_difference(grid, row, twin, next(one for one in grid.columns if one.task["name"] == "cola"))


def test_perplexity_is_shown_in_every_row_of_its_model():
    made = [record(), record(adaptation={"name": "features"}), record(name="lm", task="wikitext2", value=9.0)]
    made += [record(task="wikitext2", value=30.0, adaptation={"name": "likelihood"})]
    frame = tables.scores(made)
    assert sorted(zip(frame.model, frame.adaptation, strict=True))[:2] == [("BERT", "features"), ("BERT", "finetune")]
    assert frame[frame.model == "BERT"]["WikiText-2"].tolist() == ["30.0 (1)"] * 2 and len(frame) == 3


def test_a_cell_without_examples_joins_the_column_of_its_task():
    made = [record(), blank("missing-data", "No file.", name="gpt", task_={"examples": 0, "data_sha256": "0" * 64})]
    assert len(arrange(made).columns) == 1


def test_a_repeated_seed_replaces_the_older_record_with_a_note():
    old = record(value=10.0, finished="2026-01-01T00:00:00Z")
    new = record(value=20.0, finished="2026-02-01T00:00:00Z", adaptation={"settings": {"epochs": 5}})
    grid = arrange([new, old])
    assert [one.summary.mean for one in grid.cells.values()] == [20.0]
    assert "1 older record" in grid.notes[0]
    mixed = arrange([record(), record(seed=1, adaptation={"settings": {"epochs": 5}})])
    assert next(iter(mixed.cells.values())).marks == ("settings differ between seeds",)
    mixed = arrange([record(), record(seed=1, adaptation={"version": 2})])
    assert next(iter(mixed.cells.values())).marks == ("versions of the adaptation differ between seeds",)


def test_reported_scores_are_shown_with_measured_scores():
    frame = tables.reported([record(value=40.0), record(seed=1, value=42.0), record(kind="random")])
    assert len(frame) == 1
    assert frame.iloc[0][["reported", "measured", "measured metric", "reported split"]].tolist() == [
        52.1,
        "41.0 ± 1.4 (2)",
        "mcc",
        "test",
    ]


def test_microworld_data_is_named_and_not_compared_with_papers():
    made = [record(task_={"source": "microworld"})]
    assert len(tables.reported(made)) == 0 and "CoLA [microworld]" in tables.scores(made).columns
    page = Page(board.render(made)).text
    assert "mcc ↑ microworld" in page and "cola 52.1 mcc (test)" in page


def test_costs_count_one_pretraining_once():
    frame = tables.cost(
        [record(seed=seed) for seed in range(3)] + [record(name="w2v", cost={"parameters": None, "seconds": "?"})]
    )
    assert cell(frame, "BERT", "pre-training seconds") == 1500.0 and cell(
        frame, "BERT", "seconds of all cells"
    ) == pytest.approx(100.5)
    assert cell(frame, "BERT", "peak memory MiB") == 900.0 and math.isnan(cell(frame, "W2V", "seconds per cell"))
