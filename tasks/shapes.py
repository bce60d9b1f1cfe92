"""Drawn shapes as regions of a picture, for `tasks.nlvr` and the microworld's scenes.

A picture is three grey boxes side by side, 100 pixels wide and high, with gaps of 50 pixels. Each box contains objects
``{"x_loc", "y_loc", "type", "color", "size"}``: the left and top edge within the box, the type and the colour, and the
height and width. Each object is a region. Its features are 16 numbers:

    0-2    triangle, square, circle: 1 for its type
    3-5    yellow, black, blue: 1 for its colour
    6-8    size 10, 20, 30: 1 for its size
    9-11   1 for its box
    12-15  left, top, right, bottom edge as fractions of the box
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TYPES = ("triangle", "square", "circle")
COLOURS = ("Yellow", "Black", "#0099ff")
SIZES = (10, 20, 30)
BOXES = 3
FEATURES = len(TYPES) + len(COLOURS) + len(SIZES) + BOXES + 4

SIDE, STRIDE = 100, 150
"""In pixels: the side of a box, and the distance between the left edges of two neighbouring boxes."""
WIDTH = (BOXES - 1) * STRIDE + SIDE


def mistake(found: Any) -> str:
    """Describes what is wrong with an object of a box, as read from a file. "" for a valid object."""
    if not isinstance(found, dict):
        return f"an object is {found!r:.60}."
    for key, known in (("type", TYPES), ("color", COLOURS), ("size", SIZES)):
        if found.get(key) not in known or isinstance(found[key], bool):
            return f'the "{key}" of an object is {found.get(key)!r:.60}, none of {", ".join(map(str, known))}.'
    for key in ("x_loc", "y_loc"):
        place = found.get(key)
        if isinstance(place, bool) or not isinstance(place, int | float) or not 0 <= place <= SIDE - found["size"]:
            return f'the "{key}" of an object of size {found["size"]} is {place!r:.60}, outside its box.'
    return ""


def regions(boxes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, np.ndarray]:
    """The channels ``regions`` [R, 16] and ``boxes`` [R, 4] of a picture, one row per object."""
    features, places = [], []
    for number, box in enumerate(boxes):
        for one in box:
            edges = np.array([one["x_loc"], one["y_loc"]] * 2, np.float32) + np.array([0, 0, 1, 1]) * one["size"]
            kinds = ((one["type"], TYPES), (one["color"], COLOURS), (one["size"], SIZES), (number, range(BOXES)))
            features.append([float(value == kind) for value, known in kinds for kind in known] + list(edges / SIDE))
            places.append((edges + np.array([STRIDE * number, 0] * 2)) / np.array([WIDTH, SIDE] * 2))
    return {
        "regions": np.array(features, np.float32).reshape(-1, FEATURES),
        "boxes": np.array(places, np.float32).reshape(-1, 4),
    }
