"""Records with a valid seal and wrong content: they give an error that names file and field, or an ordinary result."""

import copy
import itertools
import json
import re
from pathlib import Path

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.leaderboard import board
from ptmbench.leaderboard.gate import report as gate_report
from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.records import pack
from ptmbench.leaderboard.records.baseline import BaselineError, accept
from ptmbench.leaderboard.records.record import FOLDER, RecordError, read, seal
from ptmbench.leaderboard.records.store import load

OWN = Path(__file__).parents[1] / "regress"
REAL = {name: text for name, text in pack.read(OWN / pack.PACK).records.items() if name.startswith("sst2.gpt.")}
NAME = min(REAL)
NESTED = []
for _ in range(500):
    NESTED = [NESTED]
VALUES = {
    "null": None, "true": True, "negative": -1, "text": "x", "nan": "nan", "NaN": float("nan"), "large": 10**400,
    "list": [], "object": {"a": 1}, "mixed": [1, "x", None], "nested": NESTED, "long": "y" * 100_000,
}  # fmt: skip


def value_paths(value, path=()):
    """Yields the paths of all values in a record. Only the first element of a list is included."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from value_paths(part, (*path, name))
    elif isinstance(value, list) and value:
        yield from value_paths(value[0], (*path, 0))


def changed(body, path, value):
    body = copy.deepcopy(body)
    part = body
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return body


def write_sealed(path, body):
    """Writes ``body`` in the layout of real records, with a valid seal if it can have one."""
    try:
        body["seal"] = seal(body)
    except (ValueError, RecursionError):  # NaN has no canonical JSON
        body["seal"] = "0" * 64
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1) + "\n")


@pytest.mark.parametrize("name", VALUES)
def test_no_value_in_any_field_causes_a_traceback(tmp_path, name):
    """Either `read` refuses the record with a message, or board, exports, gate and accept use it like other records."""
    body = json.loads(REAL[NAME])
    del body["row"]["card"]["reported"][1:]
    good, odd = tmp_path / "good", tmp_path / "odd"
    write_sealed(good / FOLDER / NAME, body)
    refused = 0
    for number, path in enumerate(value_paths(body)):
        if path == ("seal",):
            continue
        bad = changed(body if path == ("seed",) else body | {"seed": number}, path, VALUES[name])
        file = odd / FOLDER / f"{number}.json"
        write_sealed(file, bad)
        try:
            read(file)
        except RecordError as error:
            refused += 1
            assert str(error).startswith(f"{file.name} ") and len(str(error)) < 600
            assert path[0] in str(error) or "JSON" in str(error)
            file.unlink()
    assert refused > 5 and (name in ("large", "NaN", "nested")) <= (refused > 100)
    if not list((odd / FOLDER).iterdir()):
        return
    assert not load([odd]).damaged
    for form in ("markdown", "csv", "json", "latex", "every-eval-ever"):
        board.text([odd], form)
    board.build([odd], tmp_path / "page")
    for base, head in itertools.permutations((good, odd)):
        found = gate(base, head, lambda record, roots: None)
        for report in (gate_report.to_json, gate_report.to_markdown, gate_report.to_lines, gate_report.to_junit):
            assert report(found)
        gate_report.annotations(found)
    accept(odd, tmp_path / "baseline", "Whatever.", predictions=False)
    try:
        accept(odd, tmp_path / "other", "Whatever.")
    except BaselineError as error:
        assert "so nothing was accepted" in str(error)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("schema",), 0, "has schema 0; this version of ptmbench reads 1"),
        (("schema",), True, "has schema True"),
        (("schema",), "1", "has schema 1; this version"),
        (("cost", "flops"), 10**400, "cost.flops is larger than the largest number"),
        (("adaptation", "settings", "epochs"), 10**400, "adaptation.settings.epochs is larger than the largest number"),
        (("cost", "energy"), NESTED, "is nested more than 32 levels deep"),
        (("pretraining", "tokenizer", "sha256"), [], "pretraining.tokenizer.sha256 must be str or null, found []"),
        (("predictions", "sha256"), 3, "predictions.sha256 must be str, found 3"),
        (
            ("adaptation", "neighbours"),
            {"glove": {"tokenizer": 3}},
            "adaptation.neighbours.glove.tokenizer must be dict",
        ),
        (("task", "auxiliary"), {"trec": 3}, "task.auxiliary.trec must be dict, found 3"),
        (("task", "beside"), {"trec": 3}, "task.beside.trec must be dict, found 3"),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path, capsys, path, value, words):
    """`board`, `gate` (on either side) and `accept` name the file, each with its own exit status."""
    run, good = tmp_path / "run", tmp_path / "good"
    body = json.loads(REAL[NAME])
    write_sealed(good / FOLDER / NAME, body)
    write_sealed(run / FOLDER / "odd.json", changed(body, path, value))
    with pytest.raises(RecordError, match=re.escape(words)) as caught:
        read(run / FOLDER / "odd.json")
    assert str(caught.value).startswith("odd.json ")
    for arguments, status in (
        (["gate", str(good), str(run)], 4), (["gate", str(run), str(good)], 5),
        (["accept", str(run), "--reason", "x", "--baseline", str(tmp_path / "b")], 5), (["board", str(run)], 0),
    ):  # fmt: skip
        assert main(arguments) == status
        output = capsys.readouterr()
        assert "odd.json" in output.out + output.err and "Traceback" not in output.err


def test_deeply_nested_json_is_reported(tmp_path, capsys):
    """100,000 brackets are the content of a record, of a baseline's manifest, and of a checkpoint's manifest."""
    brackets = "[" * 10**5
    (tmp_path / "run" / FOLDER).mkdir(parents=True)
    (tmp_path / "run" / FOLDER / "deep.json").write_text(brackets)
    with pytest.raises(RecordError, match="deep.json is nested too deeply"):
        read(tmp_path / "run" / FOLDER / "deep.json")
    baseline = tmp_path / "baseline"
    write_sealed(baseline / FOLDER / NAME, json.loads(REAL[NAME]))
    (baseline / "baseline.json").write_text(brackets)
    assert main(["gate", str(baseline), str(OWN)]) == 5
    assert "baseline.json is damaged" in capsys.readouterr().err
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "manifest.json").write_text(brackets)
    assert main(["info", str(tmp_path / "checkpoint")]) == 4
    assert "manifest.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["about", "files"])
@pytest.mark.parametrize("value", [None, 3, "x", [], ["weights.safetensors"]])
def test_a_checkpoint_manifest_with_wrong_types_is_damaged(tmp_path, capsys, what, value):
    from ptmbench.bench.engine.checkpoint import _seal as sealed

    manifest = {"format": 1, "about": {}, "files": {}} | {what: value}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"seal": sealed(manifest)}))
    assert main(["info", str(tmp_path)]) == 4
    assert "manifest.json is damaged" in capsys.readouterr().err


def test_seconds_of_another_device_are_not_compared(tmp_path, capsys):
    for side, device in (("base", "one processor"), ("head", "another processor")):
        for name, text in REAL.items():
            write_sealed(tmp_path / side / FOLDER / name, json.loads(text) | {"device": device})
    assert main(["gate", str(tmp_path / "base"), str(tmp_path / "head")]) == 0
    output = capsys.readouterr().out
    assert "BASE ran on one processor, HEAD on another processor: seconds are not compared" in output
