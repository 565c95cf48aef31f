"""What the checks of this folder have in common: how they are called, and what they print."""

import pathlib
import sys


def run(description, problems, self_test):
    """Checks the repository that the argument names, or with --self-test the check itself. Prints a line for each
    problem. Gives the exit status: 0, 1 where there is a problem, 2 for other arguments, with the description."""
    arguments = sys.argv[1:]
    if len(arguments) != 1:
        print(description, file=sys.stderr)
        return 2
    found = list(self_test() if arguments[0] == "--self-test" else problems(pathlib.Path(arguments[0])))
    for line in found:
        print(line)
    return 1 if found else 0
