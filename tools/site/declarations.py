"""The text of a declaration in a header, as it is written there, without a body."""

import re
import textwrap

import comment_filter

ENDS_BEFORE = re.compile(r"[;{}]\s*$|^\s*(?:public|private|protected):\s*$|^\s*(?://|#|/?\*)|^\s*$")


def without_comment(line):
    trailing = comment_filter.TRAILING.match(line)
    return trailing.group(1) if trailing else line


def start_of(lines, at):
    while at > 0 and not ENDS_BEFORE.search(without_comment(lines[at - 1]) or " "):
        at -= 1
    return at


def opens_requirement(text):
    """Whether a brace after this text begins the body of a requires expression; not that of a function after its
    requires clause."""
    return re.search(r"(?:\brequires|=|&&|\|\||!|\()\s*requires\s*(?:\((?:[^()]|\([^()]*\))*\)\s*)?$", text) is not None


def signature(text, keeps_braces):
    """The text up to its `;`, its body, or the initialisers of a constructor."""
    round_depth = brace_depth = 0
    for at, character in enumerate(text):
        if character in "([":
            round_depth += 1
        elif character in ")]":
            round_depth -= 1
        elif character == "{":
            inside = round_depth > 0 or brace_depth > 0
            if not inside and not keeps_braces and not opens_requirement(text[:at]):
                return text[:at].rstrip()
            brace_depth += 1
        elif character == "}":
            brace_depth -= 1
        elif round_depth or brace_depth:
            continue
        elif character == ";":
            return text[: at + 1]
        elif character == ":" and re.search(r"\)\s*(?:noexcept\s*)?$", text[:at]) and text[at + 1 : at + 2] == " ":
            return text[:at].rstrip()
    return text.rstrip()


# What the body of a function gives that only reads a data member, or a field of one.
OF_A_MEMBER = re.compile(
    r"\{\s*return [&*]?\w+_(?:(?:->|\.)\w+\b(?!\())*(?:\.(?:size|empty|get)\(\))?;\s*\}")
# Types that are given without a copy of what they refer to, or are a number.
SMALL = re.compile(r"(?:[&*]|\b(?:bool|int|unsigned(?: (?:short|int|long))?|float|double|(?:std::)?(?:size_t|u?int(?:_least)?\d+_t)|(?:\w+::)*(?:dtype|\w+_kind|\w+_mode|"
                   r"stream|device_id)|std::span<[^()]*>|std::string_view))\s*(?:\w+|operator\W+)\([^()]*\)[^(){}]*$")


def only_gives_a_member(source, line):
    """Whether the function at the line, counted from 1, has a body that does nothing but return a data member, or its
    size, as a number or without a copy."""
    lines = source.split("\n")
    text = "\n".join(without_comment(each) for each in lines[start_of(lines, line - 1) : line + 4])
    head, brace, body = text.partition("{")
    if ";" in head:  # a declaration: the body is the next function's
        return False
    return OF_A_MEMBER.match(brace + body) is not None and SMALL.search(head.rstrip()) is not None


def declaration(source, line, kind):
    """The declaration of a name of this kind (Doxygen's) at the line, counted from 1."""
    lines = source.split("\n")
    if kind == "define":
        return lines[line - 1].split("//")[0].rstrip(" \\")
    start = start_of(lines, line - 1)
    text = "\n".join(without_comment(each) for each in lines[start : line + 60])
    keeps = kind in ("variable", "typedef", "concept")
    found = textwrap.dedent(signature(text, keeps)).strip()
    return found if found.endswith(";") else found + ";"
