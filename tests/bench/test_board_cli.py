"""``board``: the page, its exports, the formats on stdout, and error messages."""

import json

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.commands.files import FORMATS
from ptmbench.leaderboard import board
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.made import world


@pytest.fixture
def run(tmp_path):
    for one in world(1):
        write(tmp_path / "run", one)
    return tmp_path / "run"


def test_the_command_accepts_the_formats_of_the_board():
    assert FORMATS == board.FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written_to_stdout(run, form, capsys):
    assert main(["board", str(run), "--format", form]) == 0
    text = capsys.readouterr().out
    assert "BERT" in text
    if form in ("json", "every-eval-ever"):
        assert json.loads(text)


def test_exports_are_written_next_to_the_page(run, tmp_path, capsys):
    out = tmp_path / "site"
    assert main(["board", str(run), "--out", str(out), "--exports"]) == 0
    assert capsys.readouterr().out.split() == [str(out / "index.html"), str(out / "exports")]
    names = {path.name for path in (out / "exports").iterdir()}
    assert {
        "scores.csv",
        "cells.csv",
        "board.md",
        "board.tex",
        "board.json",
        "every_eval_ever",
        "hugging_face",
    } <= names
    assert "\\toprule" in (out / "exports" / "board.tex").read_text()


def test_exports_need_an_output_folder(run, capsys):
    assert main(["board", str(run), "--exports"]) == 2
    assert "--exports writes files, so it needs --out" in capsys.readouterr().err
