"""The contract of task files, checked for every file in the folder, so that new tasks are tested automatically."""

import ast
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ptmbench import tasks
from ptmbench.tasks.forms import Answer, Answers, Form, Part, Pointings, Rank, Reply, Rewriting, Target
from ptmbench.tasks.task import MissingData, Task, UnknownTask

ROOT = Path(__file__).resolve().parents[2]
NAMES = tasks.names()
LONGEST = 120
"""Maximum number of lines of a task file. The aim is 30 to 50; irregular formats need more."""

_PAIRS = "index\tsentence1\tsentence2\tlabel\n0\tIt \u2028 sat.\tIt was.\t{}\n"
_MNLI = "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n3\tfiction\tA.\tB.\tneutral\tneutral\n"
_ENTAILED = '{"premise": "A.", "hypothesis": "B.", "label": "entailment", "idx": 0}\n'
_ROUND = '"questions": [{"turn_id": 1, "input_text": "Who?"}], "answers": [{"turn_id": 1, "input_text": "Jo", '
_QUESTION = '{"data": [\n{"paragraphs": [{"context": "Jo \u2028 ran.", "qas": [{"id": "q", "question": "Who?", '
SAMPLES = {
    "cola": "src\t0\t*\tCat the sat.\n",
    "sst2": "sentence\tlabel\na fine film \t1\n",
    "mrpc": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tA .\tB .\n",
    "stsb": "index\tsentence1\tsentence2\tscore\n0\tA.\tB.\t3.200\n",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n4\t1\t2\tWhy?\tHow?\t0\n",
    "mnli": _MNLI,
    "mnli_mm": _MNLI,
    "ax": _MNLI,
    "xnli": "premise\thypo\tlabel\nA \u2028 .\tB.\tcontradictory\n",
    "xnli_zh": "text_a\ttext_b\tlabel\n他说 \u2028 。\t他没说。\tcontradiction\n",
    "qnli": "index\tquestion\tsentence\tlabel\n0\tWho?\tThe cat.\tentailment\n",
    "rte": _PAIRS.format("not_entailment"),
    "wnli": _PAIRS.format("0"),
    "boolq": '{"question": "is it", "passage": "It \u2028 is.", "idx": 0, "label": true}\n',
    "cb": '{"premise": "A.", "hypothesis": "B", "label": "neutral", "idx": 0}\n',
    "rte_superglue": _ENTAILED,
    "axb": _ENTAILED,
    "axg": _ENTAILED,
    "wic": '{"word": "b", "sentence1": "A b.", "sentence2": "B c.", "start1": 2, "end1": 3, "start2": 0, "end2": 1, '
    '"idx": 0, "label": false}\n',
    "wsc": '{"text": "Jo ran, he did.", "target": {"span1_text": "Jo", "span1_index": 0, "span2_text": "he", '
    '"span2_index": 2}, "idx": 0, "label": true}\n',
    "multirc": '{"idx": 0, "passage": {"text": "A.", "questions": [{"idx": 0, "question": "B?", "answers": '
    '[{"idx": 0, "text": "C", "label": 1}]}]}}\n',
    "record": '{"idx": 0, "passage": {"text": "Jo ran."}, "qas": [{"idx": 0, "query": "@placeholder ran.", "answers": '
    '[{"start": 0, "end": 1, "text": "Jo"}]}]}\n',
    "copa": '{"premise": "A.", "choice1": "B.", "choice2": "C.", "question": "cause", "label": 0, "idx": 0}\n',
    "squad11": _QUESTION + '"answers": [{"text": "Jo", "answer_start": 0}]}]}]}]}\n',
    "squad20": _QUESTION + '"answers": [], "is_impossible": true}]}]}]}\n',
    "coqa": '{"data": [\n{"id": "s", "story": "Jo \u2028 ran.", ' + _ROUND + '"span_start": 0, "span_end": 2}]}]}\n',
    "hotpotqa": '[\n{"_id": "h", "question": "Who?", "answer": "Jo", "supporting_facts": [["T", 0]], '
    '"context": [["T", ["Jo \u2028 ran."]]]}]\n',
    "cmrc2018": '[\n{"context_id": "c", "context_text": "约 \u2028 人", "qas": [{"query_id": "q", '
    '"query_text": "谁？", "answers": ["人"]}]}]\n',
    "ag_news": '"3","A \u2028 ""title""","Text, text."\n',
    "dbpedia": '14,"A title","A text."\n',
    "yelp_polarity": '"2","Good\\nfood."\n',
    "yelp_full": '"5","Good food."\n',
    "yahoo": '"10","why?","","because"\n',
    "sst5": "(3 (2 A) (3 (3 fine) (2 film)))\n",
    "trec": "LOC:city Where is it ?\n",
    "trec_fine": "LOC:city Where is it ?\n",
    "conll2003": "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n",
    "sentihood": '[{"id": 1, "text": "LOCATION1 \\u2028 is safe", "opinions": [{"sentiment": "Positive", "aspect": '
    '"safety", "target_entity": "LOCATION1"}]}]\n',
    "semeval14_restaurants": '<?xml version="1.0" encoding="UTF-8"?>\n<sentences><sentence id="1"><text>Good \u2028'
    " food</text>\n"
    "<aspectCategories><aspectCategory category='food' polarity='positive'/></aspectCategories></sentence>\n"
    "</sentences>\n",
    "bc5cdr": "Torsade\tB-Disease\nde\tI-Disease\n\n",
    "ncbi_disease": "a\tO\nclinical\tO\nmela\u2028noma\tB-Disease\n",
    "jnlpba": "###MEDLINE:95369245\n\nIL-2\tB-DNA\ngene\tI-DNA\n\n",
    "wnut17": "@paulwalk\tO\nEmpire\tB-location\nState\tI-location\n\t\nx\tO\n",
    "wikiann": "en:Shortly\tO\nen:Oslo\tB-LOC\n\n",
    "absa": '[{"raw_words": "fine \\u2028 food", "words": ["fine", "\\u2028", "food"], "aspects": [{"index": 0, '
    '"from": 2, "to": 3, "polarity": "POS", "term": ["food"]}], "opinions": [{"index": 0, "from": 0, "to": 1, '
    '"term": ["fine"]}]}]\n',
    "wikitext2": " \n = Title = \n \n A text of words . \n",
    "bits_per_byte": " \n = Title = \n \n A text of ten words that are there for a test . \n",
}
"""A training file with one row, for each task whose splits are single files of plain text."""


def _gold(task: Task) -> list[Any]:
    """Makes gold labels for the form of the task, with every class at least once."""
    match task.form:
        case Form.CLASSIFICATION:
            return list(task.labels) * 3
        case Form.REGRESSION | Form.SIMILARITY:
            return [0.0, 1.5, 4.0, 2.5, 5.0]
        case Form.TAGGING:
            first = [tag for tag in task.labels if tag.startswith("B-")] or task.labels
            return [["O", tag, "O"] for tag in first] * 2
        case Form.SPAN:
            found = [Answers((Answer("the cat", 4), Answer("cat", 8)), "a"), Answers((Answer("1999", 0),), "bc")]
            return found + [()] * ("" in task.labels)
        case Form.CHOICE:
            return [0, 1, 1, 0]
        case Form.GENERATION:
            texts = [("a man is riding a brown horse",), ("two dogs run over the green grass",)]
            if "polarities" in task.extra:  # the judge checks whether a text mentions animals
                return [Rewriting(text, "a man is walking", "1", _mentions_animals) for text in texts]
            return texts
        case Form.LANGUAGE_MODELLING:
            return [40, 25] if task.extra.get("bytes") else [None, None]
        case Form.FEW_SHOT:
            return ["P17", "P26", "P17"]
        case Form.CLOZE | Form.RANKING | Form.ANALOGY:
            return [Target("Rome", kind="P36"), Target("Oslo", kind="P36"), Target("jazz", kind="P136")]
        case Form.MINIMAL_PAIR:
            return [Part("adjunct_island", kind="island_effects"), Part("causative", kind="argument_structure")]
        case Form.POINTING:
            return [
                Pointings([(0, 1, 3, 3, "POS"), (4, 4, 3, 3, "NEG")]),
                Pointings([(2, 2, 0, 0, "POS")]),
                Pointings(),
            ]


def _mentions_animals(texts: Sequence[str]) -> list[str]:
    return [str(int("horse" in text or "dogs" in text)) for text in texts]


def _perfect(task: Task, gold: list[Any]) -> list[Any]:
    match task.form:
        case Form.SPAN:
            return [Reply(answers[0].text, facts=answers.facts) if answers else "" for answers in gold]
        case Form.GENERATION:
            return [references[0] for references in gold]
        case Form.LANGUAGE_MODELLING:
            return [(0.0, 7, 30), (0.0, 5, 20)]
        case Form.CLOZE | Form.RANKING | Form.ANALOGY:
            return [Rank(1.0)] * len(gold)
        case Form.MINIMAL_PAIR:
            return [(-10.0, -10.5)] * len(gold)
    return gold


@pytest.fixture(params=NAMES)
def task(request: pytest.FixtureRequest) -> Task:
    return tasks.load(request.param)


def test_task_names_follow_from_the_files_of_the_folder() -> None:
    assert {"cola", "mnli_mm", "copa", "stsb"} <= set(NAMES)
    assert not {"task", "forms", "files"} & set(NAMES)
    with pytest.raises(UnknownTask, match="cola"):
        tasks.load("colla")


def test_task_metadata_is_complete(task: Task, request: pytest.FixtureRequest) -> None:
    assert task.name == request.node.callspec.params["task"]
    assert task.title
    assert isinstance(task.form, Form)
    source = task.source
    assert all((source.citation, source.licence, source.url)), "citation, licence and url are what people need to know"
    assert source.url.startswith("https://")
    assert source.survey == "" or source.survey[0].isdigit(), "the survey's section by number, or nothing"
    assert task.folders
    assert not any(Path(folder).is_absolute() or ".." in Path(folder).parts for folder in task.folders)
    assert task.report in task.files
    assert task.version >= 1
    assert callable(task.read)


def test_task_files_are_inside_the_data_folder(task: Task) -> None:
    for split, names in task.files.items():
        assert split
        assert names
        for name in "|".join(names).split("|"):
            assert name
            assert not Path(name).is_absolute()
            assert ".." not in Path(name).parts


def test_labels_fit_the_form(task: Task) -> None:
    if task.form in (Form.CLASSIFICATION, Form.TAGGING):
        assert len(task.labels) >= 2
        assert len(set(task.labels)) == len(task.labels)
    elif task.form in (Form.SPAN, Form.POINTING):  # labels are answers that are not a span
        assert len(set(task.labels)) == len(task.labels)
    else:
        assert task.labels == ()


def test_a_perfect_prediction_has_the_best_score(task: Task) -> None:
    gold = _gold(task)
    scores = task.score(gold, _perfect(task, gold))
    assert set(task.headline.split("+")) <= set(scores)
    assert all(math.isfinite(value) for value in scores.values())
    certain = {"perplexity": 1.0, "bits_per_byte": 0.0}
    best = 100.0 if task.higher_is_better else certain[task.headline]
    assert scores["headline"] == pytest.approx(best, abs=1e-9)


def test_a_wrong_prediction_has_a_worse_score(task: Task) -> None:
    gold = _gold(task)
    match task.form:
        case Form.REGRESSION | Form.SIMILARITY:
            wrong = [5.0 - value for value in gold]
        case Form.TAGGING:
            wrong = [["O"] * len(tags) for tags in gold]
        case Form.SPAN | Form.GENERATION:
            wrong = ["zebra"] * len(gold)
        case Form.LANGUAGE_MODELLING:
            wrong = [(9.0, 7, 30), (9.0, 5, 20)]
        case Form.CLOZE | Form.RANKING | Form.ANALOGY:
            wrong = [Rank(4.0)] * len(gold)
        case Form.MINIMAL_PAIR:
            wrong = [(-10.0, -10.0)] * len(gold)
        case _:
            wrong = gold[1:] + gold[:1]
    right = task.score(gold, _perfect(task, gold))["headline"]
    worse = task.score(gold, wrong)["headline"]
    assert worse < right if task.higher_is_better else worse > right


def test_missing_data_gives_an_error_message(task: Task, tmp_path: Path) -> None:
    for split in task.files:
        with pytest.raises(MissingData, match=r"\S+ \S+"):
            task.examples(tmp_path, split)
    with pytest.raises(MissingData, match="no unheard-of split"):
        task.paths(tmp_path, "unheard-of")


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_bom_and_crlf_do_not_change_the_examples(name: str, tmp_path: Path) -> None:
    """Checks formats of plain text in one file, with LF line ends and with BOM and CRLF."""
    task, sample = tasks.load(name), SAMPLES[name]
    for folder, raw in (("unix", sample.encode()), ("dos", b"\xef\xbb\xbf" + sample.replace("\n", "\r\n").encode())):
        path = tmp_path / folder / task.files["train"][0].split("|")[0]
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
    unix, dos = (list(task.read(tmp_path / folder, "train")) for folder in ("unix", "dos"))
    assert unix
    assert unix == dos


@pytest.mark.parametrize("name", NAMES)
def test_task_file_is_short_and_its_docstring_names_the_survey(name: str) -> None:
    text = tasks.path(name).read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    assert "survey" in docstring.lower(), "the docstring names the survey's section"


def test_tasks_do_not_import_tensorflow() -> None:
    program = (
        "import sys; from ptmbench import tasks; [tasks.load(name) for name in tasks.names()]; "
        "print(sorted({'tensorflow', 'keras', 'keras_hub', 'torch'} & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_several_tasks_in_a_file_are_read_without_running_it(tmp_path: Path) -> None:
    file_names = {name: tasks.path(name).name for name in tasks.names()}
    assert [name for name, file in file_names.items() if file == "xquad.py"] == ["xquad_de", "xquad_en", "xquad_zh"]
    assert all(file == f"{name}.py" for name, file in file_names.items() if file != "xquad.py")
    assert tasks.load("xquad_de").name == "xquad_de" and tasks.load("xquad_zh") is tasks.load("xquad_zh")
    for source, names in (
        ('raise SystemExit\nTASKS = {\n    "a_en": made("en"),\n    "a_de": made("de"),\n}\n', ["a_en", "a_de"]),
        ("TASK = made()\n", ["several"]),
        ("TASKS = {name: made(name) for name in LANGUAGES}\n", ["several"]),  # the names cannot be read
        ("\nTASKS = {\n    this is no Python\n", ["several"]),  # reported when it is loaded
    ):
        file = tmp_path / "several.py"
        file.write_text(source, encoding="utf-8")
        assert tasks._task_names_in(file) == names


def test_a_task_under_a_wrong_name_in_a_file_of_several_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from ptmbench.tasks import xquad
    from ptmbench.tasks.task import BrokenTask

    monkeypatch.setitem(xquad.TASKS, "xquad_de", xquad._task("zh"))
    with pytest.raises(BrokenTask, match=r"xquad\.py .*TASK\.name is 'xquad_zh', but the file makes it 'xquad_de'"):
        tasks.load("xquad_de")
