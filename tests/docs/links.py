#!/usr/bin/env python3
"""Checks that links between pages lead somewhere.

    links.py REPOSITORY      prints each link to a file or a heading that does not exist, and fails
    links.py --self-test     plants mistakes in a temporary tree and checks that each is found

The pages are *.md in the root, in docs, in tests and in bench/notes, and README.md of the other folders. Links to other sites are not followed.
"""

import pathlib
import re
import sys
import tempfile

import checking

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\n]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages(root):
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted((root / "bench/notes").glob("*.md"))
    yield from sorted((root / "tests").rglob("*.md"))
    for folder in ("bench/results", "data", "examples", "models"):
        yield from sorted((root / folder).glob("README.md"))


def anchors(page):
    """The names that headings have as link targets: lower case, spaces as hyphens, without punctuation."""
    text = CODE.sub(lambda code: "" if "\n" in code.group() else code.group(), page.read_text("utf-8"))
    headings = HEADING.findall(text)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def problems(root):
    found = []
    for page in pages(root):
        text = page.read_text("utf-8")
        blank = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)
        for link in LINK.finditer(blank):
            address, _, heading = link.group(1).partition("#")
            place = f"{page.relative_to(root)}:{blank.count(chr(10), 0, link.start()) + 1}"
            target = page.parent / address if address else page
            if "://" in address or address.startswith("mailto:"):
                continue
            if not target.exists():
                found.append(f"{place}: no such file: {address}")
            elif heading and target.suffix == ".md" and heading not in anchors(target):
                found.append(f"{place}: no such heading: {link.group(1)}")
    return found


def self_test():
    healthy = (
        "# One\n\n[a](docs/b.md#two-words) [site](https://example.org/x) `[](int)` [here](#one)\n"
        "```\n[x](y)\n```\n"
    )
    planted = {
        "healthy": (healthy, None),
        "file": (healthy.replace("b.md", "c.md"), "no such file"),
        "heading": (healthy.replace("two-words", "three"), "no such heading"),
        "space": (healthy.replace("#two-words", "#two words"), "no such heading"),
        "own heading": (healthy.replace("#one", "#two-words"), "no such heading"),
    }
    failures = []
    for name, (text, reason) in planted.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "README.md").write_text(text)
            (root / "docs" / "b.md").write_text("# B\n\n## Two `words`\n\n[back](../README.md)\n")
            found = problems(root)
        if (reason is None and found) or (reason and (len(found) != 1 or reason not in found[0])):
            failures.append(f"{name}: found {found}")
    return failures


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems, self_test))
