"""The page of the board: its content, escaping of hostile names, and reproducible bytes."""

import csv
import gc
import gzip
import hashlib
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench.leaderboard import board, formats, tables
from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.gate.verdicts import INCONCLUSIVE
from ptmbench.leaderboard.page.charts import front
from ptmbench.leaderboard.records.record import RecordError, write
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard.made import CARD, blank, record, world
from tests.leaderboard.pages import Page, run

SITE = Path(board.__file__).parent / "site"


def test_nan_and_infinite_scores_pass_through_every_output(tmp_path):
    nan = {"headline": {"value": math.nan, "low": math.nan, "high": math.nan}}
    run(
        tmp_path,
        [
            record(scores=nan),
            record(name="gpt", value=3.0),
            record(name="inf", scores={"headline": {"value": math.inf}}),
        ],
    )
    assert "nan" in board.text([tmp_path]) and "nan (1)" in board.text([tmp_path], "csv", "scores")
    content = json.loads(board.text([tmp_path], "json"), parse_constant=pytest.fail)
    assert {line["mean"] for line in content["cells"]} == {None, 3.0}
    page = Page(board.build([tmp_path], tmp_path / "site").read_text())
    assert "nan" in page.text and "inf" in page.text
    values = [attributes["data-v"] for tag, attributes in page.elements if tag == "td" and "data-v" in attributes]
    assert "3.000" in values and {type(float(value)) for value in values if value} == {float}  # other cells are blank


@pytest.mark.parametrize("values", [(1e200, 2e200), (1.5e308, 1.7e308), (math.inf, -math.inf), (-1.5e308, 1.5e308)])
def test_scores_that_overflow_do_not_break_any_output(tmp_path, values):
    """The perplexity of a diverging language model may reach 1e200 before it becomes infinite."""
    scores = [{"headline": {"value": one, "low": one / 3, "high": one}} for one in values]
    made = [record(task, seed=i, scores=scores[i]) for i in (0, 1) for task in ("wikitext2", "cola", "sst2")]
    run(tmp_path, [*made, record(name="gpt", seed=0), record(name="gpt", task="wikitext2", seed=0)])
    assert "GPT" in Page(board.build([tmp_path], tmp_path / "site").read_text()).text
    assert all("GPT" in board.text([tmp_path], format) for format in board.FORMATS)
    board.write_exports([tmp_path], tmp_path / "site")
    assert gate(tmp_path, tmp_path, lambda *_: None).verdict == INCONCLUSIVE


def test_impossible_costs_and_curves_do_not_break_the_page():
    odd = ({"parameters": -5, "seconds": {"total": 10**400}}, {"parameters": True, "flops": -1.0}, {"flops": "many"})
    made = [record(name=f"m{i}", cost=cost, value=50.0 + i) for i, cost in enumerate(odd)]
    made += [record(name="huge", pretraining={"tokens": 10**400, "loss": "low", "seconds": None})]
    points = ({"step": 10**400, "loss": 1.0}, {"step": "one"}, {"loss": 2.0}, {"step": 5, "score": math.nan})
    made += [record(name="curve", curve=points), record(name="flat", curve=({"step": 1, "loss": 0.5},))]
    page = Page(board.render(made)).text
    assert "HUGE" in page and "CURVE" in page and "loss 1: 0.5" in page
    with pytest.raises(RecordError, match="larger than the largest number"):
        write(Path("nowhere"), record(scores={"headline": {"value": 10**400}}))


def test_learning_curves_are_drawn_and_listed_as_text():
    def curve(*scores):
        return tuple({"step": 10 * i, "loss": 1.0, "score": score} for i, score in enumerate(scores))

    made = [record(seed=0, curve=curve(10.0, 20.0, 30.0)), record(seed=1, curve=curve(20.0, 40.0))]
    source = board.render(made)
    assert "score 0: 15, 10: 30" in Page(source).text  # only one seed has step 20
    assert '<polyline points="2,20 94,2"/>' in source


def test_pareto_front_has_the_rows_that_no_other_row_dominates():
    points = {
        "a": (1.0, 50.0),
        "b": (2.0, 60.0),
        "c": (3.0, 55.0),
        "d": (2.0, 60.0),
        "e": (2.0, 59.0),
        "f": (9.0, 61.0),
    }
    brute = {
        key
        for key, (cost, score) in points.items()
        if not any(c <= cost and s >= score and (c, s) != (cost, score) for c, s in points.values())
    }
    assert front(points) == brute == {"a", "b", "d", "f"}


def test_score_is_plotted_against_cost_with_a_table():
    levels = (("a", 1_000_000, 60.0), ("b", 9_000_000, 70.0), ("c", 5_000_000, 50.0))
    made = [record(name=n, value=v, cost={"parameters": p, "disk_bytes": p * 4}) for n, p, v in levels]
    source = board.render(made)
    planes = re.search(r'<section id="planes".*?</section>', source, re.S).group(0)
    assert "Average against parameters" in planes and "Average against disk" in planes and "Latency" not in planes
    plane = re.search(r"<svg.*?</svg>", planes, re.S).group(0)
    discs = {kind: re.search(f'class="{kind}" d="([^"]*)"', plane).group(1) for kind in ("on", "off", "range")}
    assert [discs[kind].count("M") for kind in ("on", "off", "range")] == [2, 1, 3]
    rows = re.findall(r"<tr>.*?</tr>", planes, re.S)[1:]
    assert ["on the front" in row for row in rows] == [True, True, False]


def test_model_and_task_sheets_show_details():
    made = [record(seed=seed, value=60.0 + seed, task="sst2") for seed in (0, 1)]
    made += [blank("diverged", "The loss was not finite.", "diverged", seed=2, task="sst2")]
    text = Page(board.render(made)).text
    assert "BooksCorpus and Wikipedia" in text and "final loss 3.500" in text and CARD["loss"] in text
    assert "0: 60.00; 1: 61.00; 2: diverged, The loss was not finite." in text
    assert "share of right answers, in percent" in text and "1000 examples of dev" in text
    assert "39.5 points from the best row (60.5) to the metric's bound of 100" in text
    assert "closes 20 % of the gap between chance and 100" in text  # (60.5 - 50.9) / (100 - 50.9)


def test_page_says_that_intervals_exclude_other_pretrainings():
    """`bench.runs.run` pre-trains a model once, with seed 0, whatever the seeds of its cells are."""
    assert "do not include what another pre-training would change" in Page(board.render([])).text


def test_page_counts_separable_neighbours_in_the_ranking():
    made = [record(name=name, value=value) for name, value in (("a", 90.0), ("b", 89.5), ("c", 20.0))]
    assert "Pairs of neighbours in the ranking that certainly differ: 1 of 2." in Page(board.render(made)).text
    made += [record(name=name, task="sst2") for name in ("a", "b")]
    assert "certainly differ: 0 of 1. 1 other row has no average" in Page(board.render(made)).text


def test_only_examples_whose_hash_matches_are_written_next_to_the_page(tmp_path):
    def write_predictions(name, rows, digest=None):
        content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)
        (tmp_path / "predictions").mkdir(exist_ok=True)
        (tmp_path / "predictions" / name).write_bytes(content)
        return {"file": f"predictions/{name}", "sha256": digest or hashlib.sha256(content).hexdigest()}

    row = {"id": "1", "gold": "</script>", "prediction": [1.5, None], "more": 1}
    good, other = write_predictions("good.gz", [row]), write_predictions("other.gz", [row], "0" * 64)
    broken = write_predictions("broken.gz", [{"id": 1}])
    gone = {"file": "predictions/gone.gz", "sha256": "1" * 64}
    run(tmp_path, [record(seed=seed, predictions=one) for seed, one in enumerate((good, other, broken, gone))])
    page = board.build([tmp_path], tmp_path / "site")
    (script,) = (tmp_path / "site" / "examples").iterdir()
    text = script.read_text()
    assert re.fullmatch(r'ptmbenchExamples\("[0-9a-f]{24}",\[\["1","\\u003c/script>",\[1.5,null\]\]\]\);\n', text)
    words = Page(page.read_text()).text
    assert "predictions/other.gz is not the file that its record names" in words
    assert "predictions/broken.gz cannot be read" in words and "gone.gz" not in words
    assert f'"examples/{script.name}"' in page.read_text()


def test_damaged_records_are_listed_in_every_output(tmp_path):
    run(tmp_path, world(1))
    path = sorted((tmp_path / "records").glob("*.json"))[0]
    path.write_bytes(path.read_bytes()[:100])
    page = Page(board.build([tmp_path], tmp_path / "site").read_text()).text
    assert f"Damaged record records/{path.name}" in page and "Delete it and run the same command again" in page
    assert path.name.replace("_", r"\_") in board.text([tmp_path]) or path.name in board.text([tmp_path])
    assert json.loads(board.text([tmp_path], "json"))["damaged"][0]["file"] == f"records/{path.name}"


def test_index_of_several_runs_begins_with_the_latest_run(tmp_path):
    for name, day in (("alpha", "20"), ("beta", "22"), ("gamma", "21")):
        older = replace(record(seed=0), finished="2026-11-01T00:00:00Z")
        run(tmp_path / "runs" / name, [older, replace(record(seed=1), finished=f"2026-11-{day}T00:00:00Z")])
    index = Page(board.build([tmp_path / "runs"], tmp_path / "site").read_text())
    assert [one["href"] for tag, one in index.elements if tag == "a"] == ["beta.html", "gamma.html", "alpha.html"]
    assert "measured 2026-11-01 to 2026-11-22" in index.text


def test_empty_run_has_a_page_and_unknown_formats_are_rejected(tmp_path):
    (tmp_path / "records").mkdir()
    assert "There is no record yet" in board.build([tmp_path], tmp_path / "site").read_text()
    assert (
        board.text([tmp_path])
        and board.text([tmp_path], "csv")
        and json.loads(board.text([tmp_path], "json"))["cells"] == []
    )
    with pytest.raises(RecordError, match="markdown, csv, json"):
        board.text([tmp_path], "yaml")
    with pytest.raises(RecordError, match="scores, average"):
        board.text([tmp_path], table="nothing")


def test_page_bytes_do_not_depend_on_the_order_of_records_and_folders(tmp_path):
    made = list(world())
    first = board.build([run(tmp_path / "a", made)], tmp_path / "1").read_bytes()
    run(tmp_path / "b", reversed(made[::2]))
    run(tmp_path / "c", made[1::2])
    assert board.build([tmp_path / "c", tmp_path / "b"], tmp_path / "2").read_bytes() == first
    assert board.build([tmp_path / "a"], tmp_path / "1").read_bytes() == first
    assert [file.name for file in (tmp_path / "1").iterdir()] == ["index.html"]
    assert str(tmp_path).encode() not in first


def test_build_restores_the_state_of_the_garbage_collector(tmp_path):
    run(tmp_path, world(1))
    for enabled in (False, True):
        (gc.enable if enabled else gc.disable)()
        try:
            board.build([tmp_path], tmp_path / "site")
            with pytest.raises(RecordError):
                board.build([tmp_path / "nowhere"], tmp_path / "site")
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"><img src=x onerror=alert(1)> ' {{ 7*7 }}",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "a|b\nc`d",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe\u2066",
    "lone \ud800 surrogate \u2028 line",
    "\\input{/etc/passwd} $x$",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_inert_in_every_output(tmp_path, name):
    words = (
        "title",
        "citation",
        "representation",
        "architecture",
        "loss",
        "tokenizer",
        "corpus",
        "parameters",
        "reference",
        "year",
    )
    entry = {"value": 1.0} | dict.fromkeys(("task", "metric", "source", "split"), name)
    card = dict.fromkeys(words, name) | {"objectives": [name], "extensions": [name, 3], "reported": [entry]}
    everywhere = {
        "name": name, "row": {"label": name, "size": name, "card": card}, "task": "x", "device": name, "commit": name,
        "task_": dict.fromkeys(("title", "headline", "licence", "split", "form"), name), "versions": {name: name},
        "adaptation": {"name": name}, "pretraining": {"corpus": name}, "command": name,
    }  # fmt: skip
    scores = {"headline": {"value": 1.0}, name: {"value": 2.0}}
    run(tmp_path, [record(**everywhere, scores=scores), blank("error", name, "failed", **everywhere, seed=1)])
    run(tmp_path, [record(name="plain"), blank(name, name, "failed", name="plain", task="y")])
    (tmp_path / "records" / "broken.json").write_text("{" + name.encode("utf-8", "replace").decode())

    source = board.build([tmp_path], tmp_path / "site").read_text(encoding="utf-8")
    plain = board.render([record(name="plain"), record(name="other", task="y")])
    kinds = {tag for tag, _ in Page(plain).elements}
    page = Page(source)
    assert {tag for tag, _ in page.elements} <= kinds | {
        "small",
        "section",
        "ul",
        "li",
        "strong",
        "details",
        "summary",
        "option",
    }
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert [tag for tag, _ in page.elements].count("script") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.S).group(1)
    assert "<" not in data and json.loads(data)["cells"]
    assert all(one.isprintable() or one == "\n" for one in source)

    for table in board.TABLES:
        for line in list(csv.reader(io.StringIO(board.text([tmp_path], "csv", table))))[1:]:
            assert not [one for one in line if one.lstrip().startswith(("=", "@")) or re.match(r"[+-]\D", one)]
    markdown = board.text([tmp_path])
    assert (
        all(one.isprintable() or one == "\n" for one in markdown)
        and "<script" not in markdown
        and "<img" not in markdown
    )
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    heads = {len(re.findall(r"\|", line)) for line in lines if re.fullmatch("[| -]+", line)}
    assert widths == heads
    assert all(one.isprintable() or one == "\n" for one in board.text([tmp_path], "json"))


def test_csv_keeps_negative_numbers_and_disarms_formulas():
    frame = tables.scores([record(value=-1.5), record(seed=1, value=-2.5), record(name="-2+3", value=1)])
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(formats.to_csv(frame)))}
    assert rows["BERT"]["CoLA"] == "-2.0 ± 0.7 (2)" and "'-2+3" in rows
    cells = csv.DictReader(io.StringIO(formats.to_csv(tables.cells([record(value=-1.25)]))))
    assert float(next(cells)["mean"]) == -1.25


def test_page_requests_nothing_and_allows_only_its_own_script():
    source = board.render(list(world(1)))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source).group(1).replace("&#39;", "'")
    assert (
        policy.startswith("default-src 'none'; style-src 'sha256-")
        and "script-src 'sha256-" in policy
        and "unsafe" not in policy
    )
    page = Page(source)
    links = [value for _, attributes in page.elements for key, value in attributes.items() if key in ("src", "href")]
    assert links and all(link.startswith("#") for link in links)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) and {link[1:] for link in links} <= set(ids)
    assert not [attributes for _, attributes in page.elements if "style" in attributes]


def test_every_cell_has_its_command():
    made = list(world(1))
    text = Page(board.render(made)).text
    assert all(one.command in text for one in made)


def test_consecutive_seeds_from_0_share_one_command():
    def commands(*seeds, **more):
        return next(iter(arrange([record(seed=seed, **more) for seed in seeds]).cells.values())).commands

    run_ = "ptmbench run glue --models bert --tasks cola"
    assert commands(0, 1, 2) == (f"{run_} --seeds 3",)
    assert commands(0, 2) == (f"{run_} --seed 0", f"{run_} --seed 2")
    assert commands(0) == (f"{run_} --seed 0",)
    assert commands(0, 1, command="python own.py --seed 0") == ("python own.py --seed 0",)
    mixed = [record(seed=seed, command=f"own --seed 1 --seed {seed}") for seed in (0, 1)]
    assert len(next(iter(arrange(mixed).cells.values())).commands) == 2  # the first number is not the cell's seed
    longer = [record(seed=seed, command=f"own --seed {seed}{seed or ''}") for seed in (0, 1)]
    assert len(next(iter(arrange(longer).cells.values())).commands) == 2


@pytest.mark.skipif(
    not shutil.which("node"), reason="node is not installed, so the script's functions cannot be called"
)
def test_script_sorts_blanks_last_and_filters():
    code = """
const { compare, matches } = require(process.argv[1]);
const sorted = (values, d) => values.slice().sort((a, b) => compare(a, b, d));
const row = { text: "BERT mini", filters: { objectives: ["MLM", "NSP"], size: ["mini"] } };
console.log(JSON.stringify([
  sorted(["9", "", "10.5", "-2"], 1), sorted(["9", "", "10.5", "-2"], -1), sorted(["b", "a10", "a9", ""], 1),
  matches(row, "mini ber", { size: "mini" }), matches(row, "", { objectives: "NSP" }),
  matches(row, "", { objectives: "LM" }), matches(row, "gpt", {}),
]));
"""
    done = subprocess.run(["node", "-e", code, str(SITE / "logic.js")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    expected = [["-2", "9", "10.5", ""], ["10.5", "9", "-2", ""], ["a9", "a10", "b", ""], True, True, False, False]
    assert json.loads(done.stdout) == expected
