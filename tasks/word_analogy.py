"""Word analogies (survey, section 2.2): a is to b as c is to which word? Sums of word vectors, without training.

Mikolov et al., 2013: Efficient estimation of word representations in vector space, section 4.1: 19,544 questions in 14
sections, such as "Athens Greece Oslo Norway". Official file: ``questions-words.txt``, with ": section" lines and four
words per line. Any file in this layout can be used.

All models choose from the words of the file except the three of the question. The authors' program uses the 30,000 most
frequent words of each model's own vocabulary, and leaves out questions with other words, so its values for different
vocabularies are not comparable. The headline is the percentage of questions whose fourth word ranks first. "p_at_1" is
its mean over sections.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import fields, lines, malformed, pick
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.metrics.ranks import by_relation, ranking
from ptmbench.tasks.task import Example, Source, Task

NAME = "questions-words.txt"


def read(folder: Path, split: str) -> Iterator[Example]:
    """Questions in file order. Ids are line numbers from 1."""
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
    for line, section, (*query, right) in found:
        gold = Target(right, candidates, set(query) - {right}, kind=section)
        yield Example(id=str(line), inputs=tuple(query), gold=gold)


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
    version=2,  # since candidates that a model cannot distinguish tie
)
