"""The page in a real browser: it runs without a complaint, shows its tables, and stays whole without JavaScript."""

import re
import shutil
import subprocess

import pytest

from leaderboard import board
from leaderboard.record import write
from tests.leaderboard.made import record, world

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"),
    "--virtual-time-budget=3000",
]
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed, so the page cannot be opened")


def opened(folder, page, *flags):
    """The page's elements after its script ran, and what the browser's console said."""
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def test_page_runs_in_a_browser(tmp_path):
    for one in world(2):
        write(tmp_path, one)
    hostile = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    write(tmp_path, record(name=hostile, row={"label": hostile}))
    dom, console = opened(tmp_path, board.build([tmp_path], tmp_path / "site"))
    assert console == []
    assert "<title>ptmbench board</title>" in dom
    assert re.search(r'<form[^>]*id="controls">', dom), "the script did not show the controls"
    heads = re.search(r'id="score-table".*?</thead>', dom, re.S).group(0)
    assert heads.count("<button") == heads.count("<th ")
