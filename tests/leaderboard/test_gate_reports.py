"""The reports of the gate: lines, Markdown, JUnit, annotations and JSON are safe, limited in length and well formed."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ptmbench.leaderboard.gate import report as gate_report
from tests.leaderboard.gates import between, cells, noisy
from tests.leaderboard.made import blank

HOSTILE = "<script>alert(1)</script>|=cmd()|\\input{x}|\x1b[31m\u202e ]]> &\x00 ::error::x @you https://x.y `a`"


@pytest.fixture
def hostile(tmp_path):
    name = {"row": {"label": HOSTILE}, "task_": {"title": HOSTILE}}
    lost = [blank("error", HOSTILE, "failed", task="cola", **name)]
    return between(tmp_path, [cells(**name), cells(task="cola", **name)], [cells(level=0.5, salt=1, **name), lost])


def test_hostile_names_are_inert_in_every_report(hostile):
    text = gate_report.to_markdown(hostile)
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text and "@you" not in text
    assert "https://" not in text and all(line.count(" | ") == 8 for line in text.splitlines() if line[:3] == "| ✗")
    suite = ElementTree.fromstring(gate_report.to_junit(hostile).encode())[0]
    assert suite.get("failures") == "3" and "<script>" in suite[0][0].get("message") + suite[1].get("classname")
    lines = gate_report.to_lines(hostile)
    assert all(c.isprintable() or c == "\n" for c in lines)
    for one in gate_report.annotations(hostile):
        assert one.startswith("::error title=") and "\n" not in one and one.isprintable()
        assert one.count("::", 0, one.index("::", 8) + 2) == 2  # the name contains no "::" that would end the title
    json.loads(gate_report.to_json(hostile), parse_constant=pytest.fail)


def test_reports_have_a_maximum_length(tmp_path):
    tasks = [f"task{i:03d} " + "x" * 150 for i in range(120)]
    base = [cells(seeds=range(2), task=task, predictions=False) for task in tasks]
    head = [[blank("error", "y" * 900, "failed", task=task, seed=s) for s in range(2)] for task in tasks]
    found = between(tmp_path, base, head)
    assert len(gate_report.to_markdown(found)) < 65_536 and "more cells" in gate_report.to_markdown(found)
    assert len(gate_report.to_markdown(found, 3000)) <= 3000
    annotations = gate_report.annotations(found)
    assert len(annotations) == gate_report.ANNOTATIONS and "And 111 more" in annotations[-1]
    assert len(ElementTree.fromstring(gate_report.to_junit(found).encode())[0]) == 120


def test_json_has_no_nan(tmp_path):
    found = between(tmp_path, [cells(seeds=[0])], [cells(seeds=[1], level=0.5)])
    body = json.loads(gate_report.to_json(found), parse_constant=pytest.fail)
    assert body["cells"][0]["drop"]["low"] is None and body["cells"][0]["drop"]["value"] > 0
    assert (body["status"], body["strict_status"]) == (0, 3) and body["mean_drop"] is None


def test_cells_under_a_condition_have_a_separate_section_in_reports(tmp_path):
    found = between(tmp_path, [cells(), noisy(0.0)], [cells(), noisy(0.3, salt=1)])
    lines = gate_report.to_lines(found).splitlines()
    place = lines.index(f"{gate_report.CONDITIONS_HEADING}:")
    assert lines[place + 1].startswith("✗ regression") and lines[place - 1].startswith("✓ pass")
    plain, conditional = gate_report.to_markdown(found).split(f"### {gate_report.CONDITIONS_HEADING}")
    assert plain.count("\n| ✓ pass") == 2 and conditional.count("\n| ✗ regression") == 1  # the mean is in the former
    assert [one["condition"] for one in json.loads(gate_report.to_json(found))["cells"]].count("misspellings") == 1
    assert any("::error" in line for line in gate_report.annotations(found))
    assert gate_report.CONDITIONS_HEADING not in gate_report.to_lines(between(tmp_path / "none", [cells()], [cells()]))
    short = gate_report.to_markdown(found, limit=600)
    assert len(short) <= 600 and "more cells" in short


def test_scores_have_one_more_decimal_than_their_metric(tmp_path):
    found = between(tmp_path, [cells(level=0.5, salt=1)], [cells(level=0.4, salt=2)])
    (cell,) = found.cells
    assert cell.decimals == 1
    fine = replace(cell, base=2.3456, head=2.5, margin=0.05, decimals=2)
    line = gate_report._line(fine)
    assert {"2.346", "2.500", "0.050"} <= set(line) and f"{cell.base:.2f}" in gate_report._line(cell)
