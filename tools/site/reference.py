#!/usr/bin/env python3
"""Writes the reference: a page for each public header, with each public name, its declaration and its comment.

    reference.py REPOSITORY FOLDER WORK     FOLDER: of the site's pages; WORK: for the files of Doxygen

The public headers are those that tests/docs/headers.py lists. A name that the headers declare and Doxygen has not read
is an error, and so is a name without a comment. What counts as a name and as its comment:

- Functions of one name in a class or namespace are one name. What is in a namespace detail, private or protected is no
  public name; nor is a special member or a comparison that is defaulted or deleted, nor a copy or move: the language says
  what these do, and a comment on one of them is not about the others of its name.
- A comment is before the declaration or after it on its line. That of a variable is about all variables of its
  declaration.
- The comment at the top of a header is about the names that its lines begin with. A specialisation has the comment of its
  template, the call operator of a function object that of its class, and the values of an enumeration that of the
  enumeration.
- The members that each operation has, and the class of the operation that a function returns, are described here once
  (OF_EACH_OPERATION).

Each name with a heading has the fixed sections of sections.py. An entry without them is an error.
"""

import pathlib
import re
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2] / "tests/docs")]

import declarations  # noqa: E402
import headers  # noqa: E402
import pages  # noqa: E402
import public_names  # noqa: E402
import sections  # noqa: E402
import usages  # noqa: E402

# What the members of every operation do, where their comment in the header says nothing.
OPERATION = re.compile(r"(?:.*::)?(\w+)_operation")
OF_EACH_OPERATION = {
    "output": "The type of what it returns when it is submitted.",
    "submit": "Submits its commands on the calling thread, and returns the output without waiting for the device. It costs "
              "the calls of `stream` for its commands and its memory, and the functions of the user that it calls.",
    "estimate": "The commands and bytes that submitting it adds; `zip` weighs branches by it. Takes time at most linear in the "
                "number of operations and tensors that it is made of.",
    "drive": "The host-driven form, as `docs/adding_a_combinator.md` describes it. It allocates the frame of a coroutine, and "
             "costs what submitting its parts costs.",
    "next_link": "What a long chain submits before this operation, as `docs/adding_a_combinator.md` describes it. Takes constant "
                 "time for each link.",
}

NOT_RUN = ("variable", "typedef", "concept", "enum", "enumvalue")
LEFT_TO_THE_LANGUAGE = re.compile(r"= (?:default|delete);$")

NAMES_AT_MARGIN = [
    re.compile(r"^(?:class|struct|union|enum class) (\w+)(?: final)?(?: :| \{|$)"),
    re.compile(r"^concept (\w+) ="),
    re.compile(r"^using (\w+) ="),
    re.compile(r"^(?![\s#/}]|static_assert|requires|template|friend|typedef)[\w:<>,*&\[\]. ]+[ *&](\w+)\((?!\*)"),
]


def escaped(text):
    """Prose as Markdown: outside of `code` no character has a meaning."""
    parts = re.split(r"(`[^`\n]*`)", text)
    for at in range(0, len(parts), 2):
        plain = parts[at].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
        parts[at] = re.sub(r"([\\*_\[\]])", r"\\\1", plain)
    return "".join(parts)


def as_sentence(text):
    """A comment after a declaration, which begins in lower case, as a sentence of its own."""
    if not re.match(r"(?:a(?= [a-z])|[a-z]{2,})(?! [=+*/<>-])(?:[ ,;]|$)", text) or "\n" in text:
        return text
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def with_links_to_pages(text, header):
    """`docs/errors.md` in a comment leads to that page."""
    up = "../" * (len(pathlib.PurePosixPath(header).parts) - 1)
    return re.sub(r"docs/[\w/\\]+\.md", lambda page: f"[{page[0]}]({up}{page[0].replace(chr(92), '')})", text)


def prose(comment, language="cpp"):
    """A comment as Markdown: lines that are indented by four are code."""
    result, code = [], False
    for line in comment.rstrip().split("\n"):
        is_code = line.startswith("    ") or (code and not line.strip())
        if is_code and not code:
            result += [*([""] if result and result[-1] else []), f"```{language}"]
        elif code and not is_code:
            result += close_code(result)
        code = is_code
        if code:
            result.append(line[4:])
        else:
            item = re.match(r"(?:[-*]|\d+\.) ", line)
            if item and result and result[-1].strip() and not re.match(r"(?:[-*]|\d+\.)? ", result[-1]):
                result.append("")
            result.append((item.group() if item else "") + escaped(line[item.end() if item else 0 :]))
    if code:
        result += close_code(result)
    return "\n".join(result).strip("\n")


def close_code(result):
    blank = []
    while result and not result[-1].strip():
        blank.append(result.pop())
    return ["```", ""]


def cell(text):
    return escaped(" ".join(text.split()))


def code_cell(text):
    code = " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "&#42;")
    return f"<code>{code}</code>"


def without_semicolon(text):
    return text[:-1] if text.endswith(";") else text


def top_comment(text):
    """The comment at the top of a header, without the line of its licence."""
    if text.startswith("/*"):
        lines = [re.sub(r"^ ?[/ ]\*+ ?", "", line) for line in text.partition("*/")[0].split("\n")]
    else:
        lines = []
        for line in text.split("\n"):
            if not line.startswith("//"):
                break
            lines.append(re.sub(r"^// ?", "", line))
    return "\n".join(line for line in lines if not line.startswith("SPDX-License-Identifier:")).strip("\n")


def is_named_at_the_top(name, text):
    """Whether the comment at the top of a header is about this name: `name: ...`, `name<T>: ...` or `name(...) ...`."""
    about = rf"^(?:[\w:<>]+, )*{re.escape(name.partition('<')[0])}(?:<[^>\n]*>)?(?:, [\w:<>]+)*(?:\([^)\n]*\))?(?::| and | )"
    return re.search(about, top_comment(text), re.MULTILINE) is not None


def of_an_operation(name, functions):
    """The comment of a class of operations, or of a member of one, that the header leaves to us. May be empty."""
    owner, _, member = name.partition("<")[0].rpartition("::")
    part = OPERATION.fullmatch(owner)
    if part and member == f"{part.group(1)}_operation":
        maker = f"`{part.group(1)}`" if part.group(1) in functions else "the function that returns this operation"
        return f"Called by {maker}. It costs the moves of its arguments, and the checks of which {maker} throws the errors."
    whole = OPERATION.fullmatch(name)
    if whole and whole.group(1) in functions:
        return f"The operation that `{whole.group(1)}` returns."
    return OF_EACH_OPERATION.get(member, "") if part else ""


def is_copy_or_move(declared):
    """Whether it is a constructor from, or an assignment of, another object of the class."""
    return re.search(r"\b(\w+)(?:& operator=|)\((?:const )?\1(?:<[^()]*>)?&&?(?: \w+)?\)[^()]*;$", declared) is not None


class header_page:
    """The page of one header."""

    def __init__(self, header, text, names, index=None):
        self.header = header
        self.index = index  # of the code that uses names
        self.text = text
        self.language = "c" if header.endswith(".h") else "cpp"
        self.names = names
        self.functions = {each.name for each in names if each.kind == "function"}
        self.classes = {each.name for each in names if each.kind in public_names.CLASSES}
        self.operations = {each.name for each in names if each.kind in public_names.CLASSES
                           and ("operation_base<" in self.declared(each) or OPERATION.fullmatch(each.name))}
        self.general, self.about = sections.parts_of_top(top_comment(text), [each.name for each in names])
        self.entries = 0
        self.silent = []  # names without a comment
        self.before = ("", "")  # the last function with a comment of its own
        self.sources = set()  # files to which examples lead
        self.left = set()  # headings that are left to the language
        self.lines = []

    def declared(self, name):
        return declarations.declaration(self.text, name.line, name.kind)

    def start_of(self, name):
        return declarations.start_of(self.text.split("\n"), name.line - 1)

    def comment_elsewhere(self, name):
        """For a name without a comment of its own. May be empty."""
        owner, _, member = name.rpartition("::")
        if owner not in self.classes and is_named_at_the_top(member, self.text):
            return "See the top of this page."
        if owner in self.operations and member in OF_EACH_OPERATION:
            return OF_EACH_OPERATION[member]
        return of_an_operation(name, self.functions)

    def comment_of_template(self, name):
        """For a specialisation: the comment of its template."""
        base = name.partition("<")[0]
        return next((each.comment for each in self.names if each.comment and each.name.partition("<")[0] == base), "")

    def count(self, name, has_comment):
        self.entries += 1
        if not has_comment:
            self.silent.append(f"include/{self.header}:{name.line}: {name.name}")

    def is_left_to_the_language(self, name):
        declared = self.declared(name)
        return LEFT_TO_THE_LANGUAGE.search(declared) is not None or is_copy_or_move(declared)

    def fence(self, texts):
        self.lines += [f"```{self.language}", *texts, "```", ""]

    def comment(self, text):
        if text:
            text = as_sentence(text).replace("the top of this file", "the top of this page")
            self.lines += [with_links_to_pages(prose(text, self.language), self.header), ""]

    def sections(self, name, kind, comment, declared, of_class="", ending="", gives_a_member=False):
        """The fixed sections below a declaration: of a "function", a "class", or what does not run ("data").
        `of_class`: the comment of the class that the name is in. `ending`: of a class, the comment of its destructor.
        `gives_a_member`: all that the functions do (declarations.only_gives_a_member)."""
        own = sections.sectioned(as_sentence(comment) if comment else "")
        self.comment(own[sections.WHAT])
        sections.add_destructor(own, as_sentence(ending) if ending else "")
        outer = name.rpartition("::")[0]
        inherited = [(f"Of `{outer}`", of_class)] if of_class else []
        if sections.THE_SAME.match(comment or "") and kind == "function":
            inherited.insert(0, self.before)
        elif kind == "function":
            # What is said of the name itself counts, also its first sentence.
            self.before = (f"As `{name.rpartition('::')[2]}` above", f"...\n\n{comment}")
        if name in self.about and self.about[name] != comment:
            inherited.append(("Of the header", self.about[name]))
        inherited.append(("Of the header", self.general))
        inherited += self.of_its_complexity(name, kind, comment, of_class)
        up = "../" * (len(pathlib.PurePosixPath(self.header).parts) - 1)
        uses = self.uses(name, kind, outer)
        self.sources |= {address for _, address in uses if ".md" not in address}
        rows = sections.rows(kind, self.language, declared, own, inherited,
                             lambda text: with_links_to_pages(cell(text), self.header), up, gives_a_member)
        examples = "; ".join(f"[{escaped(shown)}]({up}{usages.page_of(address)})" for shown, address in uses)
        rows.append((sections.EXAMPLE, examples or sections.NO_EXAMPLE))
        self.lines += ["| section | |", "| --- | --- |"]
        self.lines += [f"| {title} | {text} |" for title, text in rows] + [""]

    def of_its_complexity(self, name, kind, comment, of_class):
        """What else holds for the complexity of a function: [(title, comment)]."""
        outer, _, member = name.rpartition("::")
        if kind != "function":
            return []
        if member == "operator()" and not comment:
            return [(sections.OF_A_FUNCTION_OBJECT, f"...\n\n{of_class}")]
        if outer in self.operations and member in OF_EACH_OPERATION:
            return [(sections.OF_OPERATIONS, f"...\n\n{OF_EACH_OPERATION[member]}")]
        if outer not in self.classes and is_named_at_the_top(member, self.text):
            return [(sections.OF_THE_TOP, f"{self.about.get(name, '')}\n\n{self.general}")]
        return []

    def uses(self, name, kind, outer):
        if not self.index or not name:
            return []
        parts = re.sub(r"<.*?>", "", name).split("::")
        word = parts[-1]
        owner = parts[-2] if outer in self.classes and len(parts) > 1 else None
        if owner and (word == owner or not re.fullmatch(r"\w+", word)):
            return self.index.uses(parts[:-1], "class")  # a constructor, an operator
        if owner and kind == "function":
            # Operations are used without the name of their base.
            used = self.index.uses(parts, "member", None if owner == "operation_base" else owner, with_tests=False)
            return used or self.index.uses(parts[:-1], "class")
        return self.index.uses(parts, "word" if kind == "data" else kind)

    def heading(self, level, title):
        self.lines += [f"{'#' * level} {title.replace('<', '&lt;').replace('*', '&#42;')}", ""]

    def table(self, names, declared):
        self.lines += ["| member | what it is |", "| --- | --- |"]
        self.lines += [f"| {code_cell(declared(each))} | {cell(each.comment)} |" for each in names] + [""]

    def groups_of(self, names):
        """Functions of one name as [(declarations, comment, whether the language says what they do, whether they only give
        a data member)]."""
        groups, last = [], None
        for each in names:
            adjacent = last is not None and "\n\n" not in "\n".join(self.text.split("\n")[last - 1 : each.line])
            if not groups or each.comment or not adjacent:
                groups.append(([], "", True, True))
            texts, comment, is_left, gives = groups[-1]
            groups[-1] = ([*texts, self.declared(each)], each.comment or comment,
                          is_left and self.is_left_to_the_language(each),
                          gives and declarations.only_gives_a_member(self.text, each.line))
            last = each.line
        return groups

    def overloads(self, names, class_comment=""):
        """Functions of one name: each comment is below the declarations that it is about."""
        name = names[0].name
        kind = "data" if names[0].kind in NOT_RUN or is_plain_macro(self.declared(names[0])) else "function"
        groups = self.groups_of(names)
        speaks = any(comment for _, comment, is_left, _ in groups if not is_left)
        elsewhere = "" if speaks else self.comment_elsewhere(name) or self.comment_of_template(name)
        is_silent = not speaks
        for texts, comment, is_left, gives in groups:
            self.fence(texts)
            if is_left:
                self.comment(comment)
            elif comment or is_silent:
                self.sections(name, kind, comment or elsewhere, texts, class_comment, gives_a_member=gives)
                is_silent = False
        if all(is_left for _, _, is_left, _ in groups):
            self.left.add(name)
            self.entries += 1 if any(comment for _, comment, _, _ in groups) else 0
        else:
            self.count(names[0], speaks or elsewhere or (name.endswith("::operator()") and class_comment))

    def whole_class(self, name):
        self.heading(2, name.name)
        self.fence([self.declared(name)])
        comment = name.comment or self.comment_elsewhere(name.name) or self.comment_of_template(name.name)
        self.sections(name.name, "class", comment, [self.declared(name)], ending=name.ending)
        self.count(name, comment)
        data = [each for each in name.members if each.kind in ("variable", "typedef")]
        for each in data:
            together = (one.comment for one in data if one.comment and self.start_of(one) == self.start_of(each))
            each.comment = each.comment or self.comment_elsewhere(each.name) or next(together, "")
            self.count(each, each.comment)
        if any(each.comment for each in data):
            self.table(data, lambda each: without_semicolon(self.declared(each)))
        elif data:
            self.fence([self.declared(each) for each in data])
        whole = "\n\n".join(each for each in (name.comment, self.about.get(name.name)) if each)
        self.grouped([each for each in name.members if each not in data], 3, whole or comment)

    def enumeration(self, name, level):
        self.heading(level, name.name or ", ".join(each.name for each in name.members[:2]) + " ...")
        declared = self.declared(name)
        self.fence([declared])
        self.sections(name.name, "data", name.comment, [declared])
        self.count(name, name.comment or not name.name)
        for each in name.members:
            self.count(each, each.comment or name.comment)
        self.table(name.members, lambda each: each.name)

    def grouped(self, names, level, class_comment=""):
        by_name = {}
        for each in names:
            by_name.setdefault(each.name or f"line {each.line}", []).append(each)
        for title, group in by_name.items():
            if group[0].kind in public_names.CLASSES:
                for each in group:
                    self.whole_class(each)
            elif group[0].kind == "enum":
                self.enumeration(group[0], level)
            else:
                self.heading(level, title)
                self.overloads(group, class_comment)

    def markdown(self):
        self.lines = [f"# {pathlib.PurePosixPath(self.header).relative_to('sluice').as_posix()}".replace("_", "\\_"), ""]
        self.fence([f"#include <{self.header}>"])
        self.comment(top_comment(self.text))
        self.grouped(self.names, 2)
        return "\n".join(self.lines)


def outside_detail(text):
    """The lines of a header that are in no namespace detail."""
    inside, kept = False, []
    for line in text.split("\n"):
        if re.match(r"(?:inline )?namespace (?:[\w:]+::)?detail(?:::\w+)* \{|namespace std \{|namespace \{", line):
            inside = not line.endswith("}")
        if not inside:
            kept.append(line)
        if re.match(r"\}  // namespace (?:[\w:]+::)?(?:detail|std)\b|\}  // namespace$", line):
            inside = False
    return kept


def missing_names(text, names):
    """Names at the left margin of a header, hence of its namespace, that are not among these."""
    known = {each.name.split("::")[-1].partition("<")[0] for each in names}
    found = [match.group(1) for line in outside_detail(text) for pattern in NAMES_AT_MARGIN
             if (match := pattern.match(line))]
    return sorted({each for each in found if each not in known and each not in ("operator", "__launch_bounds__")})


def write(root, folder, work):
    listed = [header.as_posix() for header in headers.public_headers(root)]
    warnings = public_names.run_doxygen(root / "include", listed, work)
    names = public_names.read(work / "xml")
    texts = {header: (root / "include" / header).read_text(encoding="utf-8") for header in listed}
    everywhere = names + [one for each in names for one in each.members]
    problems, entries, silent = sections.problems_of_conventions(root), 0, []
    index, sources = usages.index(root), set()
    for header in listed:
        its = [each for each in names if each.file == header and not is_guard(each)]
        page = header_page(header, texts[header], its, index)
        file = folder / pages.reference_page(f"include/{header}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page.markdown() + "\n", encoding="utf-8")
        if re.search(r"^ *(?:private|protected):$", "\n".join(page.lines), re.MULTILINE):
            problems.append(f"include/{header}: a declaration was read beyond its end: see {file}")
        problems += [f"include/{header}: {each}" for each in sections.missing("\n".join(page.lines), page.left)]
        sources |= page.sources
        entries += page.entries
        silent += page.silent
        problems += [f"include/{header}: Doxygen has not read {name}" for name in missing_names(texts[header], everywhere)]
    site = pages.site_folder(root, folder)
    for source in sorted(sources):
        site.write_source(source)
    print(f"reference: {len(listed)} headers, {entries} names, of which {len(silent)} have no comment")
    problems += [f"{each} has no comment: write one in the header (tools/site/reference.py says what counts)"
                 for each in silent]
    return problems, warnings


def is_plain_macro(declared):
    """Whether it is a macro without arguments, which does not run."""
    return re.match(r"#\s*define \w+(?!\w|\()", declared) is not None


def is_guard(name):
    return name.kind == "define" and name.name.endswith("_H")


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    root, folder, work = (pathlib.Path(each).resolve() for each in arguments)
    problems, warnings = write(root, folder, work)
    (work / "warnings.log").write_text("\n".join(warnings) + "\n", encoding="utf-8")
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
