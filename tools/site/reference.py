#!/usr/bin/env python3
"""Writes the reference: a page for each public header, with each public name, its declaration and its comment.

    reference.py REPOSITORY FOLDER WORK     FOLDER: of the site's pages; WORK: for the files of Doxygen

The public headers are those that tests/docs/headers.py lists. A name that the headers declare and Doxygen has not read
is an error, and so is a name without a comment. What counts as a name and as its comment:

- Functions of one name in a class or namespace are one name. What is in a namespace detail, private or protected is no
  public name; nor is a special member or a comparison that is defaulted or deleted, nor a copy or move: the language says
  what these do.
- A comment is before the declaration or after it on its line. That of a variable is about all variables of its
  declaration.
- The comment at the top of a header is about the names that its lines begin with. A specialisation has the comment of its
  template, the call operator of a function object that of its class, and the values of an enumeration that of the
  enumeration.
- The members that each operation has, and the class of the operation that a function returns, are described here once
  (OF_EACH_OPERATION).
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

# What the members of every operation do, where their comment in the header says nothing.
OPERATION = re.compile(r"(?:.*::)?(\w+)_operation")
OF_EACH_OPERATION = {
    "output": "The type of what it returns when it is submitted.",
    "submit": "Submits its commands on the calling thread, and returns the output without waiting for the device.",
    "estimate": "The commands and bytes that submitting it adds; `zip` weighs branches by it.",
    "drive": "The host-driven form, as `docs/adding_a_combinator.md` describes it.",
    "next_link": "What a long chain submits before this operation, as `docs/adding_a_combinator.md` describes it.",
}

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
        return f"Called by {maker}."
    whole = OPERATION.fullmatch(name)
    if whole and whole.group(1) in functions:
        return f"The operation that `{whole.group(1)}` returns."
    return OF_EACH_OPERATION.get(member, "") if part else ""


def is_copy_or_move(declared):
    """Whether it is a constructor from, or an assignment of, another object of the class."""
    return re.search(r"\b(\w+)(?:& operator=|)\((?:const )?\1(?:<[^()]*>)?&&?(?: \w+)?\)[^()]*;$", declared) is not None


class header_page:
    """The page of one header."""

    def __init__(self, header, text, names):
        self.header = header
        self.text = text
        self.language = "c" if header.endswith(".h") else "cpp"
        self.names = names
        self.functions = {each.name for each in names if each.kind == "function"}
        self.classes = {each.name for each in names if each.kind in public_names.CLASSES}
        self.operations = {each.name for each in names if each.kind in public_names.CLASSES
                           and ("operation_base<" in self.declared(each) or OPERATION.fullmatch(each.name))}
        self.entries = 0
        self.silent = []  # names without a comment
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

    def heading(self, level, title):
        self.lines += [f"{'#' * level} {title.replace('<', '&lt;').replace('*', '&#42;')}", ""]

    def table(self, names, declared):
        self.lines += ["| member | what it is |", "| --- | --- |"]
        self.lines += [f"| {code_cell(declared(each))} | {cell(each.comment)} |" for each in names] + [""]

    def overloads(self, names, class_comment=""):
        """Functions of one name: each comment is below the declarations that it is about."""
        texts, comment, last = [], "", None
        for each in names:
            adjacent = last is not None and "\n\n" not in "\n".join(self.text.split("\n")[last - 1 : each.line])
            if texts and (each.comment or not adjacent):
                self.fence(texts)
                self.comment(comment)
                texts, comment = [], ""
            texts.append(self.declared(each))
            comment = each.comment or comment
            last = each.line
        if not any(each.comment for each in names):
            comment = self.comment_elsewhere(names[0].name) or self.comment_of_template(names[0].name)
        self.fence(texts)
        self.comment(comment)
        is_call = names[0].name.endswith("::operator()") and class_comment
        if comment or any(each.comment or not self.is_left_to_the_language(each) for each in names):
            self.count(names[0], comment or is_call or any(each.comment for each in names))

    def whole_class(self, name):
        self.heading(2, name.name)
        self.fence([self.declared(name)])
        comment = name.comment or self.comment_elsewhere(name.name) or self.comment_of_template(name.name)
        self.comment(comment)
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
        self.grouped([each for each in name.members if each not in data], 3, comment)

    def enumeration(self, name, level):
        self.heading(level, name.name or ", ".join(each.name for each in name.members[:2]) + " ...")
        declared = self.declared(name)
        self.fence([declared])
        self.comment(name.comment)
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
    problems, entries, silent = [], 0, []
    for header in listed:
        its = [each for each in names if each.file == header and not is_guard(each)]
        page = header_page(header, texts[header], its)
        file = folder / pages.reference_page(f"include/{header}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page.markdown() + "\n", encoding="utf-8")
        if re.search(r"^ *(?:private|protected):$", "\n".join(page.lines), re.MULTILINE):
            problems.append(f"include/{header}: a declaration was read beyond its end: see {file}")
        entries += page.entries
        silent += page.silent
        problems += [f"include/{header}: Doxygen has not read {name}" for name in missing_names(texts[header], everywhere)]
    print(f"reference: {len(listed)} headers, {entries} names, of which {len(silent)} have no comment")
    problems += [f"{each} has no comment: write one in the header (tools/site/reference.py says what counts)"
                 for each in silent]
    return problems, warnings


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
