#!/usr/bin/env python3
"""Checks a bill of materials: the fields that SPDX 2.3 requires, and that it lists what the build links.

    bill_of_materials.py BUILD      checks sluice.spdx.json in a build folder
    bill_of_materials.py --self-test BUILD      plants mistakes in it, and fails unless each is found

What is linked is read from sluice.pc, which the same build wrote. Where the package spdx-tools of PyPI is installed, its
validator looks at the file as well.
"""

import copy
import json
import pathlib
import re
import sys

# Fields that the specification requires, sections 6 to 8 and 11.
DOCUMENT = ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships")
PACKAGE = ("SPDXID", "name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText", "supplier")
KINDS = {"DESCRIBES", "DYNAMIC_LINK", "STATIC_LINK", "RUNTIME_DEPENDENCY_OF", "BUILD_TOOL_OF", "TEST_DEPENDENCY_OF"}
IDENTIFIER = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
LIBRARIES = {  # of pkg-config: the package's name
    "dnnl": "oneDNN", "gomp": "libgomp", "openblas": "OpenBLAS", "protobuf-lite": "protobuf-lite", "png": "libpng",
    "jpeg": "libjpeg-turbo", "z": "zlib", "cudart_static": "CUDA runtime",
}
SYSTEM = {"sluice", "dl", "rt"}


def problems(bill, linked):
    found = [f"the document has no {each}" for each in DOCUMENT if not bill.get(each)]
    if found:
        return found
    if bill["spdxVersion"] != "SPDX-2.3" or bill["dataLicense"] != "CC0-1.0" or bill["SPDXID"] != "SPDXRef-DOCUMENT":
        found.append("the document is not one of SPDX 2.3")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"].get("created", "")):
        found.append("creationInfo.created is no time in UTC")
    if not bill["creationInfo"].get("creators"):
        found.append("creationInfo has no creators")
    for package in bill["packages"]:
        name = package.get("name", "?")
        found += [f"the package {name} has no {each}" for each in PACKAGE if not package.get(each)]
        if not IDENTIFIER.fullmatch(package.get("SPDXID", "")):
            found.append(f"the package {name} has no SPDX identifier")
        if package.get("filesAnalyzed") is not False:
            found.append(f"the package {name} lists no files, so filesAnalyzed is false")
        licences = {each["licenseId"] for each in bill.get("hasExtractedLicensingInfos", [])}
        for each in re.findall(r"LicenseRef-[\w.-]+", package.get("licenseDeclared", "")):
            if each not in licences:
                found.append(f"the package {name} has the licence {each}, which is not described")
    known = [each.get("SPDXID") for each in bill["packages"]] + ["SPDXRef-DOCUMENT"]
    found += [f"two packages are {each}" for each in sorted(set(known)) if known.count(each) > 1]
    related = set()
    for each in bill["relationships"]:
        if each["relationshipType"] not in KINDS:
            found.append(f"the relationship {each['relationshipType']} is not one of {', '.join(sorted(KINDS))}")
        for end in (each["spdxElementId"], each["relatedSpdxElement"]):
            related.add(end)
            if end not in known:
                found.append(f"a relationship names {end}, which is no package")
    found += [f"{each} has no relationship" for each in sorted(set(known) - related)]
    names = {each.get("name") for each in bill["packages"]}
    for each in linked:
        if each not in LIBRARIES:
            found.append(f"-l{each} of sluice.pc is not known: add it to SluiceBillOfMaterials.cmake and to this test")
        elif LIBRARIES[each] not in names:
            found.append(f"-l{each} of sluice.pc is linked, and {LIBRARIES[each]} is not listed")
    return found


def libraries(build):
    text = (build / "sluice.pc").read_text("utf-8")
    return set(re.findall(r"-l([\w+-]+)", text)) - SYSTEM


def validated(file):
    """What the validator of spdx-tools finds; nothing where it is not installed."""
    try:
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    except ImportError:
        print("spdx-tools is not installed: its validator has not looked at the file")
        return []
    found = [each.validation_message for each in validate_full_spdx_document(parse_file(str(file)))]
    print(f"spdx-tools: {len(found)} findings")
    return found


def self_test(bill, linked):
    def without(key):
        return lambda each: each.pop(key)

    def first(change):
        return lambda each: change(each["packages"][1])

    planted = [
        ("a version", lambda each: each.update(spdxVersion="SPDX-2.2"), "not one of SPDX 2.3"),
        ("no namespace", without("documentNamespace"), "no documentNamespace"),
        ("no licence", first(without("licenseDeclared")), "no licenseDeclared"),
        ("a licence of its own", first(lambda each: each.update(licenseDeclared="LicenseRef-odd")), "LicenseRef-odd"),
        ("twice", lambda each: each["packages"].append(each["packages"][1]), "two packages are"),
        ("no package", lambda each: each["packages"].pop(1), "which is no package"),
        ("alone", lambda each: each["relationships"].pop(1), "has no relationship"),
        ("a time", lambda each: each["creationInfo"].update(created="now"), "no time in UTC"),
    ]
    failures = []
    for name, change, reason in planted:
        changed = copy.deepcopy(bill)
        change(changed)
        found = problems(changed, linked)
        if not any(reason in line for line in found):
            failures.append(f"{name}: found {found}")
    if not any("-lodd" in line for line in problems(bill, linked | {"odd"})):
        failures.append("a library that is not listed was not found")
    return failures


def main(arguments):
    testing = arguments[:1] == ["--self-test"]
    if len(arguments) != 1 + testing:
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(arguments[-1])
    file = build / "sluice.spdx.json"
    bill, linked = json.loads(file.read_text("utf-8")), libraries(build)
    found = self_test(bill, linked) if testing else problems(bill, linked) + validated(file)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
