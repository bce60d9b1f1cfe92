"""SemEval-2014 task 4, restaurants, aspect categories (survey, section 7.3): what does a review say about five of them?

Pontiki et al., 2014: SemEval-2014 task 4: aspect based sentiment analysis. Available from the organisers (META-SHARE),
for research. Official files: XML of ``<sentence id><text/><aspectCategories><aspectCategory category polarity/>``. The
training file has a second version, and there is no development set. Subtasks 3 and 4 are evaluated: the categories of a
sentence, and their polarity. The label of any other category is `none`.

"semeval14_restaurants" gives a classifier the text alone (`single`). "semeval14_restaurants-qa-m", -nli-m, -qa-b and
-nli-b add the auxiliary sentences of `tasks.aspects`. Prediction files may have the official format.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.parsers import expat

from ptmbench.tasks.aspects import Wording, construction
from ptmbench.tasks.files import label, malformed, pick, read_unpacked
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.semeval14 import categories
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("Restaurants_Train_v2.xml|Restaurants_Train.xml",), "test": ("Restaurants_Test_Gold.xml",)}
CATEGORIES = {
    name: name.partition("/")[0] for name in ("price", "anecdotes/miscellaneous", "food", "ambience", "service")
}
LABELS = ("positive", "neutral", "negative", "conflict", "none")
WORDINGS = {
    word: Wording(
        question=f"what do you think of the {word} of it ?", statement=f"the polarity of the aspect {word} is {{}} ."
    )
    for word in CATEGORIES.values()
}


def read(folder: Path, split: str) -> Iterator[Example]:
    """(text, category) in file order. Ids are "sentence id:category". The sentence is ``group`` and gold's whole."""
    for number, text, said in sentences(pick(folder, FILES[split][0])):
        for category, word in CATEGORIES.items():
            gold = Part(said.get(category, "none"), whole=number, kind=category)
            yield Example(id=f"{number}:{category}", inputs=(text, word), gold=gold, group=number)


def sentences(path: Path) -> list[tuple[str, str, dict[str, str]]]:
    """(id, text, {category: polarity}) of every sentence. Raises `DataError` with the line if the format is wrong."""
    found: list[tuple[str, str, dict[str, str]]] = []
    seen: set[str] = set()
    pieces: list[str] | None = None
    parser = expat.ParserCreate()

    def wrong(what: str) -> Exception:
        return malformed(path, parser.CurrentLineNumber, what)

    def doctype(*_: object) -> None:  # no official file has one, and it could define entities
        raise wrong("a document type is declared, which the official files do not have.")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal pieces
        if name == "sentence":
            number = attributes.get("id", "")
            if not number or number in seen:
                raise wrong(f"the sentence's id {number!r:.60} is missing or there twice.")
            seen.add(number)
            found.append((number, "", {}))
        elif name == "text" and found:
            pieces = []
        elif name == "aspectCategory" and found:
            category, said = attributes.get("category", ""), found[-1][2]
            label(path, parser.CurrentLineNumber, category, tuple(CATEGORIES))
            polarity = label(path, parser.CurrentLineNumber, attributes.get("polarity", ""), LABELS[:-1])
            if said.setdefault(category, polarity) != polarity:
                raise wrong(f"the category {category} has two polarities in one sentence.")

    def end(name: str) -> None:
        nonlocal pieces
        if name == "text" and pieces is not None:
            found[-1] = (found[-1][0], "".join(pieces).strip(), found[-1][2])
            pieces = None

    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = doctype, start, end
    parser.CharacterDataHandler = lambda text: pieces.append(text) if pieces is not None else None
    try:
        parser.Parse(read_unpacked(path), True)
    except expat.ExpatError as error:
        raise malformed(path, error.lineno, f"this is not XML ({expat.ErrorString(error.code)}).") from error
    return found


_TASK = Task(
    name="semeval14_restaurants",
    title="SemEval-2014 restaurants",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Pontiki et al., 2014: SemEval-2014 task 4: aspect based sentiment analysis",
        licence="META-SHARE: for research, to be had from the organisers",
        url="https://alt.qcri.org/semeval2014/task4/",
        survey="7.3",
    ),
    folders=("semeval2014", "semeval14"),
    files=FILES,
    read=read,
    metrics=(categories,),
    headline="f1",
    labels=LABELS,
    words=("Good", "Neutral", "Bad", "Mixed", "Nothing"),
    prompt="{0} Question: what do you think of the {1}? Answer:",
    scored=True,
    report="test",
)


@cache
def variant(way: str) -> Task:
    """The task with another construction. "single" is the default task."""
    return construction(_TASK, way, WORDINGS)


TASK = variant("single")
