"""README and docs/ are short enough, their links have targets, and the commands that they show exist."""

import json
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOUR = ROOT / "docs" / "examples" / "tour.ipynb"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "leaderboard" / "results" / "README.md"])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Returns the anchors of the headings of ``page``, as they are written in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shown_commands(page: Path) -> list[str]:
    """Returns the ptmbench commands in the shell blocks of ``page``, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [found[1] for line in lines for found in re.finditer(r"(?:^|/|\s)ptmbench ([^#&|]+)", line)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_has_a_target(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{target} is missing"
        assert not anchor or anchor in anchors(other), f"{target}{anchor} is missing"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_in_the_documentation_exists(page):
    import click

    from ptmbench.bench.__main__ import commands

    for line in shown_commands(page):
        command, context, words = commands, click.Context(commands), shlex.split(line)
        while isinstance(command, click.Group):
            command = command.get_command(context, words.pop(0))
            assert command is not None, line
        options = {flag for one in (*command.params, *commands.params) for flag in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 900


def test_readme_counts_are_correct():
    """The counts may exceed "More than N" by at most 15."""
    from ptmbench import models, tasks
    from ptmbench.bench import adapt

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    claims = {what: int(count) for count, what in re.findall(r"More than (\d+) (models|tasks|adaptations)", text)}
    counts = {"models": len(models.names()), "tasks": len(tasks.names()), "adaptations": len(adapt.names())}
    assert set(claims) == set(counts)
    assert all(claims[what] < count <= claims[what] + 15 for what, count in counts.items()), counts


def test_every_page_is_in_the_table_of_contents():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert not [page for page in missing if str(page.relative_to(ROOT / "docs")) not in contents]


@pytest.mark.slow
def test_examples_of_the_python_page_run(tmp_path, monkeypatch):
    """Runs the examples one after the other, in a folder with the microworld."""
    from ptmbench.tasks import microworld

    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    microworld.make(tmp_path / "world")
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    shown_commands = {name for block in blocks for name in re.findall(r"ptmbench\.(\w+)\(", block)}
    assert shown_commands == set(names["ptmbench"].__all__)


def test_the_tour_has_outputs_without_local_paths():
    text = TOUR.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert len(text) < 100_000 and all(cell["outputs"] for cell in cells)
    shown_commands = "".join(json.dumps(cell["outputs"]) for cell in cells)
    assert not re.search(r"/(home|work|tmp|root|Users|usr|opt)/", shown_commands) and '"error"' not in shown_commands
    assert "image/svg+xml" in shown_commands and "text/html" in shown_commands


@pytest.mark.slow
def test_the_tour_runs(tmp_path, monkeypatch):
    """Runs the cells one after the other, in an empty folder, without a Jupyter kernel."""
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "tour"}
    for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), TOUR.name, "exec"), names)
    assert len(names["frame"]) == 18 and (names["frame"].status == "ok").all() and len(names["means"]) == 6
