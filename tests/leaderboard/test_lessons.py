"""The parts of the board that come from a catalogue: lessons on the sheets, objectives, and the survey's figure 3."""

import re
from pathlib import Path

from ptmbench.leaderboard import board
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page


def entry(title, **changes):
    return {
        "title": title, "names": [title], "year": 2019, "citation": "Somebody (2019)", "paper": f"{title}, the paper",
        "url": "https://arxiv.org/abs/1810.04805", "summary": f"{title}: in one line.", "story": ["It hides words."],
        "formula": "L = - ln p(x | y)", "nearest": "GPT (`gpt`), which sees one side.", "objectives": ["mlm"],
        "extensions": [], "representation": "contextual", "architecture": "Transformer encoder",
        "tokenizer": "wordpiece", "corpus": "books", "parameters": "110M", "reference": "none", "licence": "",
        "code": f"models/x/{title}.py",
        "sizes": [{"name": "tiny", "parameters": 1500000, "embedding": 1000000, "layers": 2, "width": 128}],
        "relatives": [{"name": "gpt", "relation": "nearest", "difference": ""}],
    } | changes  # fmt: skip


def term(title, *parts, **changes):
    empty = {"title": title, "long": "", "systems": [], "values": [], "others": [], "methods": [], "parts": list(parts)}
    return empty | changes


def catalogue(**changes):
    """Makes a catalogue of BERT, which has rows in the made-up records, and GPT, which has none."""
    systems = [
        {"name": "BERT", "models": ["bert"], "method": ""},
        {"name": "XLM-R", "models": [], "method": ""},
        {"name": "FastBERT", "models": [], "method": "fastbert"},
    ]
    relatives = [{"name": "bert", "relation": "descendant", "difference": "BERT reads both sides."}]
    return {
        "vocabulary": 8000,
        "models": {"bert": entry("BERT"), "gpt": entry("GPT", nearest="", relatives=relatives)},
        "objectives": {
            "mlm": {"summary": "Masked words.", "formula": "L_MLM = 1", "text": ["15 %."], "code": "mlm.py"}
        },
        "taxonomy": term("PTMs", term("MLM", systems=systems, others=["gpt"], long="Masked language modelling")),
    } | changes


def page(tmp_path, content, **changes):
    write(tmp_path / "run", record(**changes))
    return board.build([tmp_path / "run"], tmp_path / "site", content).read_text()


def test_a_sheet_shows_idea_loss_paper_relatives_sizes_and_code(tmp_path):
    text = Page(page(tmp_path, catalogue())).text
    for part in ("BERT: in one line.", "It hides words.", "L = - ln p(x | y)", "BERT, the paper", "Masked words."):
        assert part in text
    assert "models/x/BERT.py" in text and "1.5 M" in text and "vocabulary of 8000" in text
    assert "BERT reads both sides." in text  # on the sheet of GPT, which has no row
    assert text.count("no row on this board") == 1


def test_formulas_keep_their_line_breaks_and_are_escaped(tmp_path):
    content = catalogue()
    content["models"]["bert"]["formula"] = "L = a        M = <b>\n  + c"
    assert ">L = a\nM = &lt;b&gt;\n  + c</pre>" in page(tmp_path, content)


def test_links_point_to_sheets_and_objectives_of_the_page(tmp_path):
    source = page(tmp_path, catalogue())
    found = Page(source)
    ids = {attributes["id"] for _, attributes in found.elements if "id" in attributes}
    targets = {attributes["href"] for tag, attributes in found.elements if tag == "a"}
    assert {one[1:] for one in targets if one.startswith("#")} <= ids and {"#o-mlm", "#model-gpt"} <= targets
    assert 'href="https://arxiv.org/abs/1810.04805"' in source


def test_figure_marks_systems_as_measured_built_adaptation_or_missing(tmp_path):
    source = page(tmp_path, catalogue())
    assert "with its 3 examples, of which 2 are built here" in " ".join(source.split())
    assert 'class="chip measured" href="#model-bert"' in source and ">BERT</a>" in source
    assert 'class="chip" href="#model-gpt"' in source  # GPT has a sheet and no rows
    assert 'class="chip absent" title="Not built yet">XLM-R' in source
    assert "the adaptation fastbert" in source


def test_without_a_catalogue_there_is_no_taxonomy_and_no_objectives(tmp_path):
    source = page(tmp_path, None)
    assert 'id="taxonomy"' not in source and 'id="objectives"' not in source
    assert "In the paper" in Page(source).text  # from the card of the record


def test_published_checkpoints_show_the_lesson_of_their_model(tmp_path):
    found = page(tmp_path, catalogue(), name="bert-base-uncased", row={"kind": "published", "card": None})
    assert found.count("It hides words.") == 2  # GPT and BERT, both without rows
    card = {"title": "BERT", "citation": "x", "reported": []}
    with_card = page(tmp_path / "2", catalogue(), name="bert-base-uncased", kind="published", row={"card": card})
    assert with_card.count("It hides words.") == 3


def test_unsafe_links_and_markup_in_the_catalogue_are_escaped(tmp_path):
    content = catalogue()
    content["models"]["bert"] |= {"url": "javascript:alert(1)", "story": ["<script>alert(1)</script> `<b>`"]}
    source = page(tmp_path, content)
    assert "javascript:" not in source.split("<script")[0] and "<script>alert" not in source and "<b>`" not in source
    assert "&lt;script&gt;alert(1)&lt;/script&gt; <code>&lt;b&gt;</code>" in source


def test_survey_tables_have_every_row_and_the_matching_board_rows(tmp_path):
    """The made-up records have rows of BERT. The catalogue also has GPT, and no other models."""
    content = catalogue()
    content["taxonomy"]["parts"].append(term("Quantization", values=["quantization"], methods=["int8"]))
    source = page(tmp_path, content)
    found = {}
    for number, rows in ((1, 8), (2, 18), (3, 13), (4, 4)):
        section = source.split(f'<section id="survey{number}"')[1].split("</section>")[0]
        lines = section.split("<tbody>")[1].split("</tr>")[:-1]
        assert len(lines) == rows
        found[number] = [Page(line).text for line in lines]
    assert found[2][3].startswith(" BERT") and "1 row here" in found[2][3]
    assert found[2][1].startswith(" GPT") and "no row here" in found[2][1]
    assert sum("not built yet" in line for line in found[2]) == 16
    assert "transform int8 has this type" in found[3][2] and "transform" not in found[3][4]
    name, here = found[1][1].split()[:2]  # the counterpart stands next to the survey's name
    assert (name, here) == ("MLM", "mlm") and "not built yet" in found[1][5]
    assert "rows here: BERT" in found[4][1] and "no row here" in found[4][0]  # the record is fine-tuned


def test_a_large_board_has_its_lessons_on_a_separate_page(tmp_path, monkeypatch):
    write(tmp_path / "run", record(name="bert"))
    write(tmp_path / "run", record(name="bert", task="sst2"))
    monkeypatch.setattr(board, "LARGE", 1)
    board.build([tmp_path / "run"], tmp_path / "site", catalogue())
    source, models = ((tmp_path / "site" / name).read_text(encoding="utf-8") for name in ("index.html", "models.html"))
    assert 'id="model-bert"' in source and 'href="models.html#model-bert"' in source
    assert 'id="model-gpt"' not in source and 'id="objectives"' not in source
    assert 'href="models.html#model-gpt"' in source and 'href="models.html#o-mlm"' in source  # figure and tables
    assert 'id="taxonomy"' in source and 'id="survey4"' in source and "1 row here" in source
    assert all(f'id="{one}"' in models for one in ("model-bert", "model-gpt", "o-mlm"))
    assert '<a href="index.html">The board</a>' in models
    here = {found for found in re.findall(r'href="(?:models.html)?#([^"]+)"', source)}
    assert all(f'id="{one}"' in source or f"id={one} " in source or f'id="{one}"' in models for one in here)
    board.build([tmp_path / "run"], tmp_path / "plain")
    assert not (tmp_path / "plain" / "models.html").exists()


def test_a_board_of_several_runs_has_its_lessons_on_one_page(tmp_path):
    for name in ("first", "second"):
        write(tmp_path / "runs" / name, record(name="bert"))
    board.build([tmp_path / "runs"], tmp_path / "site", catalogue())
    pages = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").glob("*.html")}
    assert set(pages) == {"index.html", "models.html", "first.html", "second.html"}
    assert 'href="models.html"' in pages["index.html"] and 'id="taxonomy"' in pages["models.html"]
    assert 'id="model-bert"' in pages["models.html"] and pages["models.html"].count("<script") == 1
    assert 'id="taxonomy"' not in pages["first.html"]
    board.build([tmp_path / "runs"], tmp_path / "plain")
    assert not (tmp_path / "plain" / "models.html").exists()


def test_every_table_of_the_templates_has_an_aria_label():
    sources = {path.name: path.read_text(encoding="utf-8") for path in Path(board.__file__).parent.glob("site/*.jinja")}
    tables = [(name, tag) for name, source in sources.items() for tag in re.findall("<table[^>]*>", source)]
    assert len(tables) > 15 and not [one for one in tables if "aria-label" not in one[1]]


def test_the_page_of_models_links_to_boards_with_rows_of_each_model(tmp_path):
    for run in ("first", "second"):
        write(tmp_path / "runs" / run, record())
    board.build([tmp_path / "runs"], tmp_path / "site", catalogue())
    models, first = ((tmp_path / "site" / f"{name}.html").read_text() for name in ("models", "first"))
    assert '<a class="chip measured" href="#model-bert"' in models and '<a class="chip" href="#model-gpt"' in models
    assert 'Rows on <a href="first.html#model-bert">first</a>, <a href="second.html#model-bert">second</a>' in models
    assert "rows on first, second" in Page(models).text and "no row on a board" in Page(models).text
    assert 'href="models.html#model-bert"' in first and "figure 3: a taxonomy" not in first


def test_the_page_of_models_links_back_to_its_large_board(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "LARGE", 0)
    page(tmp_path, catalogue())
    models = (tmp_path / "site" / "models.html").read_text()
    assert 'Rows on <a href="index.html#model-bert">the board</a>' in models
