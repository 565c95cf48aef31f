#!/usr/bin/env python3
"""Checks that libsluice_c exports its functions, with their versions, and nothing else.

    exported_symbols.py LIBRARY REPOSITORY NM    compares what nm finds, the version script and the header
    exported_symbols.py --self-test              plants differences, and fails unless each is found
"""

import pathlib
import re
import subprocess
import sys


def exported(nm_output):
    """name@@version of each symbol that is defined; the versions themselves are absolute symbols."""
    found = set()
    for line in nm_output.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            found.add(name)
    return found


def listed(script):
    """name@@version of each function in a version script."""
    found = set()
    for version, body in re.findall(r"^(\w[\w.]*) \{(.*?)^\}", re.sub(r"/\*.*?\*/", "", script, flags=re.S), re.S | re.M):
        for name in re.findall(r"(\w+);", body.split("local:")[0]):
            found.add(f"{name}@@{version}")
    return found


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    return set(re.findall(r"\b(sluice_\w+)\((?!\*)[^;]*\);", text))


def problems(nm_output, script, header):
    is_exported, is_listed, is_declared = exported(nm_output), listed(script), declared(header)
    names = {name.split("@")[0] for name in is_listed}
    lines = [f"{name} is exported, and not listed" for name in sorted(is_exported - is_listed)]
    lines += [f"{name} is listed, and not exported" for name in sorted(is_listed - is_exported)]
    lines += [f"{name} is declared, and not listed" for name in sorted(is_declared - names)]
    lines += [f"{name} is listed, and not declared" for name in sorted(names - is_declared)]
    return lines


def self_test():
    nm = "0000 T sluice_a@@V_1.0\n0000 T sluice_b@@V_1.1\n0000 A V_1.0\n0000 A V_1.1\n"
    script = "/* other; */\nV_1.0 {\n global:\n  sluice_a;\n local:\n  *;\n};\nV_1.1 {\n global:\n  sluice_b;\n} V_1.0;\n"
    header = "int sluice_a(void);\n/* int sluice_old(void); */\nconst char* sluice_b(int x,\n  int y);\n"
    failures = []

    def check(name, expected, *inputs):
        found = problems(*inputs)
        if len(found) != len(expected) or any(part not in line for part, line in zip(expected, found)):
            failures.append(f"{name}: found {found}")

    check("healthy", [], nm, script, header)
    check("leak", ["_ZN6sluice5errorE is exported"], nm + "0000 V _ZN6sluice5errorE\n", script, header)
    check("no version", ["sluice_a is exported", "sluice_a@@V_1.0 is listed"], nm.replace("@@V_1.0", ""), script, header)
    check("missing", ["sluice_b@@V_1.1 is listed, and not exported"], nm.replace("0000 T sluice_b@@V_1.1\n", ""), script, header)
    check("new", ["sluice_c is declared"], nm, script, header + "void sluice_c(int);\n")
    check("gone", ["sluice_a is listed, and not declared"], nm, script, header.replace("int sluice_a(void);", ""))
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        lines = self_test()
    elif len(arguments) == 3:
        library, root, nm = arguments[0], pathlib.Path(arguments[1]), arguments[2]
        output = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        lines = problems(output, (root / "src/c/sluice_c.map").read_text(), (root / "include/sluice/c/sluice.h").read_text())
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
