#!/usr/bin/env python3
"""Copies the pages of the repository into a folder from which MkDocs builds the site.

    pages.py REPOSITORY FOLDER      writes the pages, the pictures that they show, and a page for each source file that
                                    a page links to; fails when a link leads nowhere

The copies lie as in the repository, so links between pages stay as they are. A link to a public header leads to its
page of the reference, if FOLDER/reference has it (write the reference first). A link to another source file leads to a
copy of the file in FOLDER/source; one to a folder becomes its path.
"""

import html
import os
import pathlib
import re
import shutil
import sys
import textwrap

PAGE_FOLDERS = ("bench/results", "data", "models")  # whose README.md is a page
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".cu": "cuda", ".cuh": "cuda", ".h": "c", ".c": "c", ".py": "python",
             ".txt": "text", ".json": "json", ".yml": "yaml"}
PICTURES = {".svg", ".png", ".jpg"}
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def repository_pages(root):
    """The paths of all pages, relative to the root of the repository."""
    found = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))
    found += [root / folder / "README.md" for folder in PAGE_FOLDERS if (root / folder / "README.md").is_file()]
    return [path.relative_to(root).as_posix() for path in found]


def reference_page(header):
    """The page of a public header, relative to the folder of the site: include/sluice/a/b.hpp -> reference/a/b.md."""
    return pathlib.PurePosixPath("reference", *pathlib.PurePosixPath(header).parts[2:]).with_suffix(".md").as_posix()


def outside_code(text):
    """The text with all code replaced by spaces, so that positions stay."""
    return CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)


def with_wide_lists(text):
    """MkDocs wants the contents of list items indented by four spaces; GitHub accepts two or three."""
    lines, in_list, fenced = [], False, False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        indent = len(line) - len(line.lstrip(" "))
        if not fenced and line.strip():
            if ITEM.match(line):
                in_list = True
            elif indent == 0 and lines and not lines[-1].strip():
                in_list = False
        if in_list and not fenced and 2 <= indent <= 6 and not ITEM.match(line):
            line = " " * (4 if indent <= 4 else 8) + line.lstrip(" ")
        lines.append(line)
    return "\n".join(lines)


def with_plain_escapes(text):
    """MkDocs does not know the escape of `<` that GitHub has."""
    blank = outside_code(text)
    parts, end = [], 0
    for escape in re.finditer(r"\\<", blank):
        parts += [text[end : escape.start()], "&lt;"]
        end = escape.end()
    return "".join(parts) + text[end:]


def with_code_at_the_margin(text):
    """Excerpts from inside functions lose the indentation that they have there."""
    return re.sub(r"^(```\w+\n)(.*?)(^```$)", lambda code: code[1] + textwrap.dedent(code[2]) + code[3], text,
                  flags=re.DOTALL | re.MULTILINE)


class site_folder:
    def __init__(self, root, folder):
        self.root = root
        self.folder = folder
        self.pages = set(repository_pages(root))
        self.problems = []
        self.sources = set()
        self.pictures = set()

    def target(self, page, address):
        """Where a link leads: a path in the site, or None for what has no page. Notes what has to be copied."""
        path = os.path.normpath(os.path.join(os.path.dirname(page), address))
        file = self.root / path
        if path.startswith("..") or not file.exists():
            self.problems.append(f"{page}: no such file: {address}")
            return None
        if path in self.pages:
            return path
        if file.suffix in PICTURES:
            self.pictures.add(path)
            return path
        if file.is_dir():
            return f"{path}/README.md" if f"{path}/README.md" in self.pages else None
        if path.startswith("include/") and (self.folder / reference_page(path)).is_file():
            return reference_page(path)
        if file.suffix in LANGUAGES or file.suffix == "":
            self.sources.add(path)
            return f"source/{path}.md"
        return None

    def rewritten(self, page, text):
        """The text of a page with links that lead somewhere in the site."""
        blank = outside_code(text)
        result, end = [], 0
        for link in LINK.finditer(text):
            # The link itself is not code, though its text may be.
            address_at = link.start(3)
            if "://" in link.group(3) or link.group(3).startswith(("#", "mailto:")) or blank[address_at] == " ":
                continue
            address, _, heading = link.group(3).partition("#")
            target = self.target(page, address)
            shown = link.group(2)
            if target:
                where = os.path.relpath(target, os.path.dirname(page) or ".")
                replacement = f"{link.group(1)}[{shown}]({where}{'#' + heading if heading else ''})"
            else:
                path = os.path.normpath(os.path.join(os.path.dirname(page), address))
                replacement = shown if path in shown else f"{shown} (`{path}`)"
            result += [text[end : link.start()], replacement]
            end = link.end()
        return "".join(result) + text[end:]

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def write_source(self, path):
        text = (self.root / path).read_text(encoding="utf-8")
        language = LANGUAGES.get(pathlib.Path(path).suffix, "bash" if text.startswith("#!") else "text")
        fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
        name = html.escape(path)
        self.write(f"source/{path}.md",
                   f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{fence}{language}\n{text}\n{fence}\n")

    def write_all(self):
        for page in sorted(self.pages):
            text = (self.root / page).read_text(encoding="utf-8")
            self.write(page, self.rewritten(page, with_code_at_the_margin(with_plain_escapes(with_wide_lists(text)))))
        for path in sorted(self.sources):
            self.write_source(path)
        for path in sorted(self.pictures):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / path, self.folder / path)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    site = site_folder(pathlib.Path(arguments[0]), pathlib.Path(arguments[1]))
    site.write_all()
    for line in site.problems:
        print(line, file=sys.stderr)
    return 1 if site.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
