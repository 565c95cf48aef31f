"""The public names of the headers, as Doxygen's XML has them: what each is called, where it is declared, its comment."""

import dataclasses
import pathlib
import re
import subprocess
import xml.etree.ElementTree as xml

import comment_filter

CLASSES = ("class", "struct", "union")
INLINE_NAMESPACES = ("launch_abi", "bounds_abi")
SETTINGS = """
OUTPUT_DIRECTORY = {work}
INPUT = {work}/include
RECURSIVE = YES
STRIP_FROM_PATH = {work}/include
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
HAVE_DOT = NO
QUIET = YES
SEARCH_INCLUDES = NO
AUTOLINK_SUPPORT = NO
MARKDOWN_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = __launch_bounds__(x)= SLUICE_KERNEL= SLUICE_LAUNCH_ABI=launch_abi SLUICE_BOUNDS_ABI=bounds_abi __cplusplus=202002L __CUDACC__=1
"""


@dataclasses.dataclass
class public_name:
    kind: str  # as Doxygen's: class, struct, function, variable, typedef, enum, concept, define, friend ...
    name: str  # with its namespaces and classes, without sluice::
    file: str  # "sluice/op/and_then.hpp"
    line: int
    comment: str
    members: list = dataclasses.field(default_factory=list)  # of a class; the values of an enumeration
    ending: str = ""  # of a class: the comment of its destructor


def run_doxygen(include, headers, work):
    """Writes XML into work/xml for the headers (paths relative to the folder `include`). Returns the warnings."""
    for header in headers:
        copy = work / "include" / header
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(comment_filter.filtered((include / header).read_text(encoding="utf-8")), encoding="utf-8")
    done = subprocess.run(["doxygen", "-"], input=SETTINGS.format(work=work), capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


def scope_of(name):
    """The name's parts, without inline namespaces; None for what is not public."""
    parts = [part for part in re.sub(r"\s", "", name).split("::") if part not in INLINE_NAMESPACES]
    if parts[0] == "sluice":
        parts = parts[1:]
    if "detail" in parts or "std" in parts or not parts or any(part.startswith("@") for part in parts):
        return None
    return parts


def comment_of(element):
    """The plain text of the comment."""
    texts = []
    for part in ("briefdescription", "detaileddescription"):
        for verbatim in element.findall(f"{part}//verbatim"):
            lines = [re.sub(r"^\s*///<? ?", "", line).rstrip() for line in (verbatim.text or "").strip().split("\n")]
            texts.append("\n".join(lines))
    return "\n".join(texts).strip()


def place_of(element):
    location = element.find("location")
    if location is None:
        return None, 0
    return (location.get("declfile") or location.get("file"), int(location.get("declline") or location.get("line")))


def member(element, scope):
    """A member of a class or a namespace, or None for what has no entry of its own."""
    kind, name = element.get("kind"), element.findtext("name")
    if element.get("prot") in ("private", "protected"):
        return None
    if kind == "friend" and not element.findtext("argsstring"):
        return None  # a friend class
    values = [public_name("enumvalue", each.findtext("name"), *place_of(element), comment_of(each))
              for each in element.findall("enumvalue")]
    if name.startswith("~") or name.startswith("@") or (not name and not values):
        return None
    file, line = place_of(element)
    return public_name(kind, "::".join([*scope, name]) if name else "", file, line, comment_of(element), values)


def members_of(compound, scope):
    found = [member(each, scope) for each in compound.findall("sectiondef/memberdef")]
    return [each for each in found if each]


def comment_of_destructor(compound):
    found = [comment_of(each) for each in compound.findall("sectiondef/memberdef")
             if each.findtext("name").startswith("~") and each.get("prot") == "public"]
    return found[0] if found else ""


def is_inside(name, classes):
    """Whether the name is in one of these classes."""
    parts = name.name.split("::")
    return any("::".join(parts[:count]) in classes for count in range(1, len(parts)))


def read(folder):
    """All public names of the XML in a folder, in the order of the headers. Members are inside their classes."""
    found, classes, hidden = [], {}, set()
    for file in sorted(folder.glob("*.xml")):
        if file.name == "index.xml":
            continue
        for compound in xml.parse(file).getroot().findall("compounddef"):
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind == "file":
                found += [each for each in members_of(compound, []) if each.kind == "define" or name.endswith(".h")]
                continue
            scope = scope_of(name)
            if kind == "namespace":
                if scope is not None or name == "sluice" or re.fullmatch(r"sluice::(launch|bounds)_abi", name):
                    found += members_of(compound, scope or [])
            elif scope is not None and kind in (*CLASSES, "concept") and compound.get("prot") in (None, "public"):
                whole = public_name(kind, "::".join(scope), *place_of(compound), comment_of(compound))
                whole.members = members_of(compound, scope) if kind in CLASSES else []
                whole.ending = comment_of_destructor(compound) if kind in CLASSES else ""
                classes[whole.name] = whole
            elif scope is not None and kind in CLASSES:
                hidden.add("::".join(scope))
    found += [each for each in classes.values() if not is_inside(each, hidden)]
    # Doxygen lists what C names twice (typedef struct x {} x), and a member that two namespaces show.
    seen, unique = set(), []
    for each in sorted(found, key=lambda each: (each.file or "", each.line, each.kind == "typedef")):
        key = (each.file, each.line, each.name)
        double = key in seen or (each.kind == "typedef" and each.name in classes)
        if not double and each.file:
            seen.add(key)
            each.members.sort(key=lambda one: one.line) if each.kind in CLASSES else None
            unique.append(each)
    return unique
