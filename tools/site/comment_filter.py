#!/usr/bin/env python3
"""Makes the plain comments of a header comments of Doxygen, for its input filter. The number of lines stays.

    comment_filter.py HEADER      prints the header
    comment_filter.py --self-test

A block of `//` or `/* */` directly before a declaration becomes `///`; a comment after one becomes `///<`. Their text is
between @verbatim and @endverbatim: Doxygen reads no commands in it. The comment at the top of the file, and blocks before
an empty line, stay as they are.
"""

import pathlib
import re
import sys

# A line that ends with a comment: its code, and the comment's text. A string with // in it is no comment.
TRAILING = re.compile(r'^((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?![/*]))*?\S)\s*(//\s?(.*)|/\*\s?(.*?)\s*\*/)$')


def with_line_comments(text):
    """Comments of C that have lines of their own, as comments of C++."""
    def converted(match):
        lines = match.group(2).split("\n")
        lines = [re.sub(r"^\s*\*? ?", "", line) if at else line for at, line in enumerate(lines)]
        blank = lines and not lines[-1].strip()  # the line of the closing */ alone
        text = "\n".join(f"{match.group(1)}// {line}".rstrip() for line in (lines[:-1] if blank else lines))
        return text + "\n" if blank else text
    return re.sub(r"^([ \t]*)/\* ?((?:[^*]|\*(?!/))*)\*/$", converted, text, flags=re.MULTILINE)


def without_separators(code):
    """10'000 as 10000: Doxygen takes a single one of these for the beginning of a character."""
    return re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "", code)


def documents_a_member(code):
    """Whether a comment after this code says what the code declares."""
    code = code.strip()
    if re.match(r"#\s*define \w", code):
        return True
    if code.startswith(("#", "}")) or code.endswith("{"):
        return False
    return True


def filtered(text):
    lines = with_line_comments(text).split("\n")
    result = list(lines)
    at = 0
    while at < len(lines) and lines[at].startswith("//"):
        at += 1
    column = None  # of the comment after the last declaration
    while at < len(lines):
        line = lines[at]
        stripped = line.lstrip()
        if stripped.startswith("//"):
            indent = len(line) - len(stripped)
            end = at
            while end < len(lines) and lines[end].lstrip().startswith("//"):
                end += 1
            continues = column is not None and indent == column
            if continues or (end < len(lines) and lines[end].strip()):
                sign = "///<" if continues else "///"
                body = [line.lstrip()[2:] for line in lines[at:end]]
                body[0] = f" @verbatim{body[0]}"
                body[-1] += " @endverbatim"
                result[at:end] = [f"{' ' * indent}{sign}{each}" for each in body]
            at = end
            continue
        trailing = TRAILING.match(line)
        column = None
        if "//" not in line:
            result[at] = without_separators(line)
        if trailing and documents_a_member(trailing.group(1)):
            comment = trailing.group(4) if trailing.group(3) is None else trailing.group(3)
            column = trailing.start(2)
            result[at] = f"{without_separators(trailing.group(1))}  ///< @verbatim {comment} @endverbatim"
        at += 1
    return "\n".join(result)


def self_test():
    cases = {
        "// File.\n\n// One\n//   two.\nint x;\n":
            "// File.\n\n/// @verbatim One\n///   two. @endverbatim\nint x;\n",
        "\n// Apart.\n\nint x;\n": "\n// Apart.\n\nint x;\n",
        "\nint x;  // a `<T>`\n        // more\nint y;\n":
            "\nint x;  ///< @verbatim a `<T>` @endverbatim\n        ///< @verbatim more @endverbatim\nint y;\n",
        "\n}  // namespace a\n#endif  // A\nstruct b {  // c\n": "\n}  // namespace a\n#endif  // A\nstruct b {  // c\n",
        '\nconst char* s = "http://x";\n': '\nconst char* s = "http://x";\n',
        "\n/* One\n * two. */\nint f(void);\n": "\n/// @verbatim One\n/// two. @endverbatim\nint f(void);\n",
        "\nint x = 10'000;  // of 20'000\nint y{1'000};\n":
            "\nint x = 10000;  ///< @verbatim of 20'000 @endverbatim\nint y{1000};\n",
        "\n#define A 1  // one\n": "\n#define A 1  ///< @verbatim one @endverbatim\n",
        "\n    A = 1, /* one */\n": "\n    A = 1,  ///< @verbatim one @endverbatim\n",
    }
    return [f"of {text!r}: {filtered(text)!r}" for text, expected in cases.items() if filtered(text) != expected]


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--self-test":
        problems = self_test()
        print(*problems, sep="\n", end="\n" if problems else "")
        return 1 if problems else 0
    sys.stdout.write(filtered(pathlib.Path(arguments[0]).read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
