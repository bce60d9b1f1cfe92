"""Exports: LaTeX, Every Eval Ever, Hugging Face, and the survey's tables. Hostile names are escaped in each."""

import csv
import io
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from ptmbench.bench import adapt
from ptmbench.leaderboard import board, formats, tables
from ptmbench.leaderboard.records.record import write
from ptmbench.leaderboard.scores import export
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.survey import reported as survey
from ptmbench.leaderboard.text import latex_cell
from tests.leaderboard.made import CARD, blank, record, world
from tests.leaderboard.test_board import HOSTILE, SITE

GLUE = survey.glue().tasks


def strings(value):
    if isinstance(value, dict):
        return [one for pair in value.items() for part in pair for one in strings(part)]
    return [one for part in value for one in strings(part)] if isinstance(value, list) else [value]


def test_latex_is_a_booktabs_table():
    text = board._text(arrange([record(value=50.0), record(seed=1, value=52.0)]), (), "latex", "scores")
    assert text.splitlines()[1:4] == [
        r"\begin{tabular}{lllllll" + "l" + "}",
        r"\toprule",
        r"model & size & kind & division & adaptation & variant & average & CoLA \\",
    ]
    assert r"51.0 $\pm$ 1.4 (2)" in text and text.rstrip().endswith("\\bottomrule\n\\end{tabular}")


def test_markdown_columns_are_aligned_if_lines_are_short():
    narrow = pd.DataFrame({"model": ["a|b", "longer"], "score": [81.25, None], "blank": [None, None]})
    lines = ["| model  | score |", "| ------ | ----- |", r"| a\|b   | 81.25 |", "| longer |       |"]
    assert formats.to_markdown(narrow) == "\n".join(lines) + "\n"
    wide = pd.DataFrame({"model": ["a", "b"], "reason": ["x" * 110, "y"]})
    assert formats.to_markdown(wide).splitlines()[1:] == ["| --- | --- |", f"| a | {'x' * 110} |", "| b | y |"]


def test_latex_escapes_every_special_character():
    assert latex_cell("a_b & 50% #1 $x$ {y} ~ ^ \\input{z}") == (
        r"a\_b \& 50\% \#1 \$x\$ \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}input\{z\}"
    )
    assert latex_cell("[not-run]") == "{[not-run]}"  # LaTeX reads a bracket after \\ as a length


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_inert_in_latex_and_json(tmp_path, name):
    card = CARD | {"title": name, "citation": name, "architecture": name, "extensions": ["sharing", name]}
    row = {"label": name, "size": name, "card": card}
    task = dict.fromkeys(("title", "headline", "split", "licence"), name)
    hostile = record(name=name, row=row, task_=task, command=name, versions={"ptmbench": name}, finished=name)
    write(tmp_path, hostile)
    write(tmp_path, blank("error", name, "failed", name=name, row=row, seed=1, task_=task))
    home = board.write_exports([tmp_path], tmp_path / "out")
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".csv", ".md", ".json", ".tex", ".yaml"}
    assert all(re.fullmatch(r"[a-z0-9_.-]+", part) for p in files for part in p.relative_to(home).parts)
    for path in files:
        assert all(one.isprintable() or one == "\n" for one in path.read_text(encoding="utf-8"))
    for line in (home / "board.tex").read_text().splitlines():
        bare = re.sub(r"\\(text[a-z]+\{\}|[&%$#_{}\\]|[a-z]+rule)|\$\\(pm|cdot)\$|\\(begin|end)\{tabular\}.*", "", line)
        assert line.startswith("%") or not re.search(r"[\\%$#_^~]", bare), line
    for block in (home / "board.tex").read_text().split("\\begin{tabular}")[1:]:
        rows = [line for line in block.splitlines() if line.endswith(r"\\")]
        assert len(rows) > 1 and len({len(re.findall(r"(?<!\\)&", line)) for line in rows}) == 1
    for path in home.rglob("*.yaml"):
        assert isinstance(json.loads(path.read_text()), list)
    for table in ("table2", "table3"):
        for line in list(csv.reader(io.StringIO((home / f"{table}.csv").read_text())))[1:]:
            assert not [one for one in line if one.lstrip().startswith(("=", "@"))]


def test_every_eval_ever_has_what_its_schema_requires():
    grid = arrange([*world(2), record(name="odd", task="cola", seed=5, scores={"headline": {"value": math.nan}})])
    found = export.every_eval_ever(grid)
    required = {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info"}
    required |= {"eval_library", "evaluation_results"}
    assert len({one["evaluation_id"] for one in found}) == len(found) == 7  # "odd" has no score
    for one in found:
        assert set(one) == required | {"evaluation_timestamp"} and one["retrieved_timestamp"].isdigit()
        assert one["source_metadata"]["evaluator_relationship"] in ("first_party", "third_party")
        assert all(isinstance(text, str) for text in strings(one["model_info"]))
        for result in one["evaluation_results"]:
            metric, details = result["metric_config"], result["score_details"]
            assert metric["min_score"] <= details["score"] <= metric["max_score"]
            assert result["source_data"]["source_type"] == "other"
            texts = details["details"] | result["source_data"]["additional_details"]
            assert all(isinstance(text, str) for text in texts.values()) and "ptmbench" in texts["commands"]
    bert = next(one for one in found if one["model_info"]["name"].startswith("BERT (mini · pre-trained"))
    cola = next(one for one in bert["evaluation_results"] if one["evaluation_name"] == "CoLA")
    interval = cola["score_details"]["uncertainty"]["confidence_interval"]
    assert interval["lower"] < cola["score_details"]["score"] < interval["upper"]
    assert cola["metric_config"]["min_score"] == -100 and not cola["metric_config"]["lower_is_better"]
    json.dumps(found, allow_nan=False)


def test_eval_results_contain_only_official_data():
    made = [record(value=51.5), record(task="sst2", value=80.0, task_={"source": "microworld"})]
    (content,) = export.eval_results(arrange(made)).values()
    (entry,) = json.loads(content)
    assert entry["dataset"] == {"id": "cola", "task_id": "mcc"} and entry["value"] == 51.5
    assert entry["date"] == "2026-11-21" and "1 seed" in entry["notes"] and "--tasks cola" in entry["notes"]


def test_rows_with_similar_names_get_separate_files_and_ids():
    made = [record(name=name, row={"label": label}) for name, label in (("a", "a b"), ("b", "a-b"), ("c", "A B!"))]
    assert len(export.eval_results(arrange(made))) == 3
    assert len({one["model_info"]["id"] for one in export.every_eval_ever(arrange(made))}) == 3


def test_table_2_has_reported_and_measured_scores():
    reported = [{"task": "glue", "metric": "average", "value": 72.8, "source": "the survey", "split": "test"}]
    card = {"card": CARD | {"reported": reported}}
    whole = [record(task=name, value=60.0 + seed, seed=seed, row=card) for name in GLUE for seed in (0, 1)]
    frame = tables.table_2([*whole, record(name="gpt", task="cola", row={"card": CARD | {"objectives": []}})])
    line = frame[frame.model == "BERT"].iloc[0]
    assert line[["GLUE reported", "GLUE split", "GLUE source", "GLUE measured", "GLUE seeds", "FT"]].tolist() == [
        72.8, "test", "the survey", 60.5, 2, "yes",
    ]  # fmt: skip
    assert line["parameters"] == "110M" and line["parameters here"] == 11_200_000 and line["objective"] == "MLM, NSP"
    assert line["GLUE low"] < 60.5 < line["GLUE high"]
    other = frame[frame.model == "GPT"].iloc[0]
    assert other["GLUE source"] == "[not-reported]" and other["objective"] == "[not-stated]"
    assert other["GLUE measured"] == f"[{len(GLUE) - 1} of {len(GLUE)} tasks missing]"


def test_table_2_says_whether_the_model_is_fine_tuned():
    asked = ("finetune", "finetune:layers=top", "ulmfit:concat=0", "features", "prompt:shots=4")
    frame = tables.table_2([record(adaptation={"name": name}) for name in asked])
    told = {"yes", "yes (finetune:layers=top)", "yes (ulmfit:concat=0)", "no (features)", "no (prompt:shots=4)"}
    assert set(frame.FT) == told
    found = {name: adapt.load(name) for name in adapt.names()}
    kept = [name for name, one in found.items() if one.settings.FREEZES or not one.learns]
    assert tuple(kept) == survey.FROZEN


def test_table_3_has_only_compressed_models():
    card = CARD | {"extensions": ["distillation"], "layers": 6, "speed_up": "1.6x", "source_model": "BERT"}
    card |= {"licence": "Apache-2.0"}
    frame = tables.table_3([record(), record(name="distil", row={"card": card})])
    assert frame.method.tolist() == ["DISTIL"]
    assert frame.iloc[0][["type", "layers", "speed-up", "source", "licence"]].tolist() == [
        "distillation", "6", "1.6x", "BERT", "Apache-2.0",
    ]  # fmt: skip
    card = CARD | {"extensions": ["pruning"]}
    assert tables.table_3([record(name="p", row={"card": card})]).iloc[0]["layers"] == "[not-stated]"


def compressed_glue(**about):
    """Makes records of the tasks of the survey's table 3, with 60 by the headline and 69 by any other metric there."""
    average = survey.compressed_glue()
    return [
        record(
            task=name, **about,
            scores={metric: {"value": value, "low": value - 1, "high": value + 1}
                    for metric, value in (("headline", 60.0), (average.metrics.get(name, "accuracy"), 69.0))},
        )
        for name in average.tasks
    ]  # fmt: skip


def test_transformed_rows_are_not_in_table_2_and_in_table_3_only_with_a_glue_average():
    about = {"transform": {"name": "int8", "compression": "quantization"}, "name": "finetune>int8"}
    row = {"card": CARD | {"extensions": []}}
    some = [record(row=row, adaptation=one) for one in ({}, about)]
    assert len(tables.table_2(some)) == 1 and tables.table_3(some).empty
    whole = compressed_glue(row=row, adaptation=about)
    assert tables.table_3(whole)["type"].tolist() == ["quantisation"]


def test_table_3_uses_its_own_glue_average():
    """The average has nine scores of eight tasks: no WNLI, MNLI twice, F1 of MRPC and QQP, Spearman of STS-B."""
    whole = compressed_glue(row={"card": CARD | {"extensions": ["sharing"]}})
    assert tables.table_3(whole).iloc[0]["GLUE measured"] == pytest.approx((6 * 60 + 3 * 69) / 9)
    assert tables.table_2(whole).iloc[0]["GLUE measured"] == "[1 of 10 tasks missing]"
    lacks = tables.table_3([one for one in whole if one.task["name"] != "mnli_mm"]).iloc[0]["GLUE measured"]
    assert lacks == "[1 of 9 tasks missing]"
    page = board.render(whole)
    assert "without WNLI" in page and ">not stated<" in page and "[not-" not in page


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed, so the script cannot be called")
class TestScript:
    def call(self, code, *values):
        program = f"const logic = require(process.argv[1]); const a = JSON.parse(process.argv[2]); {code}"
        arguments = ["node", "-e", program, str(SITE / "logic.js"), json.dumps(values)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_differences_equal_those_of_the_python_code(self):
        from ptmbench.leaderboard.stats import differences

        ours, theirs = {0: 70.0, 1: 72.5, 2: 71.0, 9: 1.0}, {2: 69.0, 1: 69.5, 0: 69.75}
        t = [12.7062, 4.3027]
        seeds = [list(ours), list(theirs)]
        found = self.call(
            "console.log(JSON.stringify(logic.difference(...a)))",
            [0, list(ours.values())], [1, list(theirs.values())], seeds, t,
        )  # fmt: skip
        expected = differences(ours, theirs)
        assert found["n"] == 3 and found["mean"] == pytest.approx(expected.mean)
        assert (found["low"], found["high"]) == pytest.approx(expected.interval, abs=1e-3)
        edge = "logic.difference(0, a[0], a[1], a[2]), logic.difference(a[0], a[0], [[3]], a[2])"
        assert self.call(f"console.log(JSON.stringify([{edge}]))", [0, [5.0]], seeds, t) == [
            None,
            {"n": 1, "mean": 0, "low": None, "high": None},
        ]

    def test_mean_and_difference_are_null_if_a_seed_has_no_number(self):
        """An infinite perplexity is null on the page, and JavaScript adds null as 0."""
        told = "console.log(JSON.stringify([logic.mean(a[0]), logic.mean(a[1]), logic.difference(...a)]))"
        found = self.call(told, [0, [80.0, None]], [0, [40.0, 42.0]], [[0, 1]], [12.7])
        assert found == [None, 41.0, {"n": 2, "mean": None, "low": None, "high": None}]

    def test_examples_are_grouped_by_which_model_is_right(self):
        first = [["1", "0", "0"], ["2", "1", "0"], ["3", "1", "1"], ["4", "1", "0"], ["only", "1", "1"]]
        second = [["4", "1", "1"], ["3", "1", "0"], ["2", "1", "0"], ["1", "0", "0"]]
        found = self.call("console.log(JSON.stringify(logic.contrast(...a)))", "classification", first, second)
        assert found["both"] == 1 and [row["id"] for row in found["neither"]] == ["2"]
        assert [row["id"] for row in found["first"]] == ["3"] and [row["id"] for row in found["second"]] == ["4"]
        found = self.call(
            "console.log(JSON.stringify(logic.contrast(...a)))", "regression", [[1, 2.5, 2]], [[1, 2.5, 3]]
        )
        assert found["differ"] == [{"id": 1, "gold": 2.5, "first": 2, "second": 3}]
        alone = "console.log(JSON.stringify(logic.contrast(a[0], a[1], a[1])))"
        assert len(self.call(alone, "regression", [[1, 2.5, 2]])["differ"]) == 1

    def test_paired_share_is_the_mean_of_the_differences(self):
        """Compares with the mean of one value per example, +1, 0 or -1. The interval has one more +1 and one more
        -1."""
        found = self.call("console.log(JSON.stringify(logic.pairedShare(...a)))", 30, 12, 300)
        values = np.array([1] * 31 + [-1] * 13 + [0] * 258)
        half = 1.959964 * values.std() / math.sqrt(302)
        assert found["mean"] == pytest.approx(100 * (30 - 12) / 300)
        assert (found["low"], found["high"]) == pytest.approx(
            (100 * (values.mean() - half), 100 * (values.mean() + half))
        )

    def test_no_disagreement_in_few_examples_leaves_a_wide_interval(self):
        found = self.call("console.log(JSON.stringify(logic.pairedShare(...a)))", 0, 0, 30)
        assert found["mean"] == 0 and found["low"] == -found["high"] and found["high"] > 8

    @pytest.mark.parametrize(
        ("form", "gold", "prediction", "expected"),
        [
            ("tagging", ["O", "B-PER"], ["O", "B-PER"], True),
            ("tagging", ["O", "B-PER"], ["O", "O"], False),
            ("few_shot", "P17", "P17", True),
            ("few_shot", "P17", "P19", False),
            ("span", [["The Beatles", 3]], "beatles!", True),
            ("span", [["The Beatles", 3]], "Stones", False),
            ("span", [], "", True),
            ("generation", ["a"], "a", None),
            ("language_modelling", None, [1.0, 2, 3], None),
        ],
    )
    def test_predictions_are_judged_as_right_or_wrong(self, form, gold, prediction, expected):
        assert self.call("console.log(JSON.stringify(logic.right(...a)))", form, gold, prediction) is expected

    def test_view_state_survives_the_url_round_trip(self):
        state = {"search": "bert & <b>=é", "sort": "3d", "size": "", "objectives": "a+b"}
        code = "const text = logic.writeState(a[0]); console.log(JSON.stringify([text, logic.readState('#' + text)]))"
        text, back = self.call(code, state)
        assert back == {name: value for name, value in state.items() if value} and "<" not in text
        assert self.call("console.log(JSON.stringify([logic.readState('#c0-1'), logic.readState('')]))") == [None, None]

    @pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name] + ["-2+3", "-1.5 ± 0.7", "a;b"])
    def test_hostile_cells_are_inert_in_saved_tables(self, name):
        table = {"heads": [name, "x"], "rows": [[name, "1.5"]]}
        every = "Object.fromEntries(Object.entries(logic.exporters).map(([kind, write]) => [kind, write(a[0])]))"
        saved = self.call(f"console.log(JSON.stringify({every}))", table)
        assert all(one.isprintable() or one == "\n" for text in saved.values() for one in text)
        rows = list(csv.reader(io.StringIO(saved["csv"])))
        assert len(rows) == 2 and {len(row) for row in rows} == {2}
        assert not rows[1][0].startswith(("=", "@", "+")) and (rows[1][0][0] != "-" or "±" in name)
        assert len(json.loads(saved["json"])) == 1
        lines = saved["markdown"].splitlines()
        assert len(lines) == 3 and "<" not in saved["markdown"]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}
        body = saved["latex"].splitlines()[2]
        assert len(re.findall(r"(?<!\\)&", body)) == 1 and "\\input" not in saved["latex"]


def test_csv_and_json_have_numbers_in_separate_columns(tmp_path):
    """Each cell has columns for its mean, standard deviation, seeds, interval, and gain by pre-training."""
    made = [record(seed=seed, value=60.0 + seed) for seed in (0, 1)]
    made += [record(seed=seed, value=50.0 + seed, kind="random") for seed in (0, 1)]
    for one in made:
        write(tmp_path, one)
    cells = list(csv.DictReader(io.StringIO(board.text([tmp_path], "csv"))))
    cell = next(one for one in cells if one["kind"] == "pretrained")
    numbers = [float(cell[name]) for name in ("seeds", "mean", "sd", "low", "high")]
    grid = arrange(made)
    ours = next(one for (row, _), one in grid.cells.items() if row.kind == "pretrained")
    assert numbers == pytest.approx([2, 60.5, math.sqrt(0.5), *ours.interval])
    tables_ = json.loads(board.text([tmp_path], "json"))
    assert {one["mean"] for one in tables_["cells"]} == {60.5, 50.5}
    average, task = tables_["gains"]
    assert (average["task"], task["task"]) == ("average", "CoLA") and task["difference"] == 10.0
    half = 1.959963984540054 * math.sqrt(2) * (2 / 1.959963984540054)  # from examples only: all seeds differ by 10
    assert (task["low"], task["high"]) == pytest.approx((10 - half, 10 + half))
    asked = board.text([tmp_path], "markdown", "gains")
    assert "mean of twin" in asked and "mean of twin" not in board.text([tmp_path])
