"""Word analogies (survey, section 2.2): what is to c as b is to a, by sums of vectors, untrained?

Mikolov et al., 2013: Efficient estimation of word representations in vector space, section 4.1: 19,544 questions in 14
sections, such as "Athens Greece Oslo Norway". Official file: ``questions-words.txt``, ": section" lines and four words
a line; any file in this layout serves.

All models choose from the words of the file, the three of a question left out, so that all have the same list; the
authors' program takes the 30,000 most frequent words of each model's own vocabulary, and leaves questions with other
words out, which makes figures of different vocabularies incomparable. The headline is the share of questions whose
fourth word comes first, in percent; "p_at_1" is its mean over sections.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import fields, lines, malformed, pick
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.metrics.ranks import by_relation, ranking
from ptmbench.tasks.task import Example, Source, Task

NAME = "questions-words.txt"


def read(folder: Path, split: str) -> Iterator[Example]:
    """Questions in file order; ids count lines from 1."""
    path = pick(folder, NAME)
    section, found = "", []
    for line, text in lines(path):
        if text.startswith(":"):
            section = text[1:].strip()
        elif words := fields(text):
            if len(words) != 4:
                raise malformed(path, line, f"four words are expected, not {text!r:.60}.")
            found.append((line, section, words))
    candidates = {word: word for _, _, words in found for word in words}
    for line, section, (*asked, right) in found:
        gold = Target(right, candidates, set(asked) - {right}, kind=section)
        yield Example(id=str(line), inputs=tuple(asked), gold=gold)


TASK = Task(
    name="word_analogy",
    title="Word analogies",
    form=Form.ANALOGY,
    source=Source(
        citation="Mikolov et al., 2013: Efficient estimation of word representations in vector space",
        licence="Apache-2.0",
        url="https://github.com/tmikolov/word2vec",
        survey="2.2",
    ),
    folders=("google_analogy", "word_analogy"),
    files={"test": (NAME,)},
    read=read,
    metrics=(by_relation, ranking),
    headline="hits_at_1",
    report="test",
    version=2,  # since candidates that a model does not tell apart tie
)
