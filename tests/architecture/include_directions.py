#!/usr/bin/env python3
"""Checks that includes point one way: base <- {op, async, io} <- runtime <- {cpu, cuda, sim}
<- {devices, graph, kernels} <- nn <- serve <- apps, and runtime <- trace <- {sim, drawing}.

    include_directions.py REPOSITORY      prints each include that breaks a rule, and fails
    include_directions.py --self-test     plants violations in a temporary tree, and fails unless each is found

The rules, for include/sluice, src and apps:
  - a room (a folder) includes itself and the rooms that MAY_INCLUDE lists;
  - a public header (include/sluice) includes no private one (src);
  - base, op and async include no library except the standard library;
  - only asio and src/serve/http include Boost, and no room includes asio;
  - only src/serve/http includes simdjson, and only src/serve/tls OpenSSL;
  - one file of the tool includes MPI;
  - a project include names a file that exists.
A header directly in include/sluice combines rooms: it may include any of them, and no room may include it.
"""

import pathlib
import re
import sys
import tempfile

FOUNDATIONS = {"base", "op", "async"}
GROUND = FOUNDATIONS | {"io"}
BACKENDS = {"cpu", "cuda", "sim"}
MAY_INCLUDE = {
    "base": set(),
    "op": {"base"},
    "async": {"base"},
    "io": {"base"},
    "runtime": GROUND,
    "trace": GROUND | {"runtime"},
    "drawing": GROUND | {"runtime", "trace"},
    "cpu": GROUND | {"runtime"},
    "cuda": GROUND | {"runtime"},
    "sim": GROUND | {"runtime", "trace"},
    "devices": GROUND | {"runtime"} | BACKENDS,
    "graph": GROUND | {"runtime"} | BACKENDS,
    "kernels": GROUND | {"runtime"} | BACKENDS,
    "nn": GROUND | {"runtime", "devices", "graph", "kernels"} | BACKENDS,
    "serve": GROUND | {"runtime", "devices", "graph", "kernels", "nn", "trace", "cuda"},
    "profiling": GROUND | {"runtime", "trace", "nn"},
    "check": GROUND,
    "asio": GROUND | {"runtime"},
    "senders": GROUND | {"runtime"},
    "c": GROUND | {"runtime", "nn", "profiling", "cuda"},
}
TOP = "the top"  # sluice/*.hpp
APPS = "apps"
ADAPTOR = "asio"
ADAPTORS = (ADAPTOR, "senders")  # optional: nothing else includes them
SERVE = "serve"
HTTP = pathlib.Path("src/serve/http")
TLS = pathlib.Path("src/serve/tls")
MPI = pathlib.Path("apps/sluice/distributed/mpi.cpp")
MAY_INCLUDE[TOP] = set(MAY_INCLUDE) - {SERVE, "check"}
MAY_INCLUDE[APPS] = set(MAY_INCLUDE)  # now with TOP

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu", ".h"}


def room_of(path):
    """The room of a file, given its path from the repository's root."""
    if path.parts[0] == "apps":
        return APPS
    inside = path.parts[2:] if path.parts[:2] == ("include", "sluice") else path.parts[1:]
    return inside[0] if len(inside) > 1 else TOP


def resolve(root, source, bracket, name):
    """The path from the root of the project file that an include names; None for other files."""
    places = [root / "include"]
    if not source.is_relative_to("include"):
        places.append(root / "src")
    if source.is_relative_to(APPS):
        places.append(root / APPS)
    if bracket == '"':
        places.insert(0, (root / source).parent)
    for place in places:
        candidate = (place / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root)
    return None


def includes_of(text):
    blank = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    for number, line in enumerate(blank.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def why_not(root, source, bracket, name):
    """The reason why this include is not allowed in this file; None if it is allowed."""
    room = room_of(source)
    target = resolve(root, source, bracket, name)
    public = source.is_relative_to("include")
    if target is None:
        if public and (root / "src" / name).is_file():
            return "a public header includes a private one"
        if bracket == '"' or name.startswith("sluice/"):
            return "no such file in the project (other libraries' headers go in angle brackets)"
        if room in FOUNDATIONS and re.search(r"[/.]", name):
            return f"{room} may include only project headers and the standard library"
        if name.startswith("boost/") and room != ADAPTOR and not source.is_relative_to(HTTP):
            return f"only asio and {HTTP} include Boost"
        if name == "simdjson.h" and not source.is_relative_to(HTTP):
            return f"only {HTTP} includes simdjson"
        if name.startswith("openssl/") and not source.is_relative_to(TLS):
            return f"only {TLS} includes OpenSSL"
        if name == "mpi.h" and source != MPI:
            return f"only {MPI} includes MPI"
        return None
    if public and not target.is_relative_to("include"):
        return "a public header includes a private one"
    if room == APPS and target.is_relative_to("src"):
        return "apps include only public headers"
    other = room_of(target)
    for adaptor in ADAPTORS:
        if room == TOP and source.name != f"{adaptor}.hpp" and (other == adaptor or target.name == f"{adaptor}.hpp"):
            return f"only sluice/{adaptor}.hpp includes {adaptor}"
    if other != room and other not in MAY_INCLUDE[room]:
        return f"{room} may not include {other}"
    return None


def violations(root):
    root = root.resolve()
    found = []
    for top in ("include/sluice", "src", "apps"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            source = path.relative_to(root)
            if room_of(source) not in MAY_INCLUDE:
                found.append(f"{source}: the room '{room_of(source)}' is not known; add it to include_directions.py")
                continue
            for number, bracket, name in includes_of(path.read_text(encoding="utf-8")):
                reason = why_not(root, source, bracket, name)
                if reason:
                    found.append(f"{source}:{number}: {name}: {reason}")
    return found


HEALTHY = {
    "include/sluice/op/value.hpp": "#include <utility>\n",
    "include/sluice/op/then.hpp": '#include <sluice/op/value.hpp>\n// #include "sluice/nn/engine.hpp"\n',
    "include/sluice/async/task.hpp": "#include <coroutine>\n",
    "include/sluice/base/error.hpp": "#include <string>\n",
    "include/sluice/io/atomic_file.hpp": '#include "sluice/base/error.hpp"\n',
    "include/sluice/trace/recorder.hpp": '#include "sluice/runtime/stream.hpp"\n',
    "include/sluice/drawing/timeline.hpp": '#include "sluice/trace/recorder.hpp"\n',
    "include/sluice/runtime/stream.hpp": '#include "sluice/op/value.hpp"\n#include "sluice/async/task.hpp"\n',
    "include/sluice/cpu/device.hpp": '#include "sluice/runtime/stream.hpp"\n',
    "include/sluice/cuda/device.hpp": '#include <cuda_runtime.h>\n#include "sluice/runtime/stream.hpp"\n',
    "include/sluice/sim/device.hpp": '#include "sluice/async/task.hpp"\n',
    "include/sluice/graph/recorder.hpp": '#include "sluice/cpu/device.hpp"\n/*\n#include "sluice/nn/engine.hpp"\n*/\n',
    "include/sluice/kernels/gemm.hpp": '#include "sluice/cuda/device.hpp"\n',
    "include/sluice/nn/engine.hpp": '#include "sluice/graph/recorder.hpp"\n#include "sluice/kernels/gemm.hpp"\n',
    "include/sluice/c/sluice.h": "#include <stdint.h>\n",
    "src/c/network.cpp": '#include "sluice/c/sluice.h"\n#include "sluice/nn/engine.hpp"\n',
    "include/sluice/asio/wait.hpp": '#include <boost/asio.hpp>\n#include "sluice/runtime/stream.hpp"\n',
    "include/sluice/asio.hpp": '#include "sluice/asio/wait.hpp"\n',
    "include/sluice/senders/as_sender.hpp": '#include "sluice/runtime/stream.hpp"\n',
    "include/sluice/sluice.hpp": '#include "sluice/nn/engine.hpp"\n',
    "include/sluice/serve/server.hpp": '#include "sluice/nn/engine.hpp"\n',
    "src/serve/http/loop.cpp": (
        '#include <boost/asio.hpp>\n#include <simdjson.h>\n#include "sluice/serve/server.hpp"\n'
    ),
    "src/cuda/api/check.hpp": "",
    "src/cuda/device.cpp": (
        '#include "sluice/cuda/device.hpp"\n#include "cuda/api/check.hpp"\n#include "api/check.hpp"\n'
    ),
    "apps/sluice/options.hpp": "",
    "apps/sluice/distributed/mpi.cpp": '#include "sluice/options.hpp"\n#include <mpi.h>\n',
    "apps/sluice/main.cpp": '#include "options.hpp"\n#include <sluice/sluice.hpp>\n#include <CLI/CLI.hpp>\n',
}

PLANTED = [  # file, include, the reason that must be given
    ("include/sluice/op/value.hpp", '"sluice/runtime/stream.hpp"', "op may not include runtime"),
    ("include/sluice/op/value.hpp", "<cuda_runtime.h>", "op may include only"),
    ("include/sluice/op/value.hpp", '"sluice/async/task.hpp"', "op may not include async"),
    ("include/sluice/async/task.hpp", '"sluice/op/value.hpp"', "async may not include op"),
    ("include/sluice/async/task.hpp", '"sluice/runtime/stream.hpp"', "async may not include runtime"),
    ("include/sluice/async/task.hpp", "<boost/asio.hpp>", "async may include only"),
    ("include/sluice/runtime/stream.hpp", "<sluice/cpu/device.hpp>", "runtime may not include cpu"),
    ("include/sluice/io/atomic_file.hpp", '"sluice/runtime/stream.hpp"', "io may not include runtime"),
    ("include/sluice/op/value.hpp", '"sluice/io/atomic_file.hpp"', "op may not include io"),
    ("include/sluice/base/error.hpp", '"sluice/op/value.hpp"', "base may not include op"),
    ("include/sluice/runtime/stream.hpp", '"sluice/trace/recorder.hpp"', "runtime may not include trace"),
    ("include/sluice/trace/recorder.hpp", '"sluice/drawing/timeline.hpp"', "trace may not include drawing"),
    ("include/sluice/drawing/timeline.hpp", '"sluice/graph/recorder.hpp"', "drawing may not include graph"),
    ("include/sluice/cpu/device.hpp", '"sluice/trace/recorder.hpp"', "cpu may not include trace"),
    ("include/sluice/cpu/device.hpp", '"sluice/cuda/device.hpp"', "cpu may not include cuda"),
    ("include/sluice/cuda/device.hpp", '"../sim/device.hpp"', "cuda may not include sim"),
    ("include/sluice/sim/device.hpp", '"sluice/cpu/device.hpp"', "sim may not include cpu"),
    ("include/sluice/graph/recorder.hpp", '"sluice/kernels/gemm.hpp"', "graph may not include kernels"),
    ("include/sluice/devices/shard.hpp", '"sluice/graph/recorder.hpp"', "devices may not include graph"),
    ("include/sluice/kernels/gemm.hpp", '"sluice/graph/recorder.hpp"', "kernels may not include graph"),
    ("include/sluice/kernels/gemm.hpp", '"sluice/nn/engine.hpp"', "kernels may not include nn"),
    ("include/sluice/nn/engine.hpp", '"sluice/sluice.hpp"', "nn may not include the top"),
    ("include/sluice/nn/engine.hpp", '"sluice/asio/wait.hpp"', "nn may not include asio"),
    ("include/sluice/asio/wait.hpp", '"sluice/nn/engine.hpp"', "asio may not include nn"),
    ("include/sluice/senders/as_sender.hpp", '"sluice/nn/engine.hpp"', "senders may not include nn"),
    ("src/profiling/profile.cpp", '"sluice/drawing/timeline.hpp"', "profiling may not include drawing"),
    ("src/nn/engine.cpp", '"sluice/c/sluice.h"', "nn may not include c"),
    ("src/check/checker.cpp", '"sluice/runtime/stream.hpp"', "check may not include runtime"),
    ("src/c/network.cpp", '"sluice/sim/device.hpp"', "c may not include sim"),
    ("include/sluice/runtime/stream.hpp", "<boost/asio.hpp>", "include Boost"),
    ("include/sluice/sluice.hpp", "<boost/asio.hpp>", "include Boost"),
    ("include/sluice/sluice.hpp", '"sluice/serve/server.hpp"', "may not include serve"),
    ("include/sluice/nn/engine.hpp", '"sluice/serve/server.hpp"', "nn may not include serve"),
    ("include/sluice/serve/server.hpp", "<boost/asio.hpp>", "include Boost"),
    ("src/serve/server.cpp", "<simdjson.h>", "includes simdjson"),
    ("src/serve/server.cpp", '"sluice/asio/wait.hpp"', "serve may not include asio"),
    ("include/sluice/sluice.hpp", '"sluice/asio/wait.hpp"', "only sluice/asio.hpp includes asio"),
    ("include/sluice/sluice.hpp", '"sluice/asio.hpp"', "only sluice/asio.hpp includes asio"),
    ("include/sluice/sluice.hpp", '"sluice/senders/as_sender.hpp"', "only sluice/senders.hpp includes senders"),
    ("include/sluice/cuda/device.hpp", '"cuda/api/check.hpp"', "a public header includes a private one"),
    ("include/sluice/cuda/device.hpp", '"../../../src/cuda/api/check.hpp"', "a public header includes a private one"),
    ("src/runtime/runtime.cpp", '"cuda/api/check.hpp"', "runtime may not include cuda"),
    ("src/nn/engine.cpp", '"../../apps/sluice/options.hpp"', "nn may not include apps"),
    ("src/nn/engine.cpp", '"sluice/nn/gone.hpp"', "no such file"),
    ("src/odds/end.cpp", "<vector>", "the room 'odds' is not known"),
    ("apps/sluice/main.cpp", "<mpi.h>", "includes MPI"),
    ("apps/sluice/main.cpp", '"cuda/api/check.hpp"', "apps include only public headers"),
]


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def self_test():
    planted_in = {room_of(pathlib.Path(name)) for name, _, _ in PLANTED}
    failures = [f"nothing is planted in the room '{room}'" for room in MAY_INCLUDE if room not in planted_in]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        plant(root, HEALTHY)
        for line in violations(root):
            failures.append(f"found in a healthy tree: {line}")
    for name, include, reason in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root, HEALTHY | {name: HEALTHY.get(name, "") + f"#include {include}\n"})
            found = violations(root)
            if len(found) != 1 or reason not in found[0]:
                failures.append(f"{name} with {include}: expected '{reason}', found {found}")
    return failures


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    problems = self_test() if arguments[0] == "--self-test" else violations(pathlib.Path(arguments[0]))
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
