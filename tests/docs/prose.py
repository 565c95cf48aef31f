#!/usr/bin/env python3
"""Checks the sentences of README.md, ARCHITECTURE.md, CONTRIBUTING.md and the pages in docs.

    prose.py REPOSITORY      prints each sentence of more than 40 words, each "is no ...", each word of the house that a
                             page uses without a link to its meaning, and whether the pages are too long, and fails
    prose.py --self-test     checks that such sentences and words are found

A paragraph, an item of a list and a cell of a table each begin a sentence. Code counts as one word, links as their text;
names with commas between them are not a sentence. The pages that people write have at most 58,000 words of text together:
what is added takes the place of something. Code and the marks of tables do not count.
"""

import re
import sys

import checking

LONGEST, MOST = 40, 58_000
FENCE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.DOTALL | re.MULTILINE)
BEGINS = re.compile(r"^ *(?:[-*] |\d+\. |#+ |\|)|^ *$")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+|[;:]\s+")
# "is no X" where "is not a valid X", "has no X" or another verb says what is meant.
IS_NO = re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|other\b|fewer\b|faster\b|larger\b|slower\b)")
# Words that mean something particular here, and what a link to their meaning has in its text. Not looked for where a page
# explains them: the glossary itself.
HOUSE = {word: re.compile(rf"\b{word}\b", re.IGNORECASE) for word in ("waist", "rooms?", "stretch(?:es)?", "lanes?")}
GLOSSARY = re.compile(r"glossary\.md|waist\.md|ARCHITECTURE\.md|networks\.md")
LISTS = {"docs/headers.md"}  # made from names
MADE = LISTS | {"docs/operators.md", "docs/exported_networks.md", "docs/coverage.md"}  # by programs
EXPLAINS = {"docs/glossary.md", "docs/design/waist.md", "ARCHITECTURE.md", "docs/design/networks.md"}
# Rooms that are none of the house: memory, a place for results.
OTHER = re.compile(r"makes? room|leaves? room|room was made|\bhave room\b|\bhas room\b|room for\b|host_buffer<float> room|`[^`]*`", re.IGNORECASE)


def blocks(text):
    """(line, paragraph, item or cell), in order, without code and comments."""
    blank = FENCE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)
    begin, part = 1, []
    for number, line in enumerate(blank.splitlines() + [""], start=1):
        if BEGINS.match(line) and part:
            yield begin, " ".join(part)
            part = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.strip("| ").split(" | "))
        elif line.strip():
            if not part:
                begin = number
            part.append(line.strip())


def sentences(block):
    plain = re.sub(r"`[^`]*`", "code", LINK.sub(r"\1", block))
    return [each for each in END.split(plain) if each]


def words(sentence):
    return [each for each in sentence.split() if re.search(r"\w", each)]


def is_list(sentence):
    """Whether it is names with commas between them."""
    return 2 * sentence.count(", ") > len(words(sentence))


def words_of_text(text):
    return sum(len([each for each in line.split() if each != "|"]) for line in FENCE.sub("", text).splitlines())


def problems(name, text):
    if name in LISTS:
        return
    for line, block in blocks(text):
        for sentence in sentences(block):
            if len(words(sentence)) > LONGEST and not is_list(sentence):
                yield f"{name}:{line}: {len(words(sentence))} words: {sentence[:60]}..."
            found = IS_NO.search(sentence)
            if found:
                yield f"{name}:{line}: '{sentence[found.start():][:40]}': say what it is not, or what is missing"
    if name in EXPLAINS:
        return
    blank = FENCE.sub("", text)
    linked = " ".join(link.group(1) for link in LINK.finditer(blank) if GLOSSARY.search(link.group()))
    prose = OTHER.sub("", LINK.sub(r"\1", re.sub(r"`[^`]*`", "", blank)))
    for word, pattern in HOUSE.items():
        found = pattern.search(prose)
        if found and not pattern.search(linked):
            yield f"{name}: '{found.group()}' has no link to its meaning (glossary.md)"


def pages(root):
    yield from (root / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"))
    yield from sorted((root / "docs").rglob("*.md"))


def self_test():
    healthy = ("# A page\n\n" + "One two three. " * 30 + "\n\n- " + "four " * 39 + "\n- five\n\n| " + "six " * 30 + "| " + "seven " * 30 +
               "|\n\n```\n" + "eight " * 50 + "\n```\n\nThere is no such thing, and it is no longer. The [room](glossary.md) has `no room`, a room.\n")
    planted = {"healthy": ("", None), "long": ("word " * 41, "41 words"), "long item": ("- " + "word " * 41, "41 words"),
               "two lines": ("word " * 21 + "\n" + "word " * 21, "42 words"), "no": ("It is no tensor.", "'is no tensor."),
               "house": ("A lane.", "'lane' has no link"), "others": ("It makes room for all.", None), "names": ("one, " * 50, None)}
    missed = [] if words_of_text("a b | c\n```\nd\n```\n<!-- e -->\n") == 3 else ["the words of a text"]
    for name, (text, reason) in planted.items():
        found = list(problems("p.md", healthy + "\n" + text + "\n"))
        if (reason is None and found) or (reason and (len(found) != 1 or reason not in found[0])):
            missed.append(f"{name}: found {found}")
    return missed


def problems_of(root):
    texts = {page.relative_to(root).as_posix(): page.read_text(encoding="utf-8") for page in pages(root)}
    for name, text in texts.items():
        yield from problems(name, text)
    total = sum(words_of_text(text) for name, text in texts.items() if name not in MADE)
    if total > MOST:
        yield f"the pages have {total} words of text: at most {MOST}. Shorten what you extend, or another page"


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems_of, self_test))
