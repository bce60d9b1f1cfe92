"""Aspects, opinions and polarities of reviews (survey, section 7.3): seven subtasks as sequences of word numbers.

Yan et al., 2021: A unified generative framework for aspect-based sentiment analysis, ACL ("BARTABSA"). The reviews come
from SemEval 2014 to 2016, annotated by Wang et al. (2017: D17), Fan et al. (2019: D19), Peng et al. (2020: D20a) and Xu
et al. (2020: D20b). Licence: none stated, for research. Official files: the authors' ``*_convert.json``, a list of
``{raw_words, words, aspects: [{index, from, to, polarity, term}], opinions: [{index, from, to, term}]}``; ``to`` is
past the last word, an empty ``term`` means none, and in D20 the aspect and the opinion of one ``index`` are a pair.

"absa-SUBTASK-DOMAIN" is a subtask on 14lap, 14res, 15res or 16res; "absa" is absa-triplet-14lap.

=======  =========  ===========================================  ===============================================
subtask  data       a tuple                                      example
=======  =========  ===========================================  ===============================================
ae, oe   wang       an aspect; an opinion                        a sentence
alsc     wang       a polarity                                   a sentence and one of its aspects, which is given
aoe      fan        an opinion                                   as for alsc
aesc     pengb      an aspect and its polarity                   a sentence
pair     pengb      an aspect and its opinion                    a sentence
triplet  pengb      an aspect, its opinion and the polarity      a sentence
=======  =========  ===========================================  ===============================================

"absa-triplet-penga-14lap" is the subtask triplet on D20a instead of D20b. Aspects without a polarity, or with "CON"
(conflicting opinions), are left out. D19 has no polarities and no dev split. Its training file has an entry for each
opinion of an aspect; these entries are joined, as the authors do. The authors' values for alsc use aspects that the
same model has predicted. Here the aspect is given, as the paper defines the subtask.
"""

from functools import cache, partial

from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.tuples import tuple_f1
from ptmbench.tasks.opinions import LABELS, read
from ptmbench.tasks.task import Source, Task, UnknownTask

PATTERNS = {
    "ae": ("span",), "oe": ("span",), "alsc": ("class",), "aoe": ("span",), "aesc": ("span", "class"),
    "pair": ("span", "span"), "triplet": ("span", "span", "class"),
}  # fmt: skip
DATA = {"ae": ("wang",), "oe": ("wang",), "alsc": ("wang",), "aoe": ("fan",)}
DOMAINS = ("14lap", "14res", "15res", "16res")
_D20 = ("pengb", "penga")


@cache
def variant(way: str) -> Task:
    """The task of a "subtask-domain" or "subtask-data-domain". Raises `UnknownTask` if there is none."""
    subtask, *source, domain = way.split("-") if "-" in way else (way, "")
    known = DATA.get(subtask, _D20)
    source = source[0] if len(source) == 1 else known[0] if not source else ""
    absent = source == "wang" and domain == "16res"
    if subtask not in PATTERNS or source not in known or domain not in DOMAINS or absent:
        raise UnknownTask(
            f"There is no task 'absa-{way}'. Subtasks are {', '.join(PATTERNS)}, domains {', '.join(DOMAINS)} (ae, oe "
            "and alsc: without 16res), as in absa-ae-14lap or absa-triplet-penga-14lap."
        )
    splits = ("train", "test") if source == "fan" else ("train", "dev", "test")
    plain = f"{subtask}-{domain}" if source == known[0] else f"{subtask}-{source}-{domain}"
    return Task(
        version=2,  # since the new decoder is initialised with the variance of Glorot and Bengio
        name="absa" if plain == "triplet-14lap" else f"absa-{plain}",
        title=f"ABSA {subtask} ({source} {domain})",
        form=Form.POINTING,
        source=Source(
            citation="Yan et al., 2021: A unified generative framework for aspect-based sentiment analysis",
            licence="none stated, for research",
            url="https://github.com/yhcc/BARTABSA",
            survey="7.3",
        ),
        folders=(f"BARTABSA/data/{source}/{domain}", f"absa/{source}/{domain}"),
        files={split: (f"{split}_convert.json",) for split in splits},
        read=partial(read, subtask),
        metrics=(tuple_f1,),
        headline="f1",
        labels=LABELS if "class" in PATTERNS[subtask] else (),
        report="test",
        extra={"pattern": PATTERNS[subtask], "most": 1 if subtask == "alsc" else None},
    )


TASK = variant("triplet-14lap")
