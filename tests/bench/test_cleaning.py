"""Cleaning of distributed text: novels, typed books, WikiText."""

from ptmbench.bench.data import cleaning


def test_a_novel_is_split_at_its_chapters():
    chapter = ["word " * 150 + "end."] * 2
    lines = ["CHAPTER I.", *chapter, "Zweites Kapitel", *chapter, "CHAPITRE PREMIER", *chapter, "7", *chapter]
    documents = list(cleaning.novel(f"{line}\n" for line in lines))
    assert documents == [["word " * 150 + "end."] * 2] * 4


def test_a_table_of_contents_does_not_start_a_document():
    lines = ["CHAPTER I", "The Beginning.", "CHAPTER II", "The End.", "CHAPTER I", "word " * 300]
    assert len(list(cleaning.novel(lines))) == 1


def test_long_text_without_chapters_is_split_into_equal_parts():
    lines = [f"Paragraph {number} " + "word " * 98 for number in range(110)]
    documents = list(cleaning.novel(lines))
    assert [paragraph for document in documents for paragraph in document] == [line.strip() for line in lines]
    sizes = [sum(len(paragraph.split()) for paragraph in document) for document in documents]
    assert len(sizes) == 3 and max(sizes) <= cleaning.LONGEST and max(sizes) - min(sizes) <= 100


def test_punctuation_marks_are_normalised():
    lines = [
        "\u201cDon\u2019t,\u201d said he\u00a0--- `no\u00b4 . . .\n",
        "* * *\n",
        "a\u0300 co\u00adop \u2010 x , y\n",
    ]
    # The last line begins with a lower-case letter, but the first paragraph has ended.
    assert list(cleaning.novel(lines)) == [["\"Don't,\" said he \u2014 'no' ...", "\u00e0 coop - x, y"]]


def test_a_paragraph_continues_after_a_page_break():
    lines = ["The covers that hang from\n", "her beam shine like\n", "Venice.\n", "so it was.\n"]
    assert list(cleaning.novel(lines)) == [["The covers that hang from her beam shine like", "Venice.", "so it was."]]


def test_wrapped_lines_become_paragraphs():
    text = [
        "\ufeffIt was the best of times, it was the",
        "worst of times, it wouldn't  be the age",
        "of wisdom, or would it? He said so.",
        "\fFoolishness came after it, and it was",
        "the season of light, wasn't . It ended.",
        "",
        "It was the season of darkness for all.",
    ]
    assert list(cleaning.book(f"{line}\n" for line in text)) == [
        [
            "It was the best of times, it was the worst of times, it wouldn't be the age of wisdom, or would it? He "
            "said so.",
            "Foolishness came after it, and it was the season of light, wasn't. It ended.",
            "It was the season of darkness for all.",
        ]
    ]


def test_a_sentence_that_ends_at_a_full_line_does_not_end_the_paragraph():
    text = ["One two three four five six seven eight.", "Nine ten eleven twelve thirteen and then"]
    assert list(cleaning.book([*text, "fourteen."])) == [[f"{text[0]} {text[1]} fourteen."]]


def test_books_with_one_paragraph_per_line_are_kept_as_they_are():
    lines = ["A short one.", "word " * 60 + "end.", "Another."]
    assert list(cleaning.book(lines)) == [[line.strip() for line in lines]]


def test_wikitext_articles_are_detokenised():
    lines = [
        " \n",
        " = First title = \n",
        " \n",
        " Their 17 @-@ match run cost $ 2 @,@ 500 @.@ 5 ( or less ) ; York 's fans don 't mind \" it \" . \n",
        " \n",
        " = = Section = = \n",
        " \n",
        " In 2013 – 14 , <unk> won . \n",
        ' An odd " quote . \n',
        " \n",
        " = Second title = \n",
        " \n",
        " More . \n",
    ]
    assert list(cleaning.articles(lines)) == [
        [
            "Their 17-match run cost $2,500.5 (or less); York's fans don't mind \"it\".",
            "In 2013–14, <unk> won.",
            'An odd " quote.',
        ],
        ["More."],
    ]
