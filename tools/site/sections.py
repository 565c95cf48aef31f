"""The fixed sections of the reference: which sentences of a comment are in which section, and what holds where a
comment is silent.

The sections of what runs (functions, macros with arguments) and of classes, always in this order:

    what · shapes and units · owner · thread or stream · blocks? · errors · complexity · example

What does not run (a type's name, a constant, a concept, an enumeration) has what, shapes and units, and example. Rows of
a table of members belong to the sections of their class.

The rules:

1. The first sentence of a comment says what the thing is: it is in the section "what".
2. A sentence with a cue of another section (CUES) is in that section; with cues of two sections it is in both. But one
   that begins with "Throws" is about errors only, and one that begins with "Blocks" about blocking and errors only. A
   first sentence with a cue is in that section too, except that it must say on which thread something is done
   (ON_A_THREAD) to be in "thread or stream". A sentence without a cue is in "what".
3. A sentence without a cue that begins by pointing back ("But", "Both", "It": POINTS_BACK) is where the sentence before
   it is.
4. Code, lists, and what introduces them stay whole in "what". Items of a list are repeated in the sections of their cues.
5. Where the comment of a name is silent about its owner, threads, blocking or errors, the comment of its class holds,
   and then that of the header: their sentences after the first, which says what the class or the header is, and without
   those that begin with a name and a colon. The comment at the top of a header holds for all of its names, except for a part that begins with a name and a colon
   or with a name and a parenthesis: this is about that name and its members.
6. Where a comment that begins with "The same for", "The same, over" and the like is silent, the comment of the function
   before it holds, before those of the class and the header.
7. A function that is noexcept throws nothing, whatever its class says.
8. Of what the comments of a class and of a header say about complexity, only sentences that begin with "All members" or
   "All functions" hold for their members: others are about the class as a whole. The function before it ("The same")
   counts as a whole. So do the top of a header for a function outside of classes whose name begins one of its lines, and
   the class of a function object for its call operator, where one of their sentences says a cost (SAYS_A_COST). What the
   members of each operation cost is said once (OF_EACH_OPERATION in reference.py).
9. Where all are silent, the conventions hold (docs/conventions.md). One of them is read from the code: a function whose
   body in the header only gives a data member takes constant time. "Example" is what usages.py finds.
"""

import dataclasses
import re

WHAT, SHAPES, OWNER, THREAD, BLOCKS, ERRORS, COMPLEXITY, EXAMPLE = (
    "what", "shapes and units", "owner", "thread or stream", "blocks?", "errors", "complexity", "example")
OF_WHAT_RUNS = (WHAT, SHAPES, OWNER, THREAD, BLOCKS, ERRORS, COMPLEXITY, EXAMPLE)
OF_THE_REST = (WHAT, SHAPES, EXAMPLE)
FROM_COMMENTS = (SHAPES, OWNER, THREAD, BLOCKS, ERRORS, COMPLEXITY)
INHERITED = (OWNER, THREAD, BLOCKS, ERRORS, COMPLEXITY)

CUES = {
    SHAPES: re.compile(
        r"\b(?:shapes?|extents?|rows?|columns?|elements?|bytes?|bits?|dimensions?|row-major|[KMG]iB|seconds?|"
        r"(?:milli|micro|nano)seconds?|us|ms|percent|aligned|alignment|strides?|pixels?|counted from|from [01] on)\b"),
    OWNER: re.compile(
        r"\b(?:owns|owned|owners?|ownership|keeps? \S+(?: \S+)? alive|lives?|living|outlives?|lifetime|dropp?(?:ed|ing|s)?|"
        r"moved from|after a move|borrow\w*|belongs?|(?:valid|stays?|exists?|refers?) (?:while|until|as long)|as long as|"
        r"destroy(?:s|ed|ing)?|destructors?|frees?|freed|dangl\w+|consumes?|consumed|reference counts?)\b", re.IGNORECASE),
    THREAD: re.compile(
        r"\b(?:threads?|thread-safe|streams?|executors?|concurrently|at the same time|in parallel|schedulers?|workers?)\b",
        re.IGNORECASE),
    BLOCKS: re.compile(
        r"\b(?:blocks? (?:until|while|for|the)|[Bb]locks(?=[.,;:])|(?:never|not|may|can|and|it|to) block|blocking|"
        r"waits?|waiting|waited|returns? (?:immediately|at once)|polls?)\b", re.IGNORECASE),
    ERRORS: re.compile(
        r"\b(?:throws?|thrown|rethrows?|exceptions?|errc::\w+|refuses?|refused|fails?\b|failed|is an error|as an error|"
        r"errors?\b|is undefined|undefined behaviou?r|out_of_memory|terminates?|traps?|must not|std::\w+_error|invalid_argument)", re.IGNORECASE),
    COMPLEXITY: re.compile(
        r"(?:\bO\([^)]+\)|\b(?:constant time|linear(?:ly)? in|quadratic|logarithmic|costs?|allocates?|allocations?|cheap|"
        r"expensive|faster|slower|takes (?:about )?[\d.]+|instructions?)\b)", re.IGNORECASE),
}
ON_A_THREAD = re.compile(r"\b(?:(?:on|by|from|in) (?:[\w'-]+ ){0,4}threads?|any thread|calling thread|thread safety)\b", re.IGNORECASE)
POINTS_BACK = re.compile(
    r"(?:But|So|Both|Neither|It|Its|They|Their|Then|This|That|These|Those|Otherwise|Else|Hence|Such|Each|Also|Or|And)\b")
ABOUT_ALL = re.compile(r"All (?:members|functions)\b")
SENTENCE_ENDS = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<! vs\.)(?<!\.\.\.)[ \n]+(?=\S)")
NAME_AND_COLON = re.compile(r"[a-z_][\w:]*(?:<[^>]*>)?: ")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


@dataclasses.dataclass
class block:
    """A part of a comment: a paragraph, an item of a list, or code (its lines as they are)."""
    kind: str
    text: str


def blocks_of(comment):
    found, lines, kind = [], [], ""

    def end():
        nonlocal lines, kind
        if lines:
            found.append(block(kind, "\n".join(lines)))
        lines, kind = [], ""

    for line in comment.rstrip().split("\n"):
        if line.startswith("    ") and (kind in ("", "code") or not lines):
            if kind != "code":
                end()
            kind = "code"
            lines.append(line)
        elif not line.strip():
            if kind == "code":
                lines.append(line)
            else:
                end()
        else:
            starts_item = ITEM.match(line)
            if starts_item or kind == "code" or (kind == "item" and not line.startswith(" ")):
                end()
            kind = kind or ("item" if starts_item else "paragraph")
            lines.append(line)
    end()
    for each in found:
        each.text = each.text.rstrip()
    return found


def sentences_of(text):
    """Text in `code` ends no sentence."""
    hidden = re.sub(r"`[^`]*`|\"[^\"\n]*\"", lambda code: re.sub(r"[.!?]", "_", code.group()), text)
    found, start = [], 0
    for end in SENTENCE_ENDS.finditer(hidden):
        found.append(text[start : end.start()])
        start = end.end()
    return [each for each in [*found, text[start:]] if each.strip()]


def cues_of(sentence):
    if re.match(r"Throws? ", sentence):
        return [ERRORS]
    among = (BLOCKS, ERRORS) if re.match(r"Blocks\b", sentence) else FROM_COMMENTS
    return [section for section in among if CUES[section].search(sentence)]


def sectioned(comment, with_first=True):
    """A comment by section: {WHAT: text with its lists and code, another section: [sentence]}. Without its first
    sentence, if so wished."""
    result = {section: [] for section in FROM_COMMENTS}
    what, first = [], True
    found = blocks_of(comment)
    for at, part in enumerate(found):
        follows = found[at + 1].kind if at + 1 < len(found) else ""
        if part.kind == "code":
            what.append((part.text, "\n\n" if what else ""))
            continue
        sentences = sentences_of(part.text)
        kept, before = [], []
        for number, sentence in enumerate(sentences):
            cues = cues_of(sentence)
            is_introduction = follows in ("code", "item") and number + 1 == len(sentences)
            if not cues and number and POINTS_BACK.match(sentence):
                cues = before
            if first and THREAD in cues and not ON_A_THREAD.search(sentence):
                cues.remove(THREAD)
            before = cues
            if not with_first and (first or NAME_AND_COLON.match(sentence)):
                cues = []
            for section in cues:
                result[section].append(without_margin(sentence) if part.kind == "item" else sentence)
            if first or not cues or part.kind == "item" or is_introduction:
                kept.append(sentence)
            first = False
        if kept:
            is_next_item = part.kind == "item" and at and found[at - 1].kind == "item"
            what.append((" ".join(kept), "\n" if is_next_item else "\n\n" if what else ""))
    result[WHAT] = "".join(separator + text for text, separator in what)
    return result


def add_destructor(own, comment):
    """Adds what the comment of a class's destructor says; what has no cue is about the owner."""
    sentences = [each for part in blocks_of(comment) for each in sentences_of(part.text)] if comment else []
    by_section = {}
    for sentence in sentences:
        for section in cues_of(sentence) or [OWNER]:
            by_section.setdefault(section, []).append(sentence)
    for section, found in by_section.items():
        own[section].append(f"The destructor: {' '.join(found)}")


def without_margin(item):
    return " ".join(ITEM.sub("", item).split())


def parts_of_top(comment, names):
    """The comment at the top of a header as (general text, {name: text about it}). `names` are the header's own. The first
    sentence of the general text says what the header is; where the comment begins with a name it is empty ("...")."""
    general, about, current = [], {}, None
    known = {name.partition("<")[0]: name for name in names}
    for line in comment.split("\n"):
        begins = re.match(r"([A-Za-z_][\w:]*)(?:<[^>\n]*>)?((?:, [\w:<>]+)*)(?:\([^)\n]*\))?(?::(?!:)|\()", line)
        if begins and begins.group(1) in known:
            current = known[begins.group(1)]
            about.setdefault(current, [])
            others = [each.strip().partition("<")[0] for each in begins.group(2).split(",") if each.strip()]
            for other in others:
                if other in known:
                    about.setdefault(known[other], about[current])
        elif not line.strip():
            (about[current] if current else general).append(line)
            current = None
            continue
        (about[current] if current else general).append(line)
    text = "\n".join(general).strip("\n")
    if text and not comment.startswith(text.partition("\n")[0]):
        text = f"...\n\n{text}"
    return text, {name: "\n".join(lines).strip("\n") for name, lines in about.items()}


# What holds where the comments are silent, by section; the rules are in docs/conventions.md under these headings.
CONVENTIONS = "docs/conventions.md"
HEADINGS = {SHAPES: "shapes-and-units", OWNER: "owner", THREAD: "thread-or-stream", BLOCKS: "blocks", ERRORS: "errors",
            COMPLEXITY: "complexity"}
NO_EXAMPLE = "Not in the examples, the pages or the tests."
# What a declaration of a function has that submits commands, or returns an operation.
SUBMITS = re.compile(r"\b(?:execution_context|stream|stream_lease|scheduling_policy|Policy|command_queue|device|device_set|"
                     r"communicator|compile_place)\b[&*]? ?\w*[,)=]|\bsubmit\(|\bsource_location\b|\btensor<|\bshared_tensor<|"
                     r"\bhost_buffer<|\bbuffer<|\b(?:Op|Source|Parts|Part|First|Second|Tensor)(?:&&|\.\.\.)? \w+|\bdrive\(|"
                     r"\bnext_link\(")
# Titles of what holds for the complexity only: the top of a header that is about the function, what is said once of the
# members of all operations, and the class of a function object.
OF_THE_TOP = "As the top says"
OF_OPERATIONS = "As of each operation"
OF_A_FUNCTION_OBJECT = "As its class says"
SAYS_A_COST = re.compile(r"\b(?:[Cc]osts?\s(?!less)|[Aa]llocates?\s|[Tt]akes?\s(?:\w+\s)?time|O\()")
THE_SAME = re.compile(r"(?:The same|the same)(?:[.,;:]| (?:as|at|but|by|for|from|in|of|on|until|with|without|to|over)\b)")
OF_KERNELS = re.compile(r"\bSLUICE_KERNEL\b|__device__|__global__")


def is_noexcept(declared):
    """Whether a declaration ends with noexcept, without a condition."""
    return re.search(r"\bnoexcept\b(?!\s*\()(?:[^()]*)$", declared) is not None


def default_of(section, kind, language, declared, gives_a_member=False):
    """What holds by convention where the comments are silent; empty where the convention has to be read."""
    if kind == "class":
        return {BLOCKS: "Its destructor does not", OWNER: "A value: its holder owns it",
                THREAD: "One thread at a time, or several that call `const` members"}.get(section, "Its members say")
    runs_in_kernels = all(OF_KERNELS.search(each) for each in declared)
    if section == THREAD:
        if runs_in_kernels:
            return "Threads of kernels, and the host's"
        is_const = all(re.search(r"\)\s*const\b", each) for each in declared)
        return "Any thread; several at the same time" if is_const else "The calling thread"
    if section == BLOCKS:
        return "No"
    if section == COMPLEXITY:
        return "Constant time: it gives a member" if gives_a_member else "No promise"
    if section == ERRORS:
        if language == "c":
            return "A status, where it returns one"
        if runs_in_kernels:
            return "None: code of kernels throws nothing"
        if any(SUBMITS.search(each) for each in declared):
            return "Those of what submits commands"
        return "`std::bad_alloc`, and what the caller's code throws"
    return ""


def said_above(section, title, comment):
    """The sentences of a comment around a name that hold for the name too."""
    if section != COMPLEXITY and title in (OF_THE_TOP, OF_OPERATIONS, OF_A_FUNCTION_OBJECT):
        return []
    found = sectioned(comment, False)[section]
    if section == COMPLEXITY and title.startswith("Of "):
        found = [each for each in found if ABOUT_ALL.match(each)]
    if title in (OF_THE_TOP, OF_A_FUNCTION_OBJECT) and not any(SAYS_A_COST.search(each) for each in found):
        return []
    return found


def rows(kind, language, declared, own, inherited, shown, up, gives_a_member=False):
    """[(section, text in Markdown)] for what a comment (`own`) and those around it say. `inherited`: [(of what, comment)],
    the nearest first. `shown` makes Markdown of prose. `gives_a_member`: the function does only that
    (declarations.only_gives_a_member)."""
    result = []
    for section in FROM_COMMENTS if kind != "data" else (SHAPES,):
        rule = f"{up}{CONVENTIONS}#{HEADINGS[section]}"
        around = inherited if section in INHERITED else []
        above = next(((title, found) for title, comment in around if (found := said_above(section, title, comment))), None)
        default = default_of(section, kind, language, declared, gives_a_member) if kind != "data" else ""
        if own[section]:
            text = shown(" ".join(own[section]))
        elif section == ERRORS and kind == "function" and all(is_noexcept(each) for each in declared):
            text = "None: `noexcept`."
        elif above:
            text = f"{shown(above[0])}: {shown(' '.join(above[1]))} The rest: [by convention]({rule})."
        else:
            text = f"{shown(default)} ([by convention]({rule}))." if default else f"[By convention]({rule})."
        result.append((section, text))
    return result


ROW = re.compile(r"^\| ([\w ?]+) \| (.*) \|$", re.MULTILINE)


def missing(page, left_to_the_language=()):
    """What a page of the reference lacks: below each heading of a name the fixed sections, in their order. The section
    "what" is the text between the declaration and the table, or in the comment after the declaration."""
    found = []
    for part in re.split(r"^(?=##+ )", re.sub(r"^```.*?^```$", "```", page, flags=re.DOTALL | re.MULTILINE), flags=re.MULTILINE)[1:]:
        name = part.partition("\n")[0].lstrip("# ").replace("&lt;", "<").replace("&#42;", "*")
        tables = re.findall(r"^\| section \| \|\n\| --- \| --- \|\n((?:\|.*\n?)*)", part, re.MULTILINE)
        if not tables and name not in left_to_the_language:
            found.append(f"{name} lacks its sections")
        for table in tables:
            titles = [title for title, text in ROW.findall(table) if text.strip()]
            if titles not in (list(OF_WHAT_RUNS[1:]), list(OF_THE_REST[1:])):
                found.append(f"{name} has other sections than the fixed ones: {', '.join(titles)}")
    return found


def problems_of_conventions(root):
    """The headings of the page with the conventions that are not there."""
    page = root / CONVENTIONS
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    headings = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    return [f"{CONVENTIONS} has no heading #{each}" for each in HEADINGS.values() if each not in headings]
