#!/usr/bin/env python3
"""Checks that `ctest -L ROOM` runs something for each room.

    labels.py CTEST BUILD ROOM...      prints each room whose label no test has, and fails
    labels.py --self-test              checks that such a room is found
"""

import json
import subprocess
import sys


def labels_of(listing):
    """The labels that tests have, in what `ctest --show-only=json-v1` prints."""
    found = set()
    for test in listing["tests"]:
        for each in test.get("properties", []):
            if each["name"] == "LABELS":
                found.update(each["value"])
    return found


def without_tests(rooms, listing):
    found = labels_of(listing)
    return [room for room in rooms if room not in found]


def self_test():
    listing = {"tests": [
        {"name": "a", "properties": [{"name": "LABELS", "value": ["io", "gpu"]}, {"name": "TIMEOUT", "value": 3.0}]},
        {"name": "b"},
    ]}
    missed = without_tests(["io", "gpu", "nn"], listing)
    return [] if missed == ["nn"] else [f"expected nn, found {missed}"]


def main(arguments):
    if arguments == ["--self-test"]:
        problems = self_test()
    elif len(arguments) > 2:
        ctest, build, *rooms = arguments
        show = [ctest, "--test-dir", build, "--show-only=json-v1"]
        shown = subprocess.run(show, capture_output=True, text=True, check=True)
        problems = [f"ctest -L '^{room}$' runs nothing" for room in without_tests(rooms, json.loads(shown.stdout))]
    else:
        sys.exit(__doc__)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
