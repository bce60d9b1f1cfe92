"""Test helpers for the board: a parsed page, and a run folder of made-up records."""

import html.parser
import re

from ptmbench.leaderboard.records.record import write


class Page(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text outside scripts and styles."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.words, self.skipping = [], [], None
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.skipping = tag if tag in ("script", "style") else self.skipping

    def handle_endtag(self, tag):
        self.skipping = None if tag == self.skipping else self.skipping

    def handle_data(self, data):
        if not self.skipping:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def run(folder, records):
    for one in records:
        write(folder, one)
    return folder
