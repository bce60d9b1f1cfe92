"""Pictures of the microworld: shapes in three grey boxes, and statements about them.

Scenes have the layout of NLVR (`tasks.shapes`). A statement has a kind and the things it is about; it can be put into
words and tested on a scene. The corpus of captions has true statements for each scene. In the labelled data, each
statement comes with a scene for which it is true and one for which it is false, so its words do not reveal the label.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from ptmbench.tasks.shapes import BOXES, COLOURS, SIDE, SIZES, TYPES

NAMES = {"Yellow": "yellow", "Black": "black", "#0099ff": "blue"}
NUMBERS = ("zero", "one", "two", "three", "four")
CAPTIONS = 4
"""Captions per scene."""

Scene = list[list[dict[str, Any]]]
"""The objects of each box, as in NLVR's files."""


class SceneStatement(NamedTuple):
    """A statement about a scene. ``kind`` is "some", "none", "count" or "together". ``things`` are pairs of colour and
    type ("" for any type). ``number`` is used by the kind "count"."""

    kind: str
    things: tuple[tuple[str, str], ...]
    number: int = 0

    def in_words(self) -> str:
        """The statement in English, without a full stop."""
        if self.kind == "count":
            verb, noun = ("is", "object") if self.number == 1 else ("are", "objects")
            return f"there {verb} exactly {NUMBERS[self.number]} {self.things[0][0]} {noun}"
        if self.kind == "none":
            return f"there is no {' '.join(self.things[0])}"
        things = " and ".join(f"a {colour} {kind}" for colour, kind in self.things)
        return f"there is {things}" if self.kind == "some" else f"there is a box with {things}"

    def holds(self, scene: Scene) -> bool:
        """Whether the statement is true of ``scene``."""
        seen = [[(NAMES[one["color"]], one["type"]) for one in box] for box in scene]
        if self.kind == "count":
            return sum(colour == self.things[0][0] for box in seen for colour, _ in box) == self.number
        if self.kind == "some":
            return all(any(thing in box for box in seen) for thing in self.things)
        together = any(all(thing in box for thing in self.things) for box in seen)
        return together == (self.kind == "together")


def scene(rng: random.Random) -> Scene:
    """One to three objects in each box, which do not touch each other."""
    return [_box(rng, rng.randint(1, 3)) for _ in range(BOXES)]


def _box(rng: random.Random, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        size = rng.choice(SIZES)
        x, y = rng.randint(0, SIDE - size), rng.randint(0, SIDE - size)
        if all(
            _do_not_touch(x, one["x_loc"], size, one["size"]) or _do_not_touch(y, one["y_loc"], size, one["size"])
            for one in found
        ):
            shape = {"type": rng.choice(TYPES), "color": rng.choice(COLOURS), "size": size}
            found.append({"y_loc": y, "x_loc": x, **shape})
    return found


def _do_not_touch(one: int, other: int, size: int, others: int) -> bool:
    return one + size < other or other + others < one


def statement(rng: random.Random) -> SceneStatement:
    """A random statement. Two in five say that a thing exists. The others say that there is none, count things, or say
    that two things are in the same box."""
    kind = rng.choice(("some", "some", "none", "count", "together"))
    if kind == "count":
        return SceneStatement(kind, ((rng.choice(list(NAMES.values())), ""),), rng.randint(1, len(NUMBERS) - 1))
    things = {(rng.choice(list(NAMES.values())), rng.choice(TYPES)): None for _ in range(1 + (kind == "together"))}
    return SceneStatement("some" if kind == "together" and len(things) == 1 else kind, tuple(things))


def caption_scenes(rng: random.Random, count: int) -> Iterator[tuple[Scene, list[str]]]:
    """Yields ``count`` scenes, each with different captions that are true of it."""
    for _ in range(count):
        there, captions = scene(rng), dict[str, None]()
        while len(captions) < CAPTIONS:
            one = statement(rng)
            if one.holds(there):
                captions[one.in_words()] = None
        yield there, list(captions)


def labelled_rows(rng: random.Random, rows: int) -> Iterator[tuple[str, str, Scene, str]]:
    """Yields (identifier, sentence, scene, label) for ``rows`` rows. Each statement has one scene per label, in random
    order."""
    for number in range(rows):
        if number % 2 == 0:
            one, order = statement(rng), rng.sample((True, False), 2)
        truth = order[number % 2]
        there = next(found for found in _scenes(rng) if one.holds(found) == truth)
        yield f"{number // 2}-{number % 2}", one.in_words(), there, str(truth).lower()


def _scenes(rng: random.Random) -> Iterator[Scene]:
    while True:
        yield scene(rng)
