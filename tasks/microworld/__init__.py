"""The embedded default data: a small artificial world, described in English and in an invented language, in the
official formats of real data sets.

``make`` writes a data folder that the readers of `tasks` can read: a corpus, a parallel corpus of sentences with their
translations and, for every form of task, labelled files. The same (seed, sizes) gives the same bytes on any machine.
The modules, from the facts to the files:

    meaning     the meaning of a sentence       lexicon    the words, in a shown and a held half
    world       facts                           speech     sentences about them
    grammar     meaning to English              mowari     meaning to the invented language
    documents   both corpora                    judgements, pairs, reading, opinions    labelled items
    writers     the official formats

The data benchmark the machinery, not language: a score may be compared only with other scores on the same version.
"""

from ptmbench.tasks.microworld.build import DEMO, VERSION, Sizes, make

__all__ = ["DEMO", "VERSION", "Sizes", "make"]
