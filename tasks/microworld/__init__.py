"""The embedded default data: a small world, told in English and in an invented language, in the official formats of
real data sets.

``make`` writes a data folder that the readers of `tasks` take for the real ones: a corpus, a parallel corpus of
sentences with their translations and, for every form of task, labelled files. The same (seed, sizes) gives the same
bytes on any machine. From the facts to the files:

    meaning     what a sentence says           lexicon    the words, in a shown and a held half
    world       facts                          speech     sentences about them
    grammar     meaning to English             mowari     meaning to the invented language
    documents   both corpora                   judgements, pairs, reading, opinions    what is labelled
    writers     the official formats

It is no benchmark of language, only of the machinery: a score on it may be compared with other scores on the same
version of it.
"""

from ptmbench.tasks.microworld.build import DEMO, VERSION, Sizes, make

__all__ = ["DEMO", "VERSION", "Sizes", "make"]
