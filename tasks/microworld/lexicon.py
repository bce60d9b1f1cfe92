"""The words of the microworld: a closed English vocabulary, and names built from syllables.

Every list is divided into two halves by position. The labelled training splits use the even half, *shown*. Most dev and
test items use the odd half, *held*. The corpus uses both, so a model sees most content words of the test items only
during pre-training. This is why pre-training helps, as it does for rare words in real tasks.
"""

import random
from dataclasses import dataclass, fields
from functools import cached_property

from ptmbench.tasks.microworld.meaning import Kind, Name, Noun, Verb

_NOUNS = {
    Kind.PERSON: "singer poet sailor farmer teacher baker painter judge miller smith doctor weaver",
    Kind.PLACE: "village town city island valley harbour",
    Kind.BUILDING: "tower bridge mill temple school castle",
    Kind.WORK: "song novel play poem ballad opera",
    Kind.ANIMAL: "wolf horse goat owl fox hound",
    Kind.PART: "voice plot ending melody scene verse",
    Kind.GROUP: "guild union league order",
}
_GOOD = (
    "good lovely bright gentle clever graceful warm tender noble honest charming brilliant "
    "pleasant witty sweet elegant radiant lively joyful superb"
)
_BAD = (
    "bad dull ugly cruel clumsy stale gloomy cold harsh foolish tedious bitter "
    "shallow dreary hollow awkward grim vulgar boring awful"
)
_PLAIN = "old small large new tall quiet"
_LIKE = "praise love admire enjoy like cherish"
_HATE = "blame hate mock dislike scorn reject"
_NEUTRAL = "visit greet describe support protect mention surprise rescue"
_ALONE = "arrive laugh wait dance travel smile sleep shiver"
_IRREGULAR = {  # lemma: past, participle
    "sleep": ("slept", "slept"),
    "ring": ("rang", "rung"),
    "write": ("wrote", "written"),
    "teach": ("taught", "taught"),
    "find": ("found", "found"),
    "lie": ("lay", "lain"),
    "fall": ("fell", "fallen"),
    "rise": ("rose", "risen"),
    "break": ("broke", "broken"),
    "freeze": ("froze", "frozen"),
    "dry": ("dried", "dried"),
    "stay": ("stayed", "stayed"),
}
_PLURALS = {"wolf": "wolves", "person": "people"}

_ONSETS = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "kr", "tr", "st"]
_ENDS = {
    "f": ["a", "ia", "ela", "ina", "essa"],
    "m": ["o", "en", "ar", "ik", "us"],
    "surname": ["mor", "vel", "dan", "sky", "holt", "rin"],
    "place": ["burg", "vale", "mere", "stad", "ora", "wick"],
    "title": ["iad", "eon", "yss", "une", "arch", "ium"],
}


def _third(lemma: str) -> str:
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return lemma[:-1] + "ies"
    return lemma + ("es" if lemma.endswith(("s", "sh", "ch", "x")) else "s")


def verb(lemma: str, *, transitive: bool = False, valence: int = 0) -> Verb:
    """A verb with all its forms. It is regular unless listed as irregular."""
    regular = lemma + ("d" if lemma.endswith("e") else "ed")
    past, participle = _IRREGULAR.get(lemma, (regular, regular))
    return Verb(lemma, _third(lemma), past, participle, transitive, valence)


def noun(lemma: str, kind: Kind) -> Noun:
    return Noun(lemma, _PLURALS.get(lemma) or _third(lemma), kind)


BE = Verb("be", "is", "was", "been", False)
WRITE, TEACH = verb("write", transitive=True), verb("teach", transitive=True)
FOUND, FIND = Verb("found", "founds", "founded", "founded", True), verb("find", transitive=True)
BEAR = Verb("bear", "bears", "bore", "born", True)
LIVE, WORK, LIE = verb("live"), verb("work"), verb("lie")
CLASSES = {kind: noun(kind.value, kind) for kind in Kind if kind is not Kind.EVENT}
"""The hypernyms: every singer is a person, every tower is a building."""
EVERYONE, NOBODY = noun("everyone", Kind.PERSON), noun("nobody", Kind.PERSON)

_CAUSES = (  # noun verb noun verb
    "rain fall river rise",
    "river rise bridge break",
    "storm arrive ship stay",
    "snow fall road close",
    "well dry garden wither",
    "fire burn roof fall",
    "harvest fail market close",
    "lamp break room darken",
    "bell ring crowd gather",
    "wind turn boat drift",
    "spring arrive flower open",
    "king return flag rise",
    "sun vanish star appear",
    "moon rise tide turn",
    "frost arrive lake freeze",
    "thunder roll dog bark",
)


@dataclass(frozen=True, kw_only=True)
class Lexicon:
    """Content words by class. ``shown()`` and ``held()`` are its two disjoint halves."""

    nouns: tuple[Noun, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    plain: tuple[str, ...]
    likes: tuple[Verb, ...]
    hates: tuple[Verb, ...]
    neutral: tuple[Verb, ...]
    alone: tuple[Verb, ...]
    women: tuple[str, ...]
    men: tuple[str, ...]
    surnames: tuple[str, ...]
    places: tuple[Name, ...]
    groups: tuple[Name, ...]
    titles: tuple[Name, ...]
    causes: tuple[tuple[Noun, Verb, Noun, Verb], ...]
    """(noun, verb, noun, verb): if the first noun does what its verb says, the second one does, too."""

    @cached_property
    def _chosen(self) -> dict[tuple[Kind, ...], tuple[Noun, ...]]:
        return {}

    def of(self, *kinds: Kind) -> tuple[Noun, ...]:
        """The nouns of these kinds. Cached, because building a corpus calls this a hundred thousand times."""
        if kinds not in self._chosen:
            self._chosen[kinds] = tuple(n for n in self.nouns if n.kind in kinds)
        return self._chosen[kinds]

    @cached_property
    def valence(self) -> dict[str, int]:
        """+1 for a positive adjective, -1 for a negative one."""
        return dict.fromkeys(self.good, 1) | dict.fromkeys(self.bad, -1)

    def judged(self, valence: int) -> tuple[str, ...]:
        return self.good if valence > 0 else self.bad

    def feelings(self, valence: int) -> tuple[Verb, ...]:
        return self.likes if valence > 0 else self.hates

    def shown(self) -> "Lexicon":
        return Lexicon(**{f.name: getattr(self, f.name)[0::2] for f in fields(self)})

    def held(self) -> "Lexicon":
        return Lexicon(**{f.name: getattr(self, f.name)[1::2] for f in fields(self)})


def lexicon(seed: int) -> Lexicon:
    """The whole vocabulary. Only the names depend on ``seed``."""
    rng = random.Random(f"microworld/names/{seed}")
    taken: set[str] = set()
    nouns = {kind: tuple(noun(w, kind) for w in words.split()) for kind, words in _NOUNS.items()}
    surnames = _names(rng, "surname", 24, taken)
    # A third of the places and half of the groups have the name of a family: only the context shows their type.
    towns = [*_names(rng, "place", 16, taken), *surnames[1:17:2]]
    rng.shuffle(towns)
    groups = [(stem, nouns[Kind.GROUP][i % 4]) for i, stem in enumerate([*surnames[0:12:2], *towns[:6]])]
    places = tuple(Name((t,), "LOC", "n", nouns[Kind.PLACE][i % 6]) for i, t in enumerate(towns))
    titles = tuple(
        Name((t,), "MISC", "n", nouns[Kind.WORK][i % 6]) for i, t in enumerate(_names(rng, "title", 24, taken))
    )
    return Lexicon(
        nouns=tuple(n for kind in nouns for n in nouns[kind]),
        good=tuple(_GOOD.split()),
        bad=tuple(_BAD.split()),
        plain=tuple(_PLAIN.split()),
        likes=tuple(verb(w, transitive=True, valence=1) for w in _LIKE.split()),
        hates=tuple(verb(w, transitive=True, valence=-1) for w in _HATE.split()),
        neutral=tuple(verb(w, transitive=True) for w in _NEUTRAL.split()),
        alone=tuple(verb(w) for w in _ALONE.split()),
        women=tuple(_names(rng, "f", 24, taken)),
        men=tuple(_names(rng, "m", 24, taken)),
        surnames=tuple(surnames),
        places=places,
        groups=tuple(Name((stem, kind.lemma.capitalize()), "ORG", "n", kind) for stem, kind in groups),
        titles=titles,
        causes=tuple(
            (noun(a, Kind.EVENT), verb(does), noun(b, Kind.EVENT), verb(follows))
            for a, does, b, follows in (rule.split() for rule in _CAUSES)
        ),
    )


def _names(rng: random.Random, end: str, count: int, taken: set[str]) -> list[str]:
    """``count`` new names of the form onset-vowel-onset-ending. ``taken`` holds all names in use, and is updated."""
    names: list[str] = []
    while len(names) < count:
        name = rng.choice(_ONSETS) + rng.choice("aeiou") + rng.choice(_ONSETS[:14]) + rng.choice(_ENDS[end])
        if name not in taken:
            taken.add(name)
            names.append(name.capitalize())
    return names
