"""What Sluice costs next to ONNX Runtime, OpenVINO and Taskflow: sizes, import, first answer, compile time, dependencies.

    costs.py FOLDER > costs.json

FOLDER is what scripts/bench_costs makes: `prefix` (Sluice, installed and stripped), `wheels`, the virtual environments
`ours`, `onnxruntime` and `openvino`, each with the package and what pip installs with it, `taskflow`, a folder of headers,
and `classify`, a program in C. Prints one JSON object: `machine`, `date`, `commit`, `versions`, and `rows`. A row has
`cost`, `unit`, and a value for each side that has one.

Times are CPU time, user and system of the whole process with its threads, because other processes of the machine change
it little; wall time is in rows of its own. Each is the best of several runs. costs_table.py writes a table of them.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/digits.onnx"
RUNS = 20
COMPILATIONS = 3
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libpython.*)[.\-]")

FIRST_ANSWER = {
    "ours": "import numpy, sluice\nprint(sluice.load({model!r})(numpy.zeros((1, 64), numpy.float32)).shape)",
    "onnxruntime": "import numpy, onnxruntime\nsession = onnxruntime.InferenceSession({model!r})\n"
                   "print(session.run(None, {{'input': numpy.zeros((1, 64), numpy.float32)}})[0].shape)",
    "openvino": "import numpy, openvino\nnetwork = openvino.Core().compile_model({model!r}, 'CPU')\n"
                "print(network([numpy.zeros((1, 64), numpy.float32)])[0].shape)",
}
MODULES = {"ours": "sluice", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def python(folder, side):
    return str(folder / side / "bin/python")


def site_packages(folder, side):
    return next((folder / side / "lib").glob("python3*/site-packages"))


def run(command, **options):
    """Returns (output, CPU seconds, wall seconds, greatest resident memory in bytes) of a command that must succeed."""
    with tempfile.TemporaryFile() as output:
        begin = time.monotonic()
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed ({child.returncode}):\n{text}")
    return text, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024


def best(command, runs, must_print=None, **options):
    """The least CPU time, wall time and memory of several runs, after one that is not counted."""
    run(command, **options)
    seen = []
    for _ in range(runs):
        text, *numbers = run(command, **options)
        if must_print and must_print not in text:
            sys.exit(f"{' '.join(map(str, command))} did not print {must_print!r}:\n{text}")
        seen.append(numbers)
    return [min(each) for each in zip(*seen)]


def shared_libraries(folder):
    """The shared libraries under a folder; those with two names once."""
    return {path.resolve() for path in folder.rglob("*") if re.search(r"\.so(\.|$)", path.name) and path.is_file()}


def total(paths):
    return sum(path.stat().st_size for path in paths)


def folder_size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*")
               if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts)


def package_folders(folder, side):
    """The folders of a wheel itself, without those of its dependencies."""
    packages = site_packages(folder, side)
    return [path for path in (packages / MODULES[side], packages / f"{MODULES[side]}.libs") if path.is_dir()]


def mapped_libraries(folder, side):
    """The wheel's shared libraries that a process has loaded after its first answer."""
    code = FIRST_ANSWER[side].format(model=str(MODEL)) + "\nprint(open('/proc/self/maps').read())"
    text = run([python(folder, side), "-c", code])[0]
    homes = [str(each) for each in package_folders(folder, side)]
    found = {line.split(None, 5)[5] for line in text.splitlines() if ".so" in line and len(line.split(None, 5)) == 6}
    return [pathlib.Path(path) for path in found if any(path.startswith(home + "/") for home in homes)]


def needed(library):
    """The names of the shared libraries that a file needs, with those that they need, without the C and C++ runtimes."""
    lines = run(["ldd", str(library)])[0].splitlines()
    return sorted(name for name in (line.split()[0].split("/")[-1] for line in lines if line.strip())
                  if not SYSTEM.match(name))


def sizes(folder):
    prefix = folder / "prefix"
    library = next(prefix.rglob("libsluice_c.so.1"))
    yield dict(cost="the C library with its reader of ONNX files, stripped; without oneDNN and protobuf", unit="bytes",
               ours=library.resolve().stat().st_size)
    yield dict(cost="the tool, stripped; without the shared libraries that it needs", unit="bytes",
               ours=(prefix / "bin/sluice").stat().st_size)
    yield dict(cost="headers", unit="bytes", ours=folder_size(prefix / "include/sluice"),
               openvino=folder_size(site_packages(folder, "openvino") / "openvino/include"),
               taskflow=folder_size(folder / "taskflow/taskflow"))
    sides = list(MODULES)
    yield dict(cost="the wheel, installed", unit="bytes",
               **{side: sum(map(folder_size, package_folders(folder, side))) for side in sides})
    yield dict(cost="shared libraries in the wheel", unit="bytes",
               **{side: sum(total(shared_libraries(each)) for each in package_folders(folder, side)) for side in sides})
    yield dict(cost="of these, loaded when a network runs on the CPU", unit="bytes",
               **{side: total(mapped_libraries(folder, side)) for side in sides})
    yield dict(cost="the wheel with all that pip installs with it", unit="bytes",
               **{side: sum(folder_size(site_packages(folder, side) / each) for each in installed_folders(folder, side))
                  for side in sides})


def installed_folders(folder, side):
    """The folders in site-packages but for those of the tools of a new virtual environment."""
    return [path.name for path in site_packages(folder, side).iterdir()
            if path.is_dir() and not re.match(r"(pip|setuptools|pkg_resources|_distutils_hack|__pycache__)", path.name)]


def dependencies(folder):
    def by_pip(side):
        listed = json.loads(run([python(folder, side), "-m", "pip", "list", "--format=json",
                                 "--disable-pip-version-check"])[0])
        names = {each["name"].lower() for each in listed}
        return len(names - {"pip", "setuptools", "wheel", MODULES[side]})

    prefix = folder / "prefix"
    library = needed(next(prefix.rglob("libsluice_c.so.1")))
    tool = needed(prefix / "bin/sluice")
    yield dict(cost="Python packages that pip installs with the wheel", unit="packages",
               **{side: by_pip(side) for side in MODULES})
    yield dict(cost="shared libraries that the C library needs, but for the C and C++ runtimes", unit="libraries",
               ours=len(library), names=library)
    yield dict(cost="shared libraries that the tool needs, but for the C and C++ runtimes", unit="libraries",
               ours=len(tool), names=tool)
    yield dict(cost="libraries that a C++ program links besides", unit="libraries", ours=len(libraries_of_pkg_config(folder)),
               taskflow=0, names=libraries_of_pkg_config(folder))


def libraries_of_pkg_config(folder):
    text = next((folder / "prefix").rglob("sluice.pc")).read_text()
    return [name for name in re.findall(r"(?:^|\s)-l(\S+)", text) if name != "sluice"]


def imports(folder):
    cpu, wall = dict(cost="`import`: CPU time of the process less that of `python -c pass`", unit="ms"), dict(
        cost="`import`: by `python -X importtime`, with NumPy where it is imported", unit="ms")
    alone = dict(cost="`import numpy` alone, in each environment, by `python -X importtime`", unit="ms")
    for side, module in MODULES.items():
        nothing = best([python(folder, side), "-c", "pass"], RUNS)[0]
        cpu[side] = 1e3 * (best([python(folder, side), "-c", f"import {module}"], RUNS)[0] - nothing)
        wall[side] = import_time(folder, side, module)
        alone[side] = import_time(folder, side, "numpy")
    return [cpu, wall, alone]


def import_time(folder, side, module):
    """Milliseconds, the best of several."""
    seen = []
    for _ in range(RUNS):
        text = run([python(folder, side), "-X", "importtime", "-c", f"import {module}"])[0]
        # A module's line comes after those of what it imports. Not the last of all: OpenVINO imports more when the process
        # ends. The time of a module includes what it imports.
        line = [each for each in text.splitlines() if re.match(rf"import time:.*\|\s+{module}$", each)][-1]
        seen.append(int(line.split("|")[1]) / 1e3)
    return min(seen)


def first_answers(folder):
    with tempfile.TemporaryDirectory() as work:
        row = pathlib.Path(work) / "row.npy"
        run([python(folder, "ours"), "-c", f"import numpy; numpy.save({str(row)!r}, numpy.zeros((1, 64), numpy.float32))"])
        measured = {side: best([python(folder, side), "-c", code.format(model=str(MODEL))], RUNS, "(1, 10)")
                    for side, code in FIRST_ANSWER.items()}
        tool = best([str(folder / "prefix/bin/sluice"), "run", str(MODEL), str(row), "--device", "cpu"], RUNS)
        in_c = best([str(folder / "classify"), str(MODEL)], RUNS, "10 numbers",
                    env=dict(os.environ, LD_LIBRARY_PATH=str(next((folder / "prefix").rglob("libsluice_c.so.1")).parent)))
    what = "a process that loads models/digits.onnx and answers one row"
    for at, (name, unit, factor) in enumerate((("CPU time", "ms", 1e3), ("wall time", "ms", 1e3),
                                               ("greatest resident memory", "bytes", 1))):
        yield dict(cost=f"{what}, from Python: {name}", unit=unit,
                   **{side: factor * numbers[at] for side, numbers in measured.items()})
        yield dict(cost=f"{what}, by the tool: {name}", unit=unit, ours=factor * tool[at])
        yield dict(cost=f"{what}, a program in C: {name}", unit=unit, ours=factor * in_c[at])


def compilations(folder):
    """CPU time of g++ -O2 -c, and lines after preprocessing, of files of a few lines."""
    launch = (ROOT / "tests/install/consumer/kernel.cu").read_text()
    sources = {
        "a file that includes the umbrella header": {
            "ours": "#include <sluice/sluice.hpp>\n", "taskflow": "#include <taskflow/taskflow.hpp>\n",
            "openvino": "#include <openvino/openvino.hpp>\n"},
        "a file with only what a launch needs": {
            "ours": "".join(line + "\n" for line in launch.splitlines() if line.startswith("#include"))},
        "a file with one pipeline of upload, kernel and download, or one graph of three tasks": {
            "ours": launch,
            "taskflow": "#include <taskflow/taskflow.hpp>\nvoid three(tf::Executor& executor, int& x) {\n"
                        "tf::Taskflow flow;\nauto [a, b, c] = flow.emplace([&] { x = 1; }, [&] { x *= 2; }, [&] { x += 1; });\n"
                        "a.precede(b);\nb.precede(c);\nexecutor.run(flow).wait();\n}\n"},
    }
    folders = {"ours": folder / "prefix/include", "taskflow": folder / "taskflow",
               "openvino": site_packages(folder, "openvino") / "openvino/include"}
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "file.cpp"
        for what, texts in sources.items():
            seconds, lines = dict(cost=f"compiling {what}: CPU time", unit="s"), dict(
                cost=f"{what}: lines after preprocessing", unit="lines")
            for side, text in texts.items():
                source.write_text(text)
                command = ["g++", "-std=c++20", "-O2", "-isystem", str(folders[side]), str(source)]
                seconds[side] = best(command + ["-c", "-o", "/dev/null"], COMPILATIONS)[0]
                lines[side] = run(command + ["-E", "-P"])[0].count("\n")
            yield seconds
            yield lines


def machine():
    with open("/proc/cpuinfo") as info:
        name = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def versions(folder):
    seen = {"python": platform.python_version(), "g++": run(["g++", "-dumpfullversion"])[0].strip()}
    for side, module in MODULES.items():
        seen[side] = run([python(folder, side), "-c", f"import importlib.metadata as m; print(m.version({module!r}))"])[0].strip()
    text = (folder / "taskflow/taskflow/core/taskflow.hpp").read_text() + (folder / "taskflow/taskflow/taskflow.hpp").read_text()
    found = re.search(r"#define TF_VERSION\s+(\d+)", text)
    number = int(found[1]) if found else 0
    seen["taskflow"] = f"{number // 100000}.{number // 100 % 1000}.{number % 100}"
    return seen


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: costs.py FOLDER (scripts/bench_costs makes it)")
    folder = pathlib.Path(sys.argv[1]).resolve()
    for each in ("prefix/bin/sluice", "classify", "taskflow/taskflow/taskflow.hpp", *(f"{side}/bin/python" for side in MODULES)):
        if not (folder / each).exists():
            sys.exit(f"costs.py: there is no {folder / each}; scripts/bench_costs makes it")
    rows = [dict(cost="the wheel, compressed", unit="bytes",
                 **{side: next(folder.glob(f"wheels/{MODULES[side]}-*.whl")).stat().st_size for side in MODULES})]
    for part in (sizes, dependencies, imports, first_answers, compilations):
        print(part.__name__, file=sys.stderr)
        rows += part(folder)
    print(json.dumps(dict(machine=machine(), date=datetime.date.today().isoformat(),
                          commit=os.environ.get("SLUICE_COMMIT", "unknown"), load=os.getloadavg(),
                          versions=versions(folder), runs=RUNS, compilations=COMPILATIONS, rows=rows), indent=1))


if __name__ == "__main__":
    main()
