"""The navigation of the documentation site: each page of the repository once, in reading order.

An entry is the path of a page, or (title, path). The pages of the reference follow after "Reference"; they are made from
the public headers.
"""

import pathlib

REFERENCE = "Reference"

NAVIGATION = [
    ("Start", [
        ("Sluice", "README.md"),
        ("All pages", "docs/README.md"),
        "docs/installing.md",
        "docs/tutorial.md",
        "docs/a_day.md",
        "docs/concepts.md",
        "docs/cookbook.md",
        "docs/glossary.md",
    ]),
    ("Coming from", [
        "docs/from_the_tutorials.md",
        "docs/coming_from_cuda.md",
        "docs/coming_from_cudastf.md",
        "docs/coming_from_taskflow.md",
        "docs/coming_from_stdexec.md",
        "docs/coming_from_pytorch.md",
        "docs/coming_from_onnx_runtime.md",
    ]),
    ("Networks", [
        "docs/networks.md",
        "docs/sessions.md",
        "docs/inference.md",
        "docs/microseconds.md",
        "docs/real_time.md",
        "docs/zoo.md",
        "docs/eight_bits.md",
        "docs/python.md",
        "docs/python_pipelines.md",
        "docs/c_interface.md",
        "docs/serving.md",
        "docs/serving_compared.md",
        "docs/production.md",
        "docs/operators.md",
        "docs/exported_networks.md",
        ("The networks in models/", "models/README.md"),
        ("The files in data/", "data/README.md"),
    ]),
    ("Guides", [
        "docs/errors.md",
        "docs/ordering.md",
        "docs/memory.md",
        "docs/memory_of_others.md",
        "docs/beside_other_cuda.md",
        "docs/block_launches.md",
        "docs/loops.md",
        "docs/graphs.md",
        "docs/replayed_streams.md",
        "docs/modules.md",
        "docs/devices.md",
        "docs/distributed.md",
        "docs/asio.md",
        "docs/plugs.md",
        "docs/simulator.md",
        "docs/check.md",
        "docs/tracing.md",
        "docs/formats.md",
    ]),
    ("Speed", [
        "docs/figures.md",
        "docs/pictures.md",
        "docs/costs.md",
        "docs/benchmarks.md",
        "docs/products.md",
        "docs/pipelines.md",
        ("Results of benchmarks", "bench/results/README.md"),
    ]),
    (REFERENCE, [
        "docs/headers.md",
        "docs/conventions.md",
    ]),
    ("Extend", [
        "docs/adding_a_kernel.md",
        "docs/adding_an_operator.md",
        "docs/adding_a_combinator.md",
        "docs/adding_a_policy.md",
        "docs/adding_a_backend.md",
    ]),
    ("Design", [
        "ARCHITECTURE.md",
        "docs/design/waist.md",
        "docs/design/completion.md",
        "docs/design/memory_and_staging.md",
        "docs/design/host_driven.md",
        "docs/design/cpu_backend.md",
        "docs/design/cuda_backend.md",
        "docs/design/simulator.md",
        "docs/design/check.md",
        "docs/design/tracing.md",
        "docs/design/devices.md",
        "docs/design/graphs.md",
        "docs/design/kernels.md",
        "docs/design/networks.md",
        "docs/design/serving.md",
        "docs/design/files_and_process.md",
        "docs/design/defects.md",
    ]),
    ("Project", [
        "CHANGELOG.md",
        "docs/support.md",
        "CONTRIBUTING.md",
        "docs/fuzzers.md",
        "docs/mutants.md",
        "docs/coverage.md",
        "docs/releasing.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
    ]),
]


def listed_pages():
    """The paths of all entries, in order."""
    return [entry if isinstance(entry, str) else entry[1] for _, entries in NAVIGATION for entry in entries]


def rooms_of_headers(public_headers, rooms):
    """[(title, [page of the reference])]: the pages of public headers (paths below include) by room, in the order of
    `rooms`, which names the rooms; the headers of a room that it does not name come last, under the room's own name."""
    by_room = {}
    for header in public_headers:
        room = header.parts[1] if len(header.parts) > 2 else ""
        page = pathlib.PurePosixPath("reference", *header.parts[1:]).with_suffix(".md")
        by_room.setdefault(room, []).append(page.as_posix())
    order = [room for room in rooms if room in by_room] + sorted(set(by_room) - set(rooms))
    return [(rooms.get(room, room), by_room[room]) for room in order]
