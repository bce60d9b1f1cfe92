"""The page in a real browser: it has no console messages, its controls work, and it is complete without scripts."""

import base64
import gzip
import hashlib
import json
import math
import re
import shutil
from pathlib import Path

import pytest

from ptmbench.bench.runs.catalogue import catalogue
from ptmbench.leaderboard import board
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.ladders import rungs
from tests.leaderboard.made import record, world
from tests.leaderboard.test_lessons import catalogue as models

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
selenium = pytest.importorskip("selenium", reason="selenium is not installed, so no browser can be driven")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with its driver is installed, so the page cannot be opened"
)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def browser(*flags):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    quiet = (
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--window-size=1300,1000",
    )
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *quiet, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The board of a small world with examples for two rows and a hostile row."""
    folder = tmp_path_factory.mktemp("board")
    for one in world(2):
        write(folder, one)
    write(folder, record(name=HOSTILE, row={"label": HOSTILE}))
    for name, answers in (("one", "0110"), ("two", "0011")):
        rows = [{"id": str(i), "gold": "1", "prediction": answer, "text": HOSTILE} for i, answer in enumerate(answers)]
        rows.append({"id": "x", "gold": HOSTILE, "prediction": HOSTILE if name == "one" else "\u202eno"})
        content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
        (folder / "predictions").mkdir(exist_ok=True)
        (folder / "predictions" / f"{name}.gz").write_bytes(content)
        kept = {"file": f"predictions/{name}.gz", "sha256": hashlib.sha256(content).hexdigest()}
        for seed in (0, 1):
            write(folder, record(name=name, value=50.0 + 10 * seed, seed=seed, predictions=kept))
    return board.build([folder], folder / "site")


@pytest.fixture(scope="module")
def opened():
    with browser() as driver:
        yield driver


def open_(driver, page, hash=""):
    driver.get("about:blank")
    driver.get(page.as_uri() + hash)
    return driver


def column(driver, head):
    """Returns the values of the visible cells below the column head that starts with ``head`` in the score table."""
    script = """
    const table = document.getElementById("score-table");
    const place = Array.from(table.tHead.rows[0].cells).findIndex((cell) => cell.textContent.startsWith(arguments[0]));
    const shown = Array.from(table.tBodies[0].rows).filter((row) => !row.hidden).map((row) => row.cells[place]);
    return shown.map((cell) => cell.dataset.v ?? cell.textContent);
    """
    return driver.execute_script(script, head)


def click(driver, selector):
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def console_messages(driver):
    return [line["message"] for line in driver.get_log("browser")]


def test_page_opens_without_console_messages_or_requests(opened, page):
    opened.get_log("performance")
    open_(opened, page)
    assert opened.title == "ptmbench board" and console_messages(opened) == []
    asked = [json.loads(line["message"])["message"] for line in opened.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
    assert {url for url in asked if not url.startswith("about:")} == {page.as_uri()}
    heads = opened.execute_script("return document.querySelectorAll('#score-table th button').length")
    assert heads == opened.execute_script("return document.querySelectorAll('#score-table thead th').length")


def test_sorting_puts_blanks_last_and_sets_aria_sort(opened, page):
    open_(opened, page)
    for first, direction in (("descending", -1), ("ascending", 1)):
        click(opened, "#score-table thead th:nth-child(4) button")
        values = column(opened, "CoLA")
        numbers = [float(value) for value in values if value]
        assert values[len(numbers) :] == [""] * (len(values) - len(numbers))
        assert numbers == sorted(numbers, key=lambda value: direction * value)
        sorts = opened.execute_script(
            "return Array.from(document.querySelectorAll('#score-table [aria-sort]')).map((one) => one.ariaSort)"
        )
        assert sorts == [first]
    assert "sort=cola:asc" in opened.current_url


def test_search_filters_rows_and_the_url_restores_the_view(opened, page):
    open_(opened, page)
    opened.execute_script(
        """
        const search = document.getElementById("search");
        search.value = "gpt"; search.dispatchEvent(new Event("input"));
        const select = document.querySelector("[data-filter=kind]");
        select.value = "pre-trained"; select.dispatchEvent(new Event("change"));
        """
    )
    assert len(column(opened, "Model")) == 1 and "1 of " in opened.find_element("id", "count").text
    address = opened.current_url
    assert "search=gpt" in address
    open_(opened, page, "#" + address.partition("#")[2])
    assert len(column(opened, "Model")) == 1
    click(opened, "#reset")
    assert len(column(opened, "Model")) > 5 and "#" not in opened.current_url


def test_two_rows_and_their_examples_are_compared_side_by_side(opened, page):
    open_(opened, page)
    opened.execute_script(
        """
        for (const [id, name] of [["first", "ONE"], ["second", "TWO"]]) {
          const select = document.getElementById(id);
          select.value = Array.from(select.options).find((one) => one.text.startsWith(name)).value;
          select.dispatchEvent(new Event("change"));
        }
        """
    )
    line = opened.execute_script(
        "const rows = Array.from(document.querySelectorAll('#differences tbody tr'));"
        "return rows.find((row) => row.textContent.startsWith('CoLA')).innerText"
    )
    assert re.sub(r"\s+", " ", line).startswith("CoLA 55.0 55.0 0.0 0.0 to 0.0 2 not separable")
    click(opened, "#differences td button")
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(opened, 10).until(lambda driver: "both are right" in driver.find_element("id", "examples").text)
    text = opened.find_element("id", "examples").text
    assert "Of 5 examples both are right on 1, neither on 1, only the first on 2, only the second on 1." in text
    assert "</script><script>" in text and "\\u202eno" in text and opened.title == "ptmbench board"
    assert console_messages(opened) == []


def test_missing_example_files_give_an_error_message(opened, page, tmp_path):
    alone = tmp_path / "index.html"
    alone.write_bytes(page.read_bytes())
    open_(opened, alone)
    opened.execute_script("showExamples(page.columns[0], 0, ['examples/none.js', 'examples/none.js'])")
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(opened, 10).until(lambda driver: driver.find_elements("css selector", "#examples .bad"))
    assert "Copy the whole folder of the board" in opened.find_element("id", "examples").text
    opened.get_log("browser")


def test_saved_csv_has_the_visible_rows(opened, page):
    open_(opened, page, "#search=elmo")
    saved = opened.execute_script("return exporters.csv(tableOf(document.getElementById('score-table')))")
    lines = saved.splitlines()
    assert len(lines) == 3 and lines[0].startswith("Model,Rank,Average of 3 tasks,CoLA mcc ↑")
    assert lines[1].startswith("ELMO mini · pre-trained · fine-tuning,1–") and lines[2].startswith('"ELMO, random mini')


def test_columns_can_be_reached_and_sorted_with_the_keyboard(opened, page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_(opened, page)
    opened.execute_script("document.querySelector('#score-table thead th:nth-child(3) button').focus()")
    ActionChains(opened).send_keys(Keys.ENTER).perform()
    assert (
        opened.execute_script("return document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    )
    ActionChains(opened).send_keys(Keys.TAB).perform()
    assert opened.execute_script("return document.activeElement.closest('th').cellIndex") == 3
    names = opened.execute_script(
        "return Array.from(document.querySelectorAll('button, select, input'))"
        ".filter((one) => !(one.textContent.trim() || one.labels?.length || one.ariaLabel)).length"
    )
    assert names == 0


def test_a_link_to_a_cell_opens_its_sheet(opened, page):
    from selenium.webdriver.support.ui import WebDriverWait

    anchor = "cell-bert-mini-finetune-cola"
    open_(opened, page, f"#{anchor}")
    asked = f"return document.getElementById('{anchor}').closest('details').open"
    WebDriverWait(opened, 10).until(lambda driver: driver.execute_script(asked) is True)


@pytest.mark.parametrize(("flags", "dark"), [((), False), (("--blink-settings=preferredColorScheme=0",), True)])
def test_text_has_sufficient_contrast_with_its_background(page, flags, dark):
    """The contrast is at least 4.5 to 1 (WCAG 2.2, 1.4.3) in the light and the dark theme."""
    script = """
    const canvas = document.createElement("canvas").getContext("2d");
    const rgb = (text) => {
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      return Array.from(canvas.getImageData(0, 0, 1, 1).data).slice(0, 3);
    };
    const linear = (x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    const light = (c) => { const [r, g, b] = c.map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ground = (one) => {
      while (one && getComputedStyle(one).backgroundColor === "rgba(0, 0, 0, 0)") one = one.parentElement;
      return one ? getComputedStyle(one).backgroundColor : "white";
    };
    const bad = [];
    for (const one of document.querySelectorAll("body *")) {
      if (!Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.data.trim())) continue;
      if (["SCRIPT", "OPTION"].includes(one.tagName) || one.closest("svg")) continue;
      const [a, b] = [light(rgb(getComputedStyle(one).color)), light(rgb(ground(one)))];
      if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) bad.push(one.outerHTML.slice(0, 80));
    }
    return [bad, light(rgb(getComputedStyle(document.body).backgroundColor))];
    """
    with browser(*flags) as driver:
        driver.get(page.as_uri())
        bad, ground = driver.execute_script(script)
    assert bad == [] and (ground < 0.1) == dark


def test_narrow_screens_scroll_tables_and_not_the_page(page):
    with browser() as driver:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        )
        driver.get(page.as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 360


def test_printed_page_is_white_even_in_the_dark_theme(page):
    with browser("--blink-settings=preferredColorScheme=0") as driver:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.get(page.as_uri())
        colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        assert not driver.find_element("id", "controls").is_displayed()
        assert not driver.find_element("id", "compare").is_displayed()


def test_headers_are_printed_on_every_page_of_a_table(page):
    """Chromium leaves buttons out of the headers that it repeats on further pages, so headers are printed as text."""
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.get(page.as_uri())
        buttons = driver.find_elements("css selector", "#scores thead th button")
        assert {button.value_of_css_property("display") for button in buttons} == {"contents"}


def test_page_is_complete_without_javascript(page):
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(page.as_uri())
        text = driver.find_element("tag name", "body").text
        assert "BERT" in text and "CoNLL-2003" in text and "How to read this board" in text
        assert not driver.find_element("id", "controls").is_displayed()
        assert not driver.find_element("id", "compare").is_displayed() and "Compare two" not in text
        driver.find_element("css selector", "#models summary").click()
        assert "ptmbench run" in driver.find_element("id", "models").text


def test_labels_in_the_chart_do_not_overlap(opened, page):
    open_(opened, page)
    script = """
    const boxes = Array.from(document.querySelectorAll("svg.named .label"), (one) => one.getBBox());
    const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    return [boxes.length, boxes.some((a, i) => boxes.slice(i + 1).some((b) => meet(a, b)))];
    """
    named, overlap = opened.execute_script(script)
    assert named >= 5 and not overlap


def test_markers_of_a_ladder_have_the_colours_of_their_lines(opened, tmp_path):
    open_(opened, board.build([_write_run(tmp_path, [*rungs("bert"), *rungs("gpt", 66.0)])], tmp_path / "site"))
    script = """
    const shown = (one) => getComputedStyle(one);
    const models = Array.from(document.querySelector("svg.ladder").querySelectorAll("g:has(polyline)"));
    return models.map((one) => [
      shown(one.querySelector("polyline")).stroke,
      ...Array.from(one.querySelectorAll(".on"), (marker) => shown(marker).fill),
      shown(one.querySelector(".off")).stroke,
    ]);
    """
    first, second = opened.execute_script(script)
    assert len(first) == len(second) == 5 and len(set(first)) == len(set(second)) == 1 and first[0] != second[0]


def test_url_keeps_sorting_filters_theme_and_opened_cell(opened, page):
    open_(opened, page, "#sort=cola:desc&kind=pre-trained&theme=dark")
    values = [float(value) for value in column(opened, "CoLA") if value]
    assert values == sorted(values, reverse=True) and len(column(opened, "Model")) == 6
    assert opened.execute_script("return document.documentElement.dataset.theme") == "dark"
    click(opened, "#row-bert-mini-finetune td a[href='#cell-bert-mini-finetune-cola']")
    address = opened.current_url.partition("#")[2]
    assert set(address.split("&")) == {
        "sort=cola:desc", "kind=pre-trained", "theme=dark", "at=cell-bert-mini-finetune-cola",
    }  # fmt: skip
    open_(opened, page, f"#{address}")
    assert opened.execute_script(
        "return document.getElementById('cell-bert-mini-finetune-cola').closest('details').open"
    )
    assert len(column(opened, "Model")) == 6


def test_anchors_stay_the_same_when_records_are_added(tmp_path):
    first = board.build([_write_run(tmp_path / "a", world(2))], tmp_path / "1").read_text()
    more = [record(name="aaa", value=99.0), record(task="aaa", value=1.0), record(name="bert", task="zzz")]
    second = board.build([_write_run(tmp_path / "b", [*world(2), *more])], tmp_path / "2").read_text()
    names = re.compile(r' id="?((?:row|cell|task|model)-[a-z0-9-]+)')
    assert set(names.findall(first)) < set(names.findall(second)) and len(set(names.findall(first))) > 30


def _write_run(folder, records):
    for one in records:
        write(folder, one)
    return folder


def test_columns_without_a_number_in_visible_rows_are_hidden(opened, page):
    open_(opened, page, "#search=majority")
    heads = "return Array.from(document.querySelectorAll('#score-table thead th')).filter((one) => !one.hidden)"
    shown = opened.execute_script(f"{heads}.map((one) => one.dataset.key)")
    assert "cola" in shown and "wikitext2" not in shown
    click(opened, "#reset")
    assert "wikitext2" in opened.execute_script(f"{heads}.map((one) => one.dataset.key)")


def test_saved_scores_have_numbers_in_separate_columns(opened, page):
    open_(opened, page, "#search=elmo+mini+pre-trained&sort=cola:desc")
    script = "return exporters.{}(longTable(document.getElementById('score-table')))"
    rows = json.loads(opened.execute_script(script.format("json")))
    assert [row["task"] for row in rows] == ["cola", "conll2003", "sst2", "wikitext2"]
    made = [one.headline["value"] for one in world(2) if one.row["label"] == "ELMO" and one.task["name"] == "cola"]
    mean, sd = sum(made) / 2, abs(made[0] - made[1]) / 2**0.5
    assert rows[0]["seeds"] == 2 and rows[0]["mean"] == pytest.approx(mean, abs=1e-3)
    assert rows[0]["sd"] == pytest.approx(sd, abs=2e-3) and rows[0]["low"] < mean < rows[0]["high"]
    assert opened.execute_script(script.format("csv")).startswith("model,row,task,metric,seeds,mean,sd,low,high\n")


def test_head_of_the_first_column_stays_in_view(opened, page):
    open_(opened, page)
    script = """
    const scroll = document.querySelector("#scores .scroll"), head = scroll.querySelector("thead th");
    scroll.style.maxHeight = "150px";
    scroll.style.maxWidth = "400px";
    const before = head.getBoundingClientRect();
    scroll.scrollTo(200, 120);
    const after = head.getBoundingClientRect();
    return [scroll.scrollTop, scroll.scrollLeft, after.top - before.top, after.left - before.left];
    """
    top, left, down, right = opened.execute_script(script)
    assert top > 50 and left > 50 and abs(down) < 2 and abs(right) < 2


def test_every_table_of_the_page_has_an_accessible_name(opened, page):
    """Tables on the sheets of models and tasks are not checked: the summary of their sheet names them."""
    open_(opened, page)
    script = """
    const named = (one) => one.caption || one.ariaLabel || document.getElementById(one.getAttribute("aria-labelledby"));
    const tables = Array.from(document.querySelectorAll("main table")).filter((one) => !one.closest("#models, #tasks"));
    return [tables.length, tables.filter((one) => !named(one)).length];
    """
    tables, unnamed = opened.execute_script(script)
    assert tables > 5 and unnamed == 0


def test_touch_targets_are_large_on_small_screens(page, several):
    script = """
    const small = [];
    const targets = "button, select, input, summary, nav a, a.chip, #scores tbody td:has(a)";
    for (const one of document.querySelectorAll(targets)) {
      const box = one.getBoundingClientRect();
      if (box.width && (box.height < 43.5 || box.width < 43.5)) small.push(one.outerHTML.slice(0, 80));
    }
    return small;
    """
    with browser() as driver:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        )
        for one in (page, several, several.with_name("models.html")):
            driver.get(one.as_uri())
            assert driver.execute_script(script) == [], one


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """The index page of two boards that share a page of models."""
    folder = tmp_path_factory.mktemp("several")
    for run in ("first", "second"):
        write(folder / "runs" / run, record())
    return board.build([folder / "runs"], folder / "site", models())


def test_a_link_to_a_model_opens_its_sheet_and_keeps_the_theme(opened, several):
    page = several.with_name("models.html")
    open_(opened, page, "#model-gpt")
    asked = "return document.getElementById('model-gpt').open"
    assert opened.execute_script(asked) is True and console_messages(opened) == []
    open_(opened, several.with_name("first.html"), "#theme=dark")
    click(opened, "#model-bert a[href='models.html#model-bert']")
    assert opened.current_url.endswith("models.html#theme=dark&at=model-bert")
    assert opened.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert opened.execute_script("return document.getElementById('model-bert').open") is True
    click(opened, "header a[href='index.html']")
    assert opened.current_url.endswith("index.html#theme=dark") and console_messages(opened) == []
    assert opened.execute_script("return document.documentElement.dataset.theme") == "dark"
    click(opened, "a[href='first.html']")
    assert opened.current_url.endswith("first.html#theme=dark")


def test_a_printed_page_of_models_has_the_figure_and_the_open_sheets(several):
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.get(several.with_name("models.html").as_uri() + "#model-bert")
        shown = {one: driver.find_element("id", one).is_displayed() for one in ("taxonomy", "model-bert", "model-gpt")}
        assert shown == {"taxonomy": True, "model-bert": True, "model-gpt": False}
        assert not driver.find_element("id", "objectives").is_displayed()
        assert not driver.find_element("id", "survey1").is_displayed()


def test_first_chart_starts_on_the_first_screen_of_a_phone(page):
    with browser() as driver:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        )
        driver.get(page.as_uri())
        top = driver.execute_script("return document.querySelector('#story svg').getBoundingClientRect().top")
    assert top < 600


RESULTS = Path(board.__file__).parent / "results"


@pytest.mark.slow
def test_the_published_results_fit_on_small_pages(tmp_path):
    """A board has at most 18,500 elements, or 170 for each row of its scores. Printed, it has at most six pages, or one
    for 16 rows and one more. The largest results are also built as boards of one run, with a catalogue."""
    board.build([RESULTS], tmp_path)
    for name in ("table2", "table4"):
        board.build([RESULTS / name], tmp_path / name, catalogue())
    with browser() as driver:
        for path in sorted(tmp_path.rglob("*.html")):
            driver.get(path.as_uri())
            rows = driver.execute_script("return document.querySelectorAll('#scores tbody tr').length")
            elements = driver.execute_script("return document.getElementsByTagName('*').length")
            assert elements <= max(18_500, 170 * rows), path
            printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= max(6, 1 + math.ceil(rows / 16)), path.name
            assert console_messages(driver) == []
