"""Stored predictions with characters at which ``str.splitlines`` splits a text, but which do not end a JSON line."""

from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring import rescore, score
from ptmbench.leaderboard.page import examples as shown
from ptmbench.tasks.task import Example
from tests.leaderboard.made import record

TEXT = "eins\u2028zwei\x85drei\x0c\x1c\u2029vier fünf"


def test_texts_with_line_separators_are_read_back(tmp_path: Path) -> None:
    examples = [Example(id=str(n), inputs=("x",), gold=(TEXT,)) for n in range(3)]
    made = record(
        "multi30k", task_={"headline": "bleu"}, scores={"headline": {"value": 100.0, "low": 100.0, "high": 100.0}}
    )
    made = replace(made, predictions=score.keep_predictions(tmp_path, made.key, examples, [TEXT] * 3))
    assert rescore.scored(made, [tmp_path]).value == pytest.approx(
        tasks.load("multi30k").score([(TEXT,)], [TEXT])["bleu"]
    )
    (tmp_path / "records").mkdir()
    found, notes = shown.write_all([made], [tmp_path], tmp_path / "out")
    assert len(found) == 1 and not notes
