"""Compressed models on the board: retention and its interval, cost, peers of the same cost, tables, page."""

import csv
import io
import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.bench.adapt import transforms
from ptmbench.leaderboard import board, formats, stats, tables
from ptmbench.leaderboard.page import compression as page
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores import retention
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.compression import compressed
from ptmbench.leaderboard.scores.retention import _ScorePair, ratio
from tests.leaderboard import made, test_lessons

MIB = 2**20


def inference(median, **changes):
    """Makes an inference measurement whose latency has narrow quartiles."""
    each = {"processor": 0.97 * median, "median": median, "low": 0.99 * median, "high": 1.01 * median, "rounds": 25}
    told = {"latency": {"1": each, "8": each, "32": each}, "cpu_share": 0.99, "load": 0.5, "processors": 2}
    return told | {"peak_memory_bytes": 90 * MIB, "memory_before_bytes": 40 * MIB} | changes


def one(value, seed, task="sst2", transform="", teacher=None, redrawn=None, **changes):
    """Makes a record of BERT mini, or of a model compressed from it."""
    adaptation = {"name": "finetune", **changes.pop("adaptation", {})}
    if transform:
        chain = transforms.choose(transform)
        about = transforms.joined([each.recorded() for each in chain]) | transforms.described(chain)
        about["cost"] = {"flops": 5e11, "seconds": {"total": 3.0}}
        adaptation = {"name": f"finetune>{transform}", "transform": about}
    if teacher:
        adaptation["teacher"] = teacher
    found = made.record(task=task, seed=seed, value=value, adaptation=adaptation, **changes)
    if redrawn is not None:
        found.scores["headline"]["redrawn"] = redrawn
    return found


def teacher_of(found):
    """Returns the teacher entry of a student's record, if ``found`` is the record of the teacher."""
    return {
        "name": "bert", "size": "mini", "adaptation": "finetune", "settings": dict(found.adaptation["settings"]),
        "seed": found.seed, "cost": {"flops": 4e13}, "pretraining": dict(found.pretraining),
    }  # fmt: skip


def world(tasks=("sst2", "cola"), seeds=3):
    """Yields records of a teacher, two transforms of it, two students (one from random weights), and a plain model of
    the same cost."""
    rng = random.Random(1)
    tiny = {"row": {"size": "tiny"}, "pretraining": {"weights_sha256": "e" * 64, "flops": 1.5e15}}
    for task in tasks:
        for seed in range(seeds):
            noise = [rng.gauss(0, 1.0) for _ in range(60)]
            teacher = one(80 + rng.gauss(0, 0.5), seed, task, redrawn=[80 + x for x in noise],
                          cost={"disk_bytes": 20 * MIB, "inference": inference(0.004), "flops": 4e13})  # fmt: skip
            yield teacher
            yield one(79 + rng.gauss(0, 0.5), seed, task, "int8", redrawn=[79 + x + rng.gauss(0, 0.1) for x in noise],
                      cost={"disk_bytes": 5 * MIB, "inference": inference(0.008, cpu_share=0.7)})  # fmt: skip
            yield one(70 + rng.gauss(0, 0.5), seed, task, "layers", cost={"disk_bytes": 12 * MIB,
                      "inference": inference(0.002)})  # fmt: skip
            about = {"teacher": teacher_of(teacher)}
            cost = {"flops": 1e13, "disk_bytes": 6 * MIB, "inference": inference(0.001)}
            yield one(76 + rng.gauss(0, 0.5), seed, task, **about, adaptation={"name": "distil:teacher=bert-mini"},
                      kind="random", row={"size": "tiny", "label": "BERT, random"}, cost=cost)  # fmt: skip
            yield one(77 + rng.gauss(0, 0.5), seed, task, **about, adaptation={"name": "distil"}, cost=cost, **tiny)
            yield one(72 + rng.gauss(0, 0.5), seed, task, cost=cost | {"flops": 5e13}, **tiny,
                      adaptation={"name": "finetune:epochs=29"})  # fmt: skip


@pytest.fixture(scope="module")
def grid():
    return arrange(world())


def by_words(lines):
    return {line.row.words: line for line in lines}


# Intervals -----------------------------------------------------------------------------------------------------------


def test_interval_without_example_variance_is_fiellers_interval():
    """The interval has the roots of (mean x - R mean y)^2 = t^2 (var x - 2 R cov + R^2 var y) / n as its bounds, if
    there is no variance over examples."""
    x, y = np.array([70.0, 74.0, 71.5, 73.0]), np.array([80.0, 82.0, 79.0, 83.0])
    pair = _ScorePair(
        {((), i): v for i, v in enumerate(x)}, {((), i): v for i, v in enumerate(y)}, (0.0, 0.0, 0.0), True
    )
    (xx, xy), (_, yy) = np.cov(x, y) / 4
    square = stats._t(3, 0.95) ** 2
    roots = np.roots(
        [y.mean() ** 2 - square * yy, -2 * (x.mean() * y.mean() - square * xy), x.mean() ** 2 - square * xx]
    )
    found = ratio(pair)
    assert found.value == pytest.approx(100 * x.mean() / y.mean())
    assert found.interval == pytest.approx(100 * np.sort(roots), abs=1e-6)


def test_interval_is_unbounded_if_the_reference_may_be_zero():
    x, y = ({((), i): value for i, value in enumerate(side)} for side in ((3.0, 2.0, 4.0), (-1.0, 6.0, 1.0)))
    found = ratio(_ScorePair(x, y, (0.0, 0.0, 0.0), True))
    assert found.value == pytest.approx(150.0) and math.isnan(found.interval.high)
    assert ratio(_ScorePair(y, {draw: -value for draw, value in x.items()}, (0.0, 0.0, 0.0), True)) is None


@pytest.mark.parametrize(("seeds", "own", "level"), [(3, 0.1, 0.9), (3, 0.8, 0.5), (5, 0.8, 0.5)])
def test_interval_covers_the_true_retention_over_seeds_and_examples(seeds, own, level):
    """Repeats the simulation of `docs/statistics.md` with fewer replicates. Two models share the difficulty of each
    example. Seeds have a spread, and the compressed model has its own deviation per example, of size ``own``."""
    from scipy.special import ndtr

    rng, n, spread, times, hits, unpaired = np.random.default_rng(0), 400, 0.15, 150, 0, 0
    truth = ndtr(level / math.sqrt(2 + own**2 + spread**2)) / ndtr(1 / math.sqrt(2 + spread**2))
    for _ in range(times):
        ease, more, noise = rng.normal(size=n), rng.normal(0, own, n), rng.normal(size=(seeds, n))
        x, y = (100.0 * (at + rng.normal(0, spread, (seeds, 1)) + ease + extra + noise > 0)
                for at, extra in ((level, more), (1.0, 0.0)))  # fmt: skip
        counts = rng.multinomial(n, np.full(n, 1 / n), size=100)
        drawn = [(counts @ side.T).mean(axis=1) / n for side in (x, y)]
        (xx, xy), (_, yy) = np.cov(*drawn)
        scores = [{((), i): value for i, value in enumerate(side.mean(axis=1))} for side in (x, y)]
        low, high = ratio(_ScorePair(*scores, (xx, yy, xy), True)).interval
        hits += low <= 100 * truth <= high
        low, high = ratio(_ScorePair(*scores, (xx, yy, 0.0), False)).interval
        unpaired += low <= 100 * truth <= high
    assert hits / times > 0.9  # 95 % are 142 of 150, with a standard deviation of 2.7
    assert unpaired >= hits


def test_replicates_of_two_models_draw_the_same_examples():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, (50, 1)).astype(float)
    one_, again, other = (stats.redrawn(x, lambda sums: float(sums[0] / 50)) for x in (right, right, 1 - right))
    assert np.array_equal(one_, again) and np.allclose(one_ + other, 1)
    assert one_.var() == pytest.approx(right.var() / 50, rel=0.3)
    grouped = stats.redrawn(right, lambda sums: float(sums[0]), groups=[i // 10 for i in range(50)])
    assert grouped.var() > 0


# Lines ---------------------------------------------------------------------------------------------------------------


def test_each_row_is_compared_with_the_model_it_was_made_from(grid):
    lines = by_words(compressed(grid))
    teacher = lines["mini · pre-trained · fine-tuning"]
    assert teacher.reference is None and teacher.retention is None and not teacher.kind
    int8, layers = (next(line for words, line in lines.items() if part in words) for part in ("int8", "layers"))
    assert int8.reference is layers.reference is teacher.row
    assert (int8.kind, layers.kind) == ("quantization", "pruning")
    assert int8.retention.value == pytest.approx(98.75, abs=1.5) and int8.retention.paired
    assert not layers.retention.paired  # its records have no replicates
    low, high = int8.retention.interval
    wide = layers.retention.interval
    assert low < int8.retention.value < high and high - low < wide.high - wide.low
    assert int8.speed_up == pytest.approx(0.5) and int8.shrinkage == pytest.approx(4.0)
    assert int8.noise == "as little as 70 % of the core" and not layers.noise
    assert layers.memory == pytest.approx(50.0)
    assert (int8.own_flops, int8.own_seconds, int8.teacher_flops) == (5e11, 3.0, 0.0)


def test_disturbed_measurements_count_only_if_a_row_has_no_others():
    def latency(*measured):
        made = [
            one(80.0, seed, task, cost={"inference": inference(median, cpu_share=share)})
            for seed, (task, median, share) in enumerate(measured)
        ]
        (line,) = (line for line in compressed(arrange([*made, one(79.0, 0, transform="int8")])) if not line.kind)
        return line.latency["1"].median, line.noise

    disturbed = "as little as 70 % of the core"
    assert latency(("sst2", 0.004, 0.99), ("sst2", 0.009, 0.7), ("sst2", 0.008, 0.7)) == (0.004, "")
    assert latency(("sst2", 0.009, 0.7), ("sst2", 0.007, 0.7)) == (0.008, disturbed)
    assert latency(("sst2", 0.004, 0.99), ("cola", 0.009, 0.7), ("cola", 0.006, 0.99)) == (0.005, "")


def test_students_are_compared_with_their_teacher_and_a_plain_model_of_same_cost(grid):
    lines = by_words(compressed(grid))
    scratch = lines["tiny · random weights · distillation from bert-mini"]
    student = lines["tiny · pre-trained · distillation from bert-mini"]
    plain = lines["tiny · pre-trained · fine-tuning, epochs=29"]
    assert scratch.kind == student.kind == "distillation" and scratch.reference.size == "mini"
    assert scratch.own_flops == 1e13
    assert scratch.teacher_flops == pytest.approx(1.5e15 + 4e13)
    assert scratch.total_flops == pytest.approx(1.55e15) and student.total_flops == pytest.approx(3.05e15)
    assert scratch.peer is plain.row and scratch.gap.value > 0 and scratch.verdict == "better"
    assert student.peer is None and student.verdict == "no plain model of the same cost"


def test_the_board_opens_with_the_smallest_and_the_fastest_that_keep_the_score(grid):
    """int8 was disturbed, so nothing is known of its speed; `layers` is fast but keeps 88 %."""
    lines = compressed(grid)
    (found,) = page.findings(lines, "the average of 2 tasks")
    kept = r"keeps 9[89]\.\d % \(9[5-8]\.\d to \d+\.\d\) of the score on the average of 2 tasks"
    kept += r" \(9\d\.\d % counted from chance\)"
    assert re.fullmatch(rf"BERT \(int8\) is 4 times smaller on disk and {kept}; no smaller .* to keep 95 %\.", found)
    assert found.replace(" %", "\N{NO-BREAK SPACE}%") in board.render(list(world()))
    quiet = [replace(line, noise="", speed_up=3.0 if line.kind == "quantization" else 1.0) for line in lines]
    assert "BERT (int8) is 3 times as fast and keeps" in page.findings(quiet, "SST-2")[1]
    noise = [replace(line, noise="", speed_up=1.004) for line in lines]  # "1 times as fast" would say nothing
    assert "as fast" not in " ".join(page.findings(noise, "SST-2"))
    poor = [line for line in lines if line.kind == "pruning"]
    assert page.findings(poor, "SST-2") == ["No compressed model is shown to keep 95 % of the score on SST-2."]
    assert page.findings(compressed(arrange([one(80.0, 0), one(79.0, 0, transform="int8")])), "SST-2") == []


def test_teacher_with_other_settings_or_weights_gives_no_retention():
    records = [one(80.0, 0), one(75.0, 0, teacher=teacher_of(one(80.0, 0)), adaptation={"name": "distil"})]
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.retention.value == pytest.approx(93.75)
    records[1].adaptation["teacher"]["settings"] = {"epochs": 5}
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.reference and row.retention is None and row.lack == "no seed on both sides"
    records[1].adaptation["teacher"]["pretraining"]["weights_sha256"] = "f" * 64
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.reference is None and row.lack == "its teacher has no row here"


def test_an_adaptation_that_compresses_is_compared_with_fine_tuning():
    records = [one(80.0, 0), one(76.0, 0, adaptation={"name": "fastbert", "compression": "exit"})]
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.kind == "exit" and row.retention.value == pytest.approx(95.0)


def student_of(teacher, value, seed, task="sst2", adaptation="finetune", **changes):
    """Makes a record of a TinyBERT that learned from the model of the record ``teacher`` in pre-training."""
    made = teacher.pretraining
    taught = {name: made[name] for name in ("weights_sha256", "flops", "seconds")} | {"model": "bert", "size": "mini"}
    pretraining = {"teacher": taught, "including": {"flops": 2 * made["flops"], "seconds": 2 * made["seconds"]}}
    about = {"adaptation": {"name": adaptation}, "pretraining": pretraining} | changes
    return one(value, seed, task, name="tinybert", **about)


def test_a_student_in_pretraining_is_compared_with_its_teacher():
    teacher = one(80.0, 0)
    records = [teacher, student_of(teacher, 72.0, 0, adaptation="finetune:learning_rate=5e-4")]
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.kind == "distillation" and row.reference.name == "bert"  # no teacher with this setting: its own
    assert row.retention.value == pytest.approx(90.0)
    assert (row.own_flops, row.own_seconds) == (1.5e15 + 2e13, 1500 + 33.5)
    assert row.teacher_flops == 1.5e15 and row.total_flops == 3e15 + 2e13
    assert row.verdict == "no plain model of the same cost"

    records.append(one(78.0, 0, adaptation={"name": "finetune:learning_rate=5e-4"}))  # the same setting is preferred
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.retention.value == pytest.approx(100 * 72 / 78)

    transformed = [student_of(teacher, 72.0, 0), student_of(teacher, 70.0, 0, transform="int8")]
    row = next(line for line in compressed(arrange([teacher, *transformed])) if line.row.transform)
    assert row.kind == "distillation+quantization" and row.reference.student and row.own_flops == 5e11

    plain = {"pretraining": {"weights_sha256": "e" * 64, "flops": 3e15}, "row": {"size": "tiny"}}
    records.append(one(75.0, 0, **plain))  # another name, but as many parameters and the same total cost
    row = next(line for line in compressed(arrange(records)) if line.row.student)
    assert row.peer.size == "tiny" and row.gap.value == pytest.approx(-3.0)
    for size in (20_000_000, 0, -1):
        records[-1] = one(75.0, 0, **plain, cost={"parameters": size})
        row = next(line for line in compressed(arrange(records)) if line.row.student)
        assert row.peer is None

    records[1].pretraining["teacher"]["weights_sha256"] = "f" * 64
    row = next(line for line in compressed(arrange(records[:2])) if line.row.student)
    assert row.reference is None and row.lack == "its teacher has no row here"


def test_students_of_different_teachers_have_rows_of_their_own():
    teacher, other = one(80.0, 0), one(60.0, 0, row={"name": "random-bert", "label": "RANDOM"})
    records = [student_of(teacher, 72.0, seed) for seed in (0, 1)] + [student_of(other, 50.0, seed) for seed in (0, 1)]
    published = {"corpus_sha256": None, "weights_sha256": "a" * 64, "tokens": None}
    for found, changes in zip(
        records, [published] * 2 + [published | {"tokens": 0, "weights_sha256": "b" * 64}] * 2, strict=True
    ):
        found.pretraining["teacher"].update(changes)
    rows = [row for row in arrange(records).rows if row.name == "tinybert"]
    assert [row.part for row in rows] == ["teacher bert mini aaaaaa", "teacher with random weights"]
    assert [len(row.records) for row in rows] == [2, 2]
    for found in records:  # teachers from here differ by the seed of their pre-training
        found.pretraining["teacher"]["corpus_sha256"] = "c" * 64
    assert len([row for row in arrange(records).rows if row.name == "tinybert"]) == 1


def test_a_published_teacher_of_unknown_cost_leaves_the_total_cost_open():
    teacher = one(80.0, 0)
    unknown = {"including": {"flops": None, "seconds": None}}
    found = student_of(teacher, 72.0, 0)
    found.pretraining.update(unknown)
    (row,) = (line for line in compressed(arrange([teacher, found])) if line.kind)
    assert row.own_flops == 1.5e15 + 2e13 and row.teacher_flops is None and row.total_flops is None


def test_cost_of_a_transformed_student_includes_its_distillation():
    teacher = teacher_of(one(80.0, 0))
    found = one(75.0, 0, transform="int8", teacher=teacher, cost={"flops": 3e13})
    (row,) = (line for line in compressed(arrange([found, one(80.0, 0)])) if line.kind)
    assert (row.own_flops, row.kind) == (3e13, "distillation+quantization")


def test_retention_above_chance_subtracts_chance_from_both_scores():
    grid = arrange([one(80.9, 0), one(65.9, 0, transform="int8")])  # the chance of SST-2 is 50.9
    (row,) = (line for line in compressed(grid, grid.columns[0]) if line.kind)
    assert row.retention.value == pytest.approx(100 * 65.9 / 80.9) and row.above_chance.value == pytest.approx(50.0)


def test_chance_is_the_score_of_the_majority_where_the_task_states_none():
    """The majority baseline has 74.8 on MRPC, so a model with 75.6 keeps little of what a model with 83.5 learned."""
    made_of = [one(83.5, 0, "mrpc"), one(75.6, 0, "mrpc", transform="layers")]
    (without,) = (line for line in compressed(arrange(made_of)) if line.kind)
    assert without.above_chance is None
    majority = {"row": {"label": "majority", "size": None}, "adaptation": {"name": "baseline", "settings": {}}}
    made_of.append(made.record("mrpc", "majority", 0, 74.8, "baseline", **majority))
    (row,) = (line for line in compressed(arrange(made_of)) if line.kind)
    assert row.retention.value == pytest.approx(100 * 75.6 / 83.5)
    assert row.above_chance.value == pytest.approx(100 * 0.8 / 8.7)


# Tables and page -----------------------------------------------------------------------------------------------------


def test_the_csv_has_numbers_for_each_task_and_the_average(grid):
    lines = list(csv.DictReader(io.StringIO(formats.to_csv(tables.compression(grid)))))
    assert {line["task"] for line in lines} == {"average", "SST-2", "CoLA"}
    for line in lines:
        for name in (
            "score",
            "disk MiB",
            "seconds at batch 1",
            "seconds at batch 32 high",
            "memory MiB",
            "total FLOPs",
        ):
            assert float(line[name]) > 0, name
        if line["compression"]:
            low, high = float(line["retention % low"]), float(line["retention % high"])
            assert low < float(line["retention %"]) < high
    assert any(float(line["difference low"]) > 0 for line in lines if line["plain model of the same cost"])


def test_boards_without_compressed_models_have_no_compression_section(tmp_path):
    for found in made.world(1):
        record.write(tmp_path, found)
    assert not len(tables.compression(list(made.world(1))))
    assert "Compressed models" not in board.text([tmp_path])
    assert 'id="compression"' not in board.build([tmp_path], tmp_path / "site").read_text()


@pytest.mark.parametrize("others", [0, 5])
def test_page_has_labelled_charts_and_a_table(tmp_path, others):
    """If most rows are compressed models, the page opens with them, their finding and their charts."""
    others = [one(60.0 + i, 0, task, row={"label": f"X{i}"}) for i in range(others) for task in ("sst2", "cola")]
    for found in [*world(), *others]:
        record.write(tmp_path, found)
    page = board.build([tmp_path], tmp_path / "site").read_text()
    story, section = (page.partition(f'id="{name}"')[2].partition("</section>")[0] for name in ("story", "compression"))
    headline, *_ = re.findall('class="headline">(.*?)<', story)
    assert ("BERT (int8) is 4 times smaller" in headline) == (not others) and "BERT (int8) is 4 times" in story
    charts = section if others else story
    assert charts.count("<svg") == 2 and len(re.findall('class="label"', charts)) >= 8
    assert ("Score against cost" in story) == bool(others) and ("<svg" in section) == bool(others)
    assert "distillation from bert-mini" in section and "disturbed" in section and "speed × 0.5" in section
    assert "Retention by task" in section
    assert "## Compressed models" in board.text([tmp_path])


def test_only_the_models_that_others_are_compared_with_are_drawn_at_100_percent():
    """BERT tiny has a compressed model on one of two tasks, so nothing on the average is compared with it."""
    tiny = {"row": {"size": "tiny"}, "cost": {"disk_bytes": 4 * MIB}}
    made = [one(70.0 + seed, seed, task, **tiny) for seed in range(2) for task in ("sst2", "cola")]
    made += [one(69.0 + seed, seed, transform="int8", **tiny) for seed in range(2)]
    grid = arrange([*world(), *made])
    disk = page.section(grid, dict.fromkeys(grid.rows, "x"))["pictures"][1]["svg"]
    assert disk.count("<rect") == 1 and "BERT · mini" in disk.partition("<rect")[2].partition("</a>")[0]


def test_a_row_without_an_average_is_compared_on_a_task():
    tiny = {"row": {"size": "tiny"}}
    few = [one(78.0 + seed, seed, "sst2", "ffn") for seed in range(2)]
    few += [*(one(60.0, seed, "sst2", **tiny) for seed in range(2)), one(59.0, 0, "cola", "int8", **tiny)]
    grid = arrange([*world(), *few])
    section = page.section(grid, dict.fromkeys(grid.rows, "x"))
    told = {(line["words"], line["where"], line["score"][1], line["lack"]) for line in section["lines"]}
    assert ("mini · pre-trained · fine-tuning · 50 % of neurons removed", "on SST-2", "78.5", "") in told
    assert ("tiny · pre-trained · fine-tuning", "on SST-2", "60.0", "") in told, "others are compared with it"
    assert ("tiny · pre-trained · fine-tuning · int8", "", "", "no score") in told, "BERT tiny has no score on CoLA"
    assert sum(bool(line["where"]) for line in section["lines"]) == 2 and section["elsewhere"]


@pytest.mark.parametrize("broken", [3, [], {"latency": 5}, {"latency": {"1": {"median": "x"}}}, {"reason": "no time"}])
def test_malformed_measurements_are_left_out(tmp_path, broken):
    records = [one(80.0, 0), one(79.0, 0, transform="int8", cost={"inference": broken}, redrawn=["x"])]
    (row,) = (line for line in compressed(arrange(records)) if line.kind)
    assert row.latency == {} and row.memory is None and not row.retention.paired
    for found in records:
        record.write(tmp_path, found)
    assert "Compressed models" in board.build([tmp_path], tmp_path / "site").read_text()


def test_metrics_for_which_lower_is_better_have_no_retention():
    grid = arrange([one(30.0, 0, "wikitext2"), one(31.0, 0, "wikitext2", "int8")])
    (row, reference), *_ = retention.reference_rows(grid).items()
    assert retention.retention(grid, row, reference, grid.columns[0]) is None


def test_table_3_of_the_survey_has_our_figures_next_to_its_own(grid):
    from ptmbench.leaderboard.page import survey

    catalogue = {"models": {"bert": {"names": ["BERT"], "title": "BERT"}}, "objectives": {}, "methods": ["qat"]}
    catalogue["taxonomy"] = {"values": (), "methods": (), "parts": ()}
    (table,) = (one for one in survey.tables(grid, catalogue, {"bert": "m"}) if one["number"] == 3)
    (row,) = (row for row in table["rows"] if row["cells"][0] == "PD")
    (told,) = row["here"]  # the student with random weights is left out
    assert (told["text"], told["words"]) == ("BERT", "tiny · pre-trained · distillation from bert-mini")
    assert re.fullmatch(r"[\d.]+ % \([\d.]+ to [\d.]+\), speed × 4, size ÷ 3.3", told["phrase"])
    assert len(row["cells"]) == len(table["heads"])
    (q8bert,) = (row for row in table["rows"] if row["cells"][0] == "Q8BERT")
    assert q8bert["here"] == [{"text": "qat, no row here", "href": ""}]
    assert ">BERT</a> · tiny · pre-trained · distillation from bert-mini</small>" in board.render(
        list(world()), catalogue=test_lessons.catalogue()
    )


def test_table_3_of_the_survey_has_methods_with_any_schedule_and_students_in_pretraining():
    from ptmbench.leaderboard.page import survey

    records = [one(80.0, seed, task) for task in ("sst2", "cola") for seed in (0, 1)]
    records += [student_of(records[seed], 72.0, seed, adaptation="finetune:learning_rate=5e-4") for seed in (0, 1)]
    transformed = ("theseus:epochs=2", "theseus:replacing=1+epochs=2", "theseus:epochs=2+int8", "heads")
    records += [one(75.0, 0, "cola", transform) for transform in transformed]
    records += [one(75.0, 0, task, "int8") for task in ("sst2", "cola")]
    catalogue = {"models": {}, "objectives": {}, "taxonomy": {"values": (), "methods": (), "parts": ()}}
    (table,) = (one for one in survey.tables(arrange(records), catalogue, {}) if one["number"] == 3)
    here = {row["cells"][0]: [one.get("phrase", "") for one in row["here"]] for row in table["rows"]}
    (theseus,), (tinybert,) = here["BERT-of-Theseus"], here["TinyBERT"]  # neither the control nor the chain
    assert theseus == "93.8 % (90.4 to 97.2)"  # CoLA, which has most compressed models, is not named
    assert tinybert.startswith("90.0 % (") and tinybert.endswith(" on SST-2")
