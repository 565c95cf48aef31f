#!/usr/bin/env python3
"""Checks the parts of the documentation site (tools/site) that need neither network nor MkDocs.

    site.py navigation REPOSITORY    each page of the repository has one place in the navigation
    site.py links REPOSITORY         each link of the site's pages leads to a page and a heading of the site
    site.py headers REPOSITORY       each public header has a page of its own in the reference, in a room with a title
    site.py reference REPOSITORY     Doxygen reads each public name, and each has a comment (tools/site/reference.py says
                                     what counts); exits with 77 where there is no Doxygen
    site.py --self-test              plants mistakes, and fails unless each is found
"""

import pathlib
import re
import shutil
import sys
import tempfile

SITE = pathlib.Path(__file__).parents[2] / "tools/site"
sys.path[:0] = [str(SITE), str(pathlib.Path(__file__).parent)]

import comment_filter  # noqa: E402
import declarations  # noqa: E402
import headers  # noqa: E402
import links  # noqa: E402
import navigation  # noqa: E402
import pages  # noqa: E402
import public_names  # noqa: E402
import reference  # noqa: E402
import sections  # noqa: E402
import usages  # noqa: E402


def navigation_problems(listed, present):
    found = [f"tools/site/navigation.py does not list {page}" for page in present if page not in listed]
    found += [f"tools/site/navigation.py lists {page}, which is no page" for page in listed if page not in present]
    found += [f"tools/site/navigation.py lists {page} twice" for page in sorted(set(listed)) if listed.count(page) > 1]
    return found


def header_problems(public_headers, rooms):
    found, taken = [], {}
    for header in public_headers:
        page = pages.reference_page(f"include/{header.as_posix()}")
        if page in taken:
            found.append(f"{header} and {taken[page]} have the same page of the reference: {page}")
        taken[page] = header
        room = header.parts[1] if len(header.parts) > 2 else ""
        if room not in rooms:
            found.append(f"{header}: its room has no title in tests/docs/headers.py (ROOMS)")
    shown = [page for _, entries in navigation.rooms_of_headers(public_headers, rooms) for page in entries]
    found += [f"the navigation does not show {page}" for page in taken if page not in shown]
    return found


def link_problems(root):
    """Of the pages as the site has them. The pages of the reference are empty here: their text needs Doxygen."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for header in headers.public_headers(root):
            page = folder / pages.reference_page(f"include/{header.as_posix()}")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(f"# {header}\n")
        site = pages.site_folder(root, folder)
        site.write_all()
        found = list(site.problems)
        for page in sorted(site.pages):
            text = (folder / page).read_text(encoding="utf-8")
            for link in links.LINK.finditer(pages.outside_code(text)):
                address, _, heading = link.group(1).partition("#")
                if "://" in address or address.startswith("mailto:"):
                    continue
                target = (folder / page).parent / address if address else folder / page
                if not target.is_file():
                    found.append(f"{page}: the site has no {address}")
                elif heading and target.suffix == ".md" and heading not in links.anchors(target):
                    found.append(f"{page}: no such heading: {link.group(1)}")
        return found


def reference_problems(root):
    if not shutil.which("doxygen"):
        print("skipped: Doxygen is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        found = silent_names()
        if found != SILENT:
            return [f"of the names that are planted without a comment, the reference finds {found}, not {SILENT}"]
        return reference.write(root, folder / "pages", folder / "work")[0]


# Which names need a comment: those that begin with silent have none.
COMMENTED = """// A header.
#pragma once

namespace sluice {

// Sizes.
class box {
public:
    box() = default;
    box(const box&) = delete;
    box(box&& other) noexcept;
    box& operator=(box&&) noexcept;
    friend bool operator==(const box&, const box&) = default;

    int silent_alone() const;

    // Of the box, in elements.
    int rows() const {
        return 1;
    }
    int silent_next() const;
    // Another.
    int depth() const;

    int silent_apart() const;
    int noted() const;  // with a comment
    int silent_after() const;

    int width = 0, height = 0;  // in elements
    int silent_data = 0;

private:
    int hidden() const;
};

// The same with a name.
template <typename T>
struct named {};
template <>
struct named<int> {
    // Calls.
    struct call {
        int operator()(int x) const;
    };
};

// Warm or not.
enum class colour { red, blue };
enum class silent_colour { grey };

namespace detail {
int inside();
}  // namespace detail

#define SLUICE_ONE 1  // one
#define SILENT_TWO 2
}  // namespace sluice
"""
SILENT = ["SILENT_TWO", "grey", "silent_after", "silent_alone", "silent_apart", "silent_colour", "silent_data",
          "silent_next"]
HEADER = """// A header.
#pragma once

namespace sluice {
namespace detail {
int hidden(int x);
}  // namespace detail

// Adds,
// with `care`.
template <typename T>
T add(T a, T b = {1}) {
    return a + b;
}

struct point {
    int x = 0;  // across
    point(int at) : x(at) {}
};
}  // namespace sluice
"""
XML = """<doxygen><compounddef kind="namespace"><compoundname>sluice</compoundname><sectiondef kind="func">
<memberdef kind="function" prot="public"><name>add</name><argsstring>(T a)</argsstring><briefdescription/>
<detaileddescription><para><verbatim>Adds,
/// with `care`. </verbatim></para></detaileddescription><location file="sluice/a.hpp" line="12"/></memberdef>
</sectiondef></compounddef><compounddef kind="struct" prot="public"><compoundname>sluice::point</compoundname>
<sectiondef kind="public-attrib"><memberdef kind="variable" prot="public"><name>x</name><briefdescription/>
<detaileddescription><para><verbatim>across </verbatim></para></detaileddescription>
<location file="sluice/a.hpp" line="17"/></memberdef><memberdef kind="variable" prot="private"><name>y_</name>
<location file="sluice/a.hpp" line="18"/></memberdef></sectiondef><briefdescription/><detaileddescription/>
<location file="sluice/a.hpp" line="16"/></compounddef><compounddef kind="namespace">
<compoundname>sluice::detail</compoundname><sectiondef kind="func"><memberdef kind="function" prot="public">
<name>hidden</name><location file="sluice/a.hpp" line="6"/></memberdef></sectiondef></compounddef></doxygen>"""
PAGE = """# a.hpp

```cpp
#include <sluice/a.hpp>
```

A header.

## add

```cpp
template <typename T>
T add(T a, T b = {1});
```

Adds,
with `care`.

| section | |
| --- | --- |
| shapes and units | [By convention](../docs/conventions.md#shapes-and-units). |
| owner | [By convention](../docs/conventions.md#owner). |
| thread or stream | The calling thread ([by convention](../docs/conventions.md#thread-or-stream)). |
| blocks? | No ([by convention](../docs/conventions.md#blocks)). |
| errors | `std::bad_alloc`, and what the caller's code throws ([by convention](../docs/conventions.md#errors)). |
| complexity | No promise ([by convention](../docs/conventions.md#complexity)). |
| example | Not in the examples, the pages or the tests. |

## point

```cpp
struct point;
```

| section | |
| --- | --- |
| shapes and units | Its members say ([by convention](../docs/conventions.md#shapes-and-units)). |
| owner | A value: its holder owns it ([by convention](../docs/conventions.md#owner)). |
| thread or stream | One thread at a time, or several that call `const` members ([by convention](../docs/conventions.md#thread-or-stream)). |
| blocks? | Its destructor does not ([by convention](../docs/conventions.md#blocks)). |
| errors | Its members say ([by convention](../docs/conventions.md#errors)). |
| complexity | Its members say ([by convention](../docs/conventions.md#complexity)). |
| example | Not in the examples, the pages or the tests. |

| member | what it is |
| --- | --- |
| <code>int x = 0</code> | across |
"""


def silent_names():
    """Those of COMMENTED, as Doxygen and reference.py find them."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        header = "sluice/a.hpp"
        (folder / "include/sluice").mkdir(parents=True)
        (folder / "include" / header).write_text(COMMENTED)
        public_names.run_doxygen(folder / "include", [header], folder / "work")
        page = reference.header_page(header, COMMENTED, public_names.read(folder / "work/xml"))
        page.markdown()
        return sorted(each.rpartition(": ")[2].rpartition("::")[2] for each in page.silent)


# A comment, and in which sections its sentences are.
SECTIONED = """Copies `n.a` rows to the device. It keeps them alive. Throws errc::shape_mismatch on another thread.
Blocks until a thread is free. Any thread may call it, which throws nothing. Called twice, it does so twice.
But not a third time. See:

    copy(x);  // Throws.

- one: waits
- two"""
IN_SECTIONS = {
    sections.WHAT: """Copies `n.a` rows to the device. Called twice, it does so twice. But not a third time. See:

    copy(x);  // Throws.

- one: waits
- two""",
    sections.SHAPES: ["Copies `n.a` rows to the device."],
    sections.OWNER: ["It keeps them alive."],
    sections.THREAD: ["Any thread may call it, which throws nothing."],
    sections.BLOCKS: ["Blocks until a thread is free.", "one: waits"],
    sections.ERRORS: ["Throws errc::shape_mismatch on another thread.", "Any thread may call it, which throws nothing."],
    sections.COMPLEXITY: [],
}
TOP = """box<T>, crate: own elements. They block.

Thread safety: none.

lid(x): closes it. Throws."""


def section_failures(check):
    check("sections of a comment", sections.sectioned(SECTIONED), IN_SECTIONS)
    general, about = sections.parts_of_top(TOP, ["box", "crate", "lid", "other"])
    check("the top of a header", (general, about), (
        "...\n\nThread safety: none.",
        {"box": "box<T>, crate: own elements. They block.", "crate": "box<T>, crate: own elements. They block.",
         "lid": "lid(x): closes it. Throws."}))

    def row(section, declared, comment="", inherited=()):
        rows = sections.rows("function", "cpp", [declared], sections.sectioned(comment), list(inherited), str, "")
        return dict(rows)[section].partition(" (")[0]

    def errors(declared, comment="", inherited=()):
        return row(sections.ERRORS, declared, comment, inherited)

    rest = " The rest: [by convention](docs/conventions.md#complexity)."
    for comment, inherited, expected in (
            ("", [("Of `box`", "A box. It allocates. All members take constant time.")],
             f"Of `box`: All members take constant time.{rest}"),
            ("", [("Of `box`", "A box. It allocates.")], "No promise"),
            ("", [("As `f` above", "...\n\nA lid. Linear in its size.")], f"As `f` above: Linear in its size.{rest}"),
            ("A lid. Linear in its size.", [("Of `box`", "A box. All members take constant time.")], "Linear in its size.")):
        check(f"the complexity of {comment!r} in {inherited}", row(sections.COMPLEXITY, "int f();", comment, inherited),
              expected)

    for title, above, expected in (
            (sections.OF_THE_TOP, "f: a lid.\n\nIt costs\none look. Blocks.", f"As the top says: It costs\none look.{rest}"),
            (sections.OF_THE_TOP, "f: a lid.\n\nIt is faster than g, and costs less.", "No promise"),
            (sections.OF_A_FUNCTION_OBJECT, "...\n\nIt costs one look.", f"As its class says: It costs one look.{rest}")):
        inherited = [(title, above)]
        check(f"the complexity from {above!r}", row(sections.COMPLEXITY, "int f();", "", inherited), expected)
        check(f"the blocking from {above!r}", row(sections.BLOCKS, "int f();", "", inherited), "No")

    gives = sections.rows("function", "cpp", ["int f() const;"], sections.sectioned(""), [], str, "", True)
    check("the complexity of what gives a member", dict(gives)[sections.COMPLEXITY].partition(" (")[0],
          "Constant time: it gives a member")

    of_class = [("Of `box`", "A box. Throws errc::a when it is full.")]
    for declared, comment, inherited, expected in (
            ("int f() const noexcept;", "", of_class, "None: `noexcept`."),
            ("int f() noexcept(true);", "", of_class,
             "Of `box`: Throws errc::a when it is full. The rest: [by convention](docs/conventions.md#errors)."),
            ("int f();", "Throws errc::b.", of_class, "Throws errc::b."),
            ("int f(int x);", "", [], "`std::bad_alloc`, and what the caller's code throws"),
            ("int f(stream on);", "", [], "Those of what submits commands"),
            ("auto f(tensor<T> x);", "", [], "Those of what submits commands"),
            ("SLUICE_KERNEL int f();", "", [], "None: code of kernels throws nothing")):
        check(f"the errors of {declared}", errors(declared, comment, inherited), expected)
    own = sections.sectioned("Owns threads.")
    sections.add_destructor(own, "Ends them. Blocks.")
    check("a destructor", (own[sections.OWNER], own[sections.BLOCKS]),
          (["Owns threads.", "The destructor: Ends them."], ["The destructor: Blocks."]))

    check("a page with its sections", sections.missing(PAGE), [])
    without = PAGE.replace("| owner | [By convention](../docs/conventions.md#owner). |\n", "")
    check("a name without an owner", [each.partition(":")[0] for each in sections.missing(without)],
          ["add has other sections than the fixed ones"])
    empty = re.sub(r"^\| errors \|.*$", "| errors |  |", PAGE, count=1, flags=re.MULTILINE)
    check("a name with an empty section", len(sections.missing(empty)), 1)
    check("a name without sections", sections.missing("## a\n\n```cpp\nint a();\n```\n\nText.\n"), ["a lacks its sections"])
    check("a name that is left to the language", sections.missing("## a\n\nText.\n", {"a"}), [])


def usage_failures(check):
    code = """#include "fill.hpp"
// fill(x)
const char* text = "fill(x)";
void own(int x) { box<int> b(1); std::copy(b); nn::load(b); b.size(); crates.each(fill); stream.wait(); }
"""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "examples").mkdir()
        (root / "tests").mkdir()
        (root / "docs").mkdir()
        (root / "examples/a.cu").write_text(code)
        (root / "tests/a_tests.cpp").write_text("int x = tested(1) + fill(2);")
        (root / "docs/p.md").write_text("# P\n\n## Two `words`\n\n```cpp\nfill(box{});\n```\n\n## Three\n\nfill(x)\n")
        index = usages.index(root)
        example, page, test = (("examples/a.cu",) * 2, ("Two words", "docs/p.md#two-words"), ("tests/a_tests.cpp",) * 2)
        for name, kind, owner, expected in (
                (["box"], "class", None, [example, page]), (["fill"], "function", None, [example, page]),
                (["copy"], "function", None, []), (["nn", "load"], "function", None, [example]),
                (["io", "load"], "function", None, []), (["own"], "function", None, []),
                (["box", "size"], "member", "box", [example]), (["stream", "wait"], "member", "stream", []),
                (["tested"], "function", None, [test])):
            check(f"the uses of {'::'.join(name)}", index.uses(name, kind, owner), expected)


def self_test():
    failures = []

    def check(name, found, expected):
        if found != expected:
            failures.append(f"{name}: {found!r} instead of {expected!r}")

    def finds(name, found, part):
        if len(found) != 1 or part not in found[0]:
            failures.append(f"{name}: found {found}")

    check("navigation", navigation_problems(["a", "b"], ["b", "a"]), [])
    finds("a page without a place", navigation_problems(["a"], ["a", "b"]), "does not list b")
    finds("a place without a page", navigation_problems(["a", "b"], ["a"]), "lists b, which is no page")
    finds("a page with two places", navigation_problems(["a", "a"], ["a"]), "lists a twice")

    path = pathlib.Path
    rooms = {"": "The library", "op": "op: operations"}
    check("headers", header_problems([path("sluice/a.hpp"), path("sluice/op/a.hpp")], rooms), [])
    finds("a room without a title", header_problems([path("sluice/no/a.hpp")], rooms), "has no title")
    finds("two headers", header_problems([path("sluice/a.h"), path("sluice/a.hpp")], rooms), "the same page")

    for text, expected in (("int f(int (*g)(int), int x = {}) const {\n", "int f(int (*g)(int), int x = {}) const;"),
                           ("a(int x) : x_(x) {}\n", "a(int x);"), ("int x{3};  // three\n", "int x{3};"),
                           ("void f()\nrequires(B)\n{\n    int x;\n}\n", "void f()\nrequires(B);"),
                           ("void f()\nrequires requires(T t) { t.x(); }\n{\n", "void f()\nrequires requires(T t) { t.x(); };")):
        kind = "variable" if "x{" in text else "function"
        check(f"declaration of {text!r}", declarations.declaration("}\n" + text, 2, kind), expected)
    after_quotes = 'int f();  // "f"\nint g();\n'
    check("a declaration after a comment with quotes", declarations.declaration(after_quotes, 2, "function"), "int g();")
    for text, expected in (
            ("const std::string& name() const noexcept { return name_; }  // of it", True),
            ("std::size_t size() const { return all_.size(); }", True), ("device* on() const {\n    return on_.get();\n}", True),
            ("std::vector<int> all() const { return all_; }", False), ("std::string name() const { return name_; }", False),
            ("int top() const { return its_->limits.top; }", True),
            ("unsigned short port() const { return its_.port_; }", True), ("int top() const { return its_->top(); }", False),
            ("std::vector<int> all() const { return its_->all; }", False), ("int up() const { return its_.limits.up(); }", False),
            ("int next() { return ++at_; }", False), ("int size() const { return sum(all_); }", False),
            ("int size() const;", False), ("int* find() const;\n    int* top() const { return top_; }", False), ("const int& at(int i) const { return all_[i]; }", False),
            ("box(int x) : x_(x) {}", False)):
        check(f"whether it only gives a member: {text}", declarations.only_gives_a_member("}\n" + text + "\n", 2), expected)

    top = "// SPDX-License-Identifier: x\n// zip<T>, first: some of them.\n// It uses last.\n#pragma once\n"
    for name, expected in (("zip", True), ("first", True), ("last", False), ("fir", False)):
        check(f"the top about {name}", reference.is_named_at_the_top(name, top), expected)
    for name, expected in (("zip_operation", "The operation that `zip` returns."), ("other_operation", ""),
                           ("zip_operation::zip_operation",
                            "Called by `zip`. It costs the moves of its arguments, and the checks of which `zip` throws the errors."), ("zip::submit", ""),
                           ("zip_operation::estimate", reference.OF_EACH_OPERATION["estimate"])):
        check(f"the comment of {name}", reference.of_an_operation(name, {"zip"}), expected)

    for text, expected in (("extents, in elements", "Extents, in elements."), ("of a row", "Of a row."),
                           ("drain(0)", "drain(0)"), ("x", "x"), ("out = x", "out = x"), ("See it.", "See it."), ("two\nlines", "two\nlines")):
        check(f"the sentence of {text!r}", reference.as_sentence(text), expected)
    for text, expected in (("box(const box&);", True), ("box& operator=(box&& other) noexcept;", True),
                           ("explicit box(int x);", False), ("box(crate&& from);", False), ("void box(box x);", False)):
        check(f"a copy or move: {text}", reference.is_copy_or_move(text), expected)
    section_failures(check)
    usage_failures(check)
    page = reference.header_page("sluice/a.hpp", "// lid, box: closes.\n//\n// It costs one look.\n", [])
    page.classes, page.operations, page.about = {"box", "lid_operation"}, {"lid_operation"}, {"lid": "lid: closes."}
    page.general = "...\n\nIt costs one look."
    for name, comment, expected in (
            ("lid", "", [(sections.OF_THE_TOP, "lid: closes.\n\n...\n\nIt costs one look.")]), ("box::lid", "", []), ("shut", "", []),
            ("box::operator()", "", [(sections.OF_A_FUNCTION_OBJECT, "...\n\nA box.")]), ("box::operator()", "Calls.", []),
            ("lid_operation::estimate", "One.", [(sections.OF_OPERATIONS, f"...\n\n{reference.OF_EACH_OPERATION['estimate']}")])):
        check(f"of the complexity of {name}", page.of_its_complexity(name, "function", comment, "A box."), expected)
    failures.extend(comment_filter.self_test())
    with tempfile.TemporaryDirectory() as folder:
        root = path(folder)
        (root / "a.xml").write_text(XML)
        names = public_names.read(root)
        page = reference.header_page("sluice/a.hpp", HEADER, names)
        check("page", re.sub(r"\n+$", "\n", page.markdown()), PAGE)
        check("names of the page", (page.entries, page.silent), (3, ["include/sluice/a.hpp:16: point"]))
        check("all names", reference.missing_names(HEADER, names), [])
        check("a name that is not read", reference.missing_names(HEADER, names[:1]), ["point"])

        (root / "docs").mkdir()
        (root / "include/sluice").mkdir(parents=True)
        (root / "include/sluice/a.hpp").write_text(HEADER)
        (root / "x.cu").write_text("int x;\n")
        (root / "README.md").write_text("# A\n\n[p](docs/p.md#one) [h](include/sluice/a.hpp) [x](x.cu) [d](include)\n")
        (root / "docs/p.md").write_text("# P\n\n## One\n\n[a](../README.md)\n")
        check("links", link_problems(root), [])
        (root / "docs/p.md").write_text("# P\n\n## Two\n")
        finds("a heading that is missing", link_problems(root), "no such heading")
        (root / "docs/p.md").write_text("# P\n\n## One\n\n[a](b.md)\n")
        finds("a file that is missing", link_problems(root), "no such file: b.md")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        problems = self_test()
    elif len(arguments) == 2 and arguments[0] in ("navigation", "links", "headers", "reference"):
        root = pathlib.Path(arguments[1])
        if arguments[0] == "navigation":
            problems = navigation_problems(navigation.listed_pages(), pages.repository_pages(root))
        elif arguments[0] == "links":
            problems = link_problems(root)
        elif arguments[0] == "headers":
            problems = header_problems(headers.public_headers(root), headers.ROOMS)
        else:
            problems = reference_problems(root)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
