"""Progress on stderr, and properties of the environment and of this process."""

import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench.bench import console, environment
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import EnvironmentProblem, UsageError

ROOT = Path(__file__).resolve().parents[2]


def test_plain_progress_lines_are_printed_at_intervals_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.progress("Training", 40, "steps") as bar:
        for _ in range(40):
            now[0] += 1.0
            bar.advance(1, loss=2.0)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 5
    assert lines[0] == "Training: 10/40 steps, 25 %, 1 steps/s, 30 s left  loss 2"
    assert lines[-1] == "Training: 40/40 steps, 100 %, 1 steps/s, after 40 s  loss 2"


def test_work_of_an_earlier_run_does_not_count_as_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.progress("Cells", 100, "cells") as bar:
        bar.skip(90)
        now[0] = 10.0
        bar.advance(2)
    assert capsys.readouterr().err.splitlines()[0] == "Cells: 92/100 cells, 92 %, 0.2 cells/s, 40 s left"


def test_a_brief_bar_prints_no_line_and_a_failed_one_no_closing_line(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("Part", 2, brief=True) as bar:
        bar.advance(2)
    with pytest.raises(KeyError), console.progress("Broken", 2):
        raise KeyError
    assert capsys.readouterr().err == ""


def test_nested_bars_share_one_live_display_and_close_it() -> None:
    """Runs in a pseudo-terminal, where the live display is chosen."""
    code = (
        "from ptmbench.bench import console\n"
        "with console.progress('outer [bold]', 2, 'cells') as outer:\n"
        "    for name in 'ab':\n"
        "        with console.progress(name, 3, brief=True) as inner:\n"
        "            inner.advance(3, loss=float('nan'))\n"
        "        outer.advance()\n"
        "    console.say('a line [red] between')\n"
        "assert not console._open\n"
    )
    pty = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn([{sys.executable!r}, '-c', {code!r}])))"
    done = subprocess.run([sys.executable, "-c", pty], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    assert "a line [red] between" in done.stdout
    assert "outer [bold]: 2/2 cells, 100 %" in done.stdout


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599.6, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert console.duration(seconds) == text


def test_a_budget_is_parsed_validated_and_written_as_a_flag() -> None:
    assert Budget.parse(tokens="20e6") == Budget(tokens=20_000_000)
    assert Budget.parse(tokens="20e6").flag() == "--tokens 20000000"
    assert Budget.parse(flops="1.5e15").flag() == "--flops 1500000000000000.0"
    assert Budget().unit is None and Budget().flag() == ""
    for wrong in ({"steps": "inf"}, {"minutes": "0"}, {"flops": "-1"}, {"steps": "2.5"}, {"tokens": "x"}):
        with pytest.raises(UsageError, match=f"--{next(iter(wrong))}"):
            Budget.parse(**wrong)
    with pytest.raises(UsageError, match="exclude each other"):
        Budget(steps=1, minutes=1.0)


def test_peak_memory_is_measured_and_can_be_reset() -> None:
    code = (
        "from ptmbench.bench import environment as e\n"
        "before = e.peak_memory_bytes()\n"
        "block = bytearray(200 << 20)\n"
        "peak = e.peak_memory_bytes()\n"
        "assert peak - before > 190 << 20, (before, peak)\n"
        "del block\n"
        "if e.reset_peak_memory(): assert e.peak_memory_bytes() < peak - (150 << 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_versions_and_commit_for_records() -> None:
    found = environment.versions()
    assert found["python"].startswith("3.") and found["numpy"][0].isdigit()
    assert set(environment.PACKAGES) <= set(found)
    assert environment.commit() == "unknown" or len(environment.commit().removesuffix("+changes")) == 40


def test_only_log_lines_are_suppressed(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    with environment.without_log_lines():
        os.write(2, b"I0000 00:00:1795230018.548329    8119 stub.cc:31] noise\nkept\n")
    with pytest.raises(ValueError), environment.without_log_lines():
        os.write(2, b"the reason\n")
        raise ValueError
    assert capfd.readouterr().err == "kept\nthe reason\n"


def test_the_cache_folder_can_be_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path))
    assert environment.cache_folder() == tmp_path
    assert environment.cache_subfolder("corpora") == tmp_path / "corpora" and not list((tmp_path / "corpora").iterdir())
    (tmp_path / "file").touch()
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentProblem, match="file/corpora cannot be written.*PTMBENCH_CACHE"):
        environment.cache_subfolder("corpora")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PTMBENCH_CACHE", "~/cache")
    assert environment.cache_folder() == tmp_path / "cache"
