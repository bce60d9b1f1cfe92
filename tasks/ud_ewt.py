"""UD English EWT: part of speech, relation and head of each word, in Universal Dependencies (not in the survey).

Silveira et al., 2014: A gold standard dependency corpus for English, LREC; Universal Dependencies since Nivre et al.,
2016. Licence: CC BY-SA 4.0. Official files: CoNLL-U, ten columns. Lines of contractions (8-9) and of words that are not
written (8.1) are left out, since they have no head.

The tags of "ud_ewt" are parts of speech (UPOS). Those of "ud_ewt-relations" are the relations to the head without the
subtype (nsubj for nsubj:pass), and those of "ud_ewt-heads" encode the head: "+2 NOUN" is the second noun to the right,
"-1 VERB" the nearest verb to the left. This is the encoding by parts of speech of Strzyz, Vilares and Gomez-Rodriguez
(2019), Viable dependency parsing as sequence labeling. 0.2 % of all words have a head beyond the seventh of its part of
speech, with the tag "far". Except for these, the accuracy is the unlabelled attachment score. With a frozen encoder
(`features`), the three tasks are similar to edge probing (Tenney et al., 2019).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.conllu import Word, sentences
from ptmbench.tasks.files import malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import word_accuracy
from ptmbench.tasks.task import Example, Source, Task, UnknownTask

FILES = {split: (f"en_ewt-ud-{split}.conllu",) for split in ("train", "dev", "test")}
POS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ")
POS += ("SYM", "VERB", "X")
RELATIONS = (
    "acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop",
    "csubj", "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "mark",
    "nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root", "vocative",
    "xcomp",
)  # fmt: skip
FARTHEST = 7
HEADS = ("root", *(f"{way}{n} {pos}" for way in "-+" for n in range(1, FARTHEST + 1) for pos in POS), "far")


def read_layer(folder: Path, split: str, *, layer: str) -> Iterator[Example]:
    """Sentences in file order with one tag per word. Ids are the file's, and ``group`` is the document."""
    path = pick(folder, FILES[split][0])
    tags, allowed = _LAYERS[layer]
    for line, name, document, words in sentences(path):
        gold = tags(words)
        if unknown := next((tag for tag in gold if tag not in allowed), None):
            raise malformed(path, line, f"{unknown!r:.40} in this sentence is not a tag of Universal Dependencies 2.")
        yield Example(id=name, inputs=tuple(word for word, *_ in words), gold=gold, group=document)


def _heads(words: Sequence[Word]) -> tuple[str, ...]:
    """The head of each word as a tag: direction, count of words with the head's part of speech up to the head, this
    part of speech."""
    found = []
    for place, (_, _, head, _) in enumerate(words):
        if not head:
            found.append("root")
            continue
        pos = words[head - 1][1]
        between = words[place + 1 : head] if head - 1 > place else words[head - 1 : place]
        count = sum(other == pos for _, other, *_ in between)
        found.append("far" if count > FARTHEST else f"{'+' if head - 1 > place else '-'}{count} {pos}")
    return tuple(found)


_LAYERS: dict[str, tuple[Callable[[Sequence[Word]], tuple[str, ...]], tuple[str, ...]]] = {
    "pos": (lambda words: tuple(pos for _, pos, *_ in words), POS),
    "relations": (lambda words: tuple(relation.partition(":")[0] for *_, relation in words), RELATIONS),
    "heads": (_heads, HEADS),
}
read = partial(read_layer, layer="pos")


@cache
def variant(layer: str) -> Task:
    """The task of one layer. "pos" is the default task."""
    if layer not in _LAYERS:
        raise UnknownTask(f"UD English EWT has no '{layer}'. Choices: {', '.join(_LAYERS)}.")
    what = {"pos": "parts of speech"}.get(layer, layer)
    return Task(
        name="ud_ewt" if layer == "pos" else f"ud_ewt-{layer}",
        title=f"UD English EWT {what}",
        form=Form.TAGGING,
        source=Source(
            citation="Silveira et al., 2014: A gold standard dependency corpus for English",
            licence="CC BY-SA 4.0",
            url="https://universaldependencies.org/treebanks/en_ewt/",
            survey="",
        ),
        folders=("ud_ewt", "UD_English-EWT"),
        files=FILES,
        read=read if layer == "pos" else partial(read_layer, layer=layer),
        metrics=(word_accuracy,),
        headline="accuracy",
        labels=_LAYERS[layer][1],
        report="test",
        extra={"alike": True},
    )


TASK = variant("pos")
