"""Examples as text in a browser: texts, label names, marked tags and spans, and no script from the data."""

import gzip
import hashlib
import json

import pytest

from ptmbench.leaderboard import board
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.made import record
from tests.leaderboard.test_browser import browser, open_, pytestmark  # noqa: F401

HOSTILE = "<img src=x onerror=alert(1)> \u202ereversed"
ROWS = {
    "sst2": [("0", "1", "0", ["a fine film"]), ("1", "0", "0", [HOSTILE])],
    "conll2003": [("0", ["O", "B-PER"], ["B-LOC", "B-PER"], ["In", "Ada"])],
    "squad11": [("0", [["Paris", 10]], "Lyon", ["Where?", "It was in Paris and Lyon."])],
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for task, rows in ROWS.items():
        lines = [json.dumps({"id": id, "gold": gold, "prediction": answer}) + "\n" for id, gold, answer, _ in rows]
        content = gzip.compress("".join(lines).encode())
        (folder / "predictions").mkdir(exist_ok=True)
        (folder / "predictions" / f"{task}.gz").write_bytes(content)
        kept = {"file": f"predictions/{task}.gz", "sha256": hashlib.sha256(content).hexdigest()}
        form = {"squad11": {"task_": {"form": "span"}}}.get(task, {})
        write(folder, record(task, predictions=kept, **form))

    def texts(task):
        return {"labels": {"0": "bad", "1": "good"}, "texts": {id: text for id, _, _, text in ROWS[task["name"]]}}

    return board.build([folder], folder / "site", None, texts)


@pytest.fixture(scope="module")
def opened():
    with browser() as driver:
        yield driver


def shown(opened, page, title):
    """Opens the example tables of one task, in which the only row is compared with itself."""
    from selenium.webdriver.support.ui import WebDriverWait

    open_(opened, page)
    opened.execute_script(
        "const i = page.columns.findIndex((one) => one.title === arguments[0]);"
        "const file = page.cells[0][i][2][0]; showExamples(page.columns[i], 0, [file, file]);",
        title,
    )
    WebDriverWait(opened, 10).until(lambda driver: driver.find_elements("css selector", "#examples table td"))
    return opened.find_element("id", "examples")


def test_examples_show_label_names_and_texts(opened, page):
    place = shown(opened, page, "SST-2")
    assert "a fine film" in place.text and "good" in place.text and "bad" in place.text
    assert not place.find_elements("css selector", "img")


def test_tags_are_shown_on_words_and_wrong_tags_are_marked(opened, page):
    place = shown(opened, page, "CoNLL-2003")
    assert [one.text for one in place.find_elements("css selector", ".wrong")] == ["In B-LOC"] * 2  # both columns
    assert len(place.find_elements("css selector", ".tag:not(.wrong)")) == 3  # in gold and in both predictions


def test_the_gold_span_is_marked_in_its_context(opened, page):
    place = shown(opened, page, "squad11")
    assert [one.text for one in place.find_elements("css selector", "mark")] == ["Paris"]
    assert "Lyon" in place.text


def test_examples_are_listed_if_their_texts_are_missing(opened, page):
    for path in (page.parent / "examples").glob("text-*.js"):
        path.rename(path.with_suffix(".away"))
    try:
        place = shown(opened, page, "SST-2")
        assert "a fine film" not in place.text and "neither on" in place.text
    finally:
        for path in (page.parent / "examples").glob("text-*.away"):
            path.rename(path.with_suffix(".js"))
