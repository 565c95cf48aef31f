#!/usr/bin/env python3
"""Checks that a search by users' own words finds the right page among the first three.

    found.py REPOSITORY      prints each search of SEARCHES that does not, with what it finds, and fails
    found.py --self-test     checks that such a search is found

The search is a plain one: BM25 over the sections of the pages, headings and titles first. The site's ranks in another way.
The reference, and pages that only list (public headers, operators, defects, networks that were tried), are left out.
"""

import collections
import math
import re
import sys

import checking

FIRST = 3
LISTS = {"docs/headers.md", "docs/operators.md", "docs/exported_networks.md", "docs/design/defects.md"}
SEARCHES = {  # what is typed: the pages of which one must be among the first
    "fragmentation": ["memory"],
    "capture mode": ["beside_other_cuda"],
    "current context": ["beside_other_cuda"],
    "cudaGetLastError": ["beside_other_cuda", "coming_from_cuda"],
    "cudaDeviceReset": ["beside_other_cuda"],
    "at exit": ["beside_other_cuda"],
    "fork": ["beside_other_cuda", "python"],
    "topology": ["devices", "graphs"],
    "byte_offset": ["memory_of_others"],
    "callback": ["errors", "coming_from_cuda", "cookbook"],
    "cancel": ["errors", "asio", "cookbook"],
    "epoch": ["glossary"],
    "Jetson": ["support"],
    "Windows": ["support"],
    "stream priority": ["coming_from_cuda", "concepts"],
    "priority of requests": ["serving"],
    "LSTM": ["networks", "design/kernels", "design/networks"],
    "cudaMemcpyAsync": ["coming_from_cuda"],
    "pinned": ["memory"],
    "batch size": ["distributed", "inference", "serving"],
    "out of memory": ["errors", "memory", "cookbook"],
    "limit memory": ["cookbook", "memory", "serving"],
    "timeout": ["errors", "cookbook", "serving", "asio"],
    "how do I": ["cookbook", "README"],
    "two given streams": ["concepts", "coming_from_cuda"],
    "join two tensors": ["cookbook", "memory"],
    "make_tensor": ["concepts"],
    "token of fewer than 16 characters": ["serving"],
    "metrics without a token": ["serving"],
    "Prometheus metrics": ["serving", "production"],
    "Kubernetes": ["production"],
    "load balancer": ["production"],
    "shared memory": ["serving", "block_launches"],
    "CUDA graph": ["graphs", "coming_from_cuda"],
    "zip streams": ["concepts", "design/waist"],
    "DLPack": ["memory_of_others"],
    "DataFrame": ["python"],
    "asyncio": ["python"],
    "GIL": ["python", "design/networks"],
    "int8": ["networks", "eight_bits"],
    "denormal": ["inference"],
    "uninstall": ["installing"],
    "data race": ["simulator", "check"],
    "Nsight": ["tracing", "coming_from_cuda"],
    "custom operator": ["adding_an_operator", "coming_from_pytorch"],
    "text categories": ["networks"],
    "external data": ["formats"],
}
STOP = {"a", "an", "the", "of", "than", "is"}


def terms(text):
    words = re.findall(r"[A-Za-z][A-Za-z0-9_]*|\d+", text)
    return [re.sub(r"(?<=ch|sh|ss)es$|(?<=[a-rt-z]{2})s$", "", each.lower()) for each in words if each.lower() not in STOP]


def sections_of(page, text):
    """(page, heading, text) of each section; the title is a part of each heading only in the first."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    fenced = re.sub(r"^```.*?^```", lambda code: code.group().replace("\n#", "\n "), text, flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"^#+ (.*)$", fenced, flags=re.MULTILINE)
    return [(page, heading, body) for heading, body in zip(parts[1::2], parts[2::2])]


class search_index:
    """BM25 with two fields: headings count far more than text."""

    HEADING, K1, B = 30.0, 1.2, 0.75

    def __init__(self, pages):
        self.sections = [each for page, text in pages.items() for each in sections_of(page, text)]
        self.fields = [(collections.Counter(terms(heading)), collections.Counter(terms(body)))
                       for _, heading, body in self.sections]
        self.holds = collections.Counter(term for fields in self.fields for term in set(fields[0]) | set(fields[1]))
        self.means = [sum(sum(fields[i].values()) for fields in self.fields) / max(1, len(self.fields)) for i in (0, 1)]

    def score(self, fields, wanted):
        total = 0.0
        for term in wanted:
            rarity = math.log(1 + (len(self.fields) - self.holds[term] + 0.5) / (self.holds[term] + 0.5))
            for field, mean, boost in zip(fields, self.means, (self.HEADING, 1.0)):
                often = field[term]
                length = 1 - self.B + self.B * sum(field.values()) / max(1.0, mean)
                total += boost * rarity * often * (self.K1 + 1) / (often + self.K1 * length)
        return total if all(term in fields[0] or term in fields[1] for term in wanted) else total / 100

    def find(self, text):
        best = collections.defaultdict(float)
        for (page, _, _), fields in zip(self.sections, self.fields):
            best[page] = max(best[page], self.score(fields, terms(text)))
        return [page for page, score in sorted(best.items(), key=lambda each: -each[1]) if score > 0]


def name_of(page):
    return page.removeprefix("docs/").removesuffix(".md")


def problems(pages, searches):
    index = search_index(pages)
    for text, right in searches.items():
        found = [name_of(page) for page in index.find(text)[:FIRST]]
        if not set(found) & set(right):
            yield f"'{text}' finds {', '.join(found) or 'nothing'}; right is {' or '.join(right)}"


def self_test():
    pages = {"docs/a.md": "# Apples\n\nGreen ones, and pears.\n\n## Cores\n\nOf apples.\n", "docs/b.md": "# Pears\n\nApples.\n",
             "docs/c.md": "# Plums\n\nPears.\n\n```\n# pears\n```\n", "docs/d.md": "# Pears again\n\nPlums.\n", "docs/e.md": "# More pears\n"}
    missed = [f"found {each}" for each in problems(pages, {"apple": ["a"], "pears": ["b"], "core": ["a"], "green apples": ["a"]})]
    found = list(problems(pages, {"pear": ["a", "c"], "cherries": ["a"]}))
    if len(found) != 2 or "'cherries' finds nothing" not in found[1]:
        missed.append(f"expected two searches, found {found}")
    return missed


def problems_of(root):
    paths = [root / "README.md", root / "ARCHITECTURE.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return problems({name: path.read_text("utf-8") for name, path in names.items() if name not in LISTS}, SEARCHES)


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems_of, self_test))
