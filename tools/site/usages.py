"""Where the examples, the pages and the tests use a name of the reference: found by searching their code for it.

A class is used where its name is before a variable, `<`, `{`, `(`, `&`, `*` or `::`; a function where it is called or
passed on as `f(name)`; a member where a file that uses its class has `.name` or `->name` before `(`. A name of a
namespace inside sluice needs this namespace in the same file. A file that declares the name itself does not count, nor
does what follows `std::`. Comments and strings are no code.
"""

import collections
import pathlib
import re

SUFFIXES = {".cu", ".cpp", ".hpp", ".c"}
MOST = 3  # links for one name
NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|^\s*#\s*include[^\n]*", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
BLOCK_OF_CODE = re.compile(r"^```(?:cpp|c|cuda)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NO_TYPE = {"return", "co_return", "co_await", "co_yield", "else", "new", "throw", "case", "do", "typename", "template", "const"}


def uses_of(code):
    """{identifier: how it is used}: "class", "function", "member", "declared"; and all words of the code."""
    code = NOT_CODE.sub(lambda text: " " + "\n" * text.group().count("\n"), code)
    found = collections.defaultdict(set)
    last = ""
    end = 0
    for word in WORD.finditer(code):
        name, between = word.group(), code[end : word.start()]
        after = code[word.end() :].lstrip()[:2] if code[word.end() : word.end() + 1].isspace() else code[word.end() : word.end() + 2]
        before = between.rstrip()[-2:]
        next_one = after[:1]
        if before.endswith(".") or before == "->":
            if next_one in ("(", "<"):
                found[name].add("member")
        elif before == "::" and last == "std":
            pass
        else:
            is_after_word = not between.strip() and last not in NO_TYPE and last != ""
            if next_one in ("(", "{", "=", ";") and is_after_word:
                found[name].add("declared")
            elif next_one in ("(", "<") or (before.endswith("(") and next_one == ")"):
                found[name].add("function")
            if (next_one in ("<", "{", "(", "&", "*") or after == "::" or next_one.isalpha() or next_one == "_") and not is_after_word:
                found[name].add("class")
            if last in ("struct", "class") and is_after_word:
                found[name].add("declared")
        found[name].add("word")
        last, end = name, word.end()
    return found


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def page_of(address):
    """The page of the site for such an address: a source file has a copy."""
    return address if ".md" in address else f"source/{address}.md"


class index:
    """Of the code of a repository. A place is (what a link shows, address from the root of the site, uses)."""

    def __init__(self, root):
        self.examples = [self.file(root, path) for path in self.sources(root / "examples")]
        self.pages = []
        for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
            if page.is_file():
                self.pages += self.sections(page, page.relative_to(root).as_posix())
        self.tests = [self.file(root, path) for path in self.sources(root / "tests") if "docs" not in path.parts]

    @staticmethod
    def sources(folder):
        return [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES]

    @staticmethod
    def file(root, path):
        name = path.relative_to(root).as_posix()
        return name, name, uses_of(path.read_text(encoding="utf-8"))

    @staticmethod
    def sections(page, path):
        """A page by its headings, those that have code. The code of the whole page says which classes it uses."""
        text = page.read_text(encoding="utf-8")
        blank = re.sub(r"^```.*?^```$", lambda code: re.sub(r"[^\n]", " ", code.group()), text, flags=re.DOTALL | re.MULTILINE)
        headings = list(HEADING.finditer(blank))
        found = []
        for at, heading in enumerate(headings):
            end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
            code = "\n".join(BLOCK_OF_CODE.findall(text[heading.start() : end]))
            if code:
                title = heading.group(1).replace("`", "")
                found.append((title, f"{path}#{slug(heading.group(1))}" if at else path, uses_of(code)))
        return found

    def uses(self, name, kind, owner=None, with_tests=True):
        """The places that use this name (its parts, without sluice::): a "class", a "function", a "member" or a "word".
        Tests count where neither an example nor a page uses it."""
        word, scopes = name[-1].partition("<")[0], [each for each in name[:-1] if each != owner]
        found = []
        for places, most in ((self.examples, MOST - 1), (self.pages, MOST), (self.tests if with_tests else [], 1)):
            for place in places:
                if len(found) >= most:
                    break
                how = place[2].get(word, ())
                if (kind in how and "declared" not in how and all(scope in place[2] for scope in scopes)
                        and (owner is None or "class" in place[2].get(owner, ()))):
                    found.append(place)
        return [(shown, address) for shown, address, _ in found]
