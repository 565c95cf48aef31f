#!/usr/bin/env python3
"""Checks that a source includes the standard headers of the std:: names that it uses, and no others.

    standard_includes.py REPOSITORY             prints each mistake in the sources (.cpp), and fails
    standard_includes.py REPOSITORY --headers   prints those of the headers (.hpp), and succeeds
    standard_includes.py --self-test            plants mistakes in a temporary tree, and fails unless each is found

Sources are the .cpp files in src, apps and examples. A name is included when the source includes its standard header, or
includes a header of the project that does. What those headers include in turn does not count. Names that many headers
declare (std::size_t, std::swap, std::less) are not checked; a header is called unnecessary only when all that it
declares is known here.
"""

import pathlib
import re
import sys
import tempfile

# Each header with its names, and with a pattern of other things for which it is included. Headers with a pattern of None
# declare more than is listed, and are never called unnecessary.
HEADERS = {
    "algorithm": ("all_of any_of none_of for_each for_each_n find find_if find_if_not count count_if mismatch equal copy "
                  "copy_n copy_if copy_backward fill fill_n transform generate generate_n remove remove_if replace "
                  "replace_if reverse reverse_copy rotate unique sort stable_sort partial_sort nth_element lower_bound "
                  "upper_bound binary_search equal_range merge includes set_difference set_intersection push_heap "
                  "pop_heap make_heap sort_heap max min minmax max_element min_element minmax_element clamp "
                  "is_sorted is_permutation next_permutation lexicographical_compare partition stable_partition "
                  "adjacent_find search shuffle sample swap_ranges iter_swap", r"std::ranges::|std::move\([^()]*,|std::move_backward"),
    "any": ("any any_cast make_any bad_any_cast", ""),
    "array": ("array to_array", ""),
    "atomic": ("atomic atomic_ref atomic_flag atomic_bool atomic_int memory_order memory_order_relaxed memory_order_acquire "
               "memory_order_release memory_order_acq_rel memory_order_seq_cst atomic_thread_fence", ""),
    "barrier": ("barrier", ""),
    "bit": ("bit_cast bit_ceil bit_floor bit_width has_single_bit countl_zero countr_zero countl_one countr_one popcount "
            "endian rotl rotr", ""),
    "cctype": ("isalnum isalpha isdigit isspace isupper islower tolower toupper isxdigit isprint iscntrl ispunct", None),
    "charconv": ("from_chars to_chars from_chars_result to_chars_result chars_format", ""),
    "chrono": ("chrono chrono_literals", r"std::literals"),
    "cmath": ("sqrt exp log log2 log10 log1p expm1 pow sin cos tan tanh sinh cosh floor ceil round lround llround rint nearbyint trunc fmod "
              "isnan isinf isfinite signbit copysign fma ldexp frexp erf lgamma hypot nextafter nextafterf cbrt exp2 "
              "atan2 fabs fmax fmin fdim remainder asin acos atan asinh acosh atanh", None),
    "compare": ("strong_ordering weak_ordering partial_ordering", None),
    "condition_variable": ("condition_variable condition_variable_any cv_status", ""),
    "coroutine": ("coroutine_handle suspend_always suspend_never coroutine_traits noop_coroutine", r"co_await|co_return|co_yield"),
    "cstdarg": ("va_list", None),
    "cstdio": ("printf fprintf snprintf vsnprintf puts fputs fputc putchar fopen fclose fread fwrite fflush fseek ftell perror rename "
               "fgets sscanf setvbuf", None),
    "cstdlib": ("getenv abort exit atexit strtol strtoul strtoull strtod malloc free _Exit quick_exit", None),
    "cstring": ("memcpy memset memcmp memmove memchr strlen strcmp strncmp strchr strrchr strstr strerror strcpy", None),
    "deque": ("deque", ""),
    "exception": ("exception_ptr current_exception rethrow_exception make_exception_ptr terminate uncaught_exceptions "
                  "nested_exception throw_with_nested rethrow_if_nested set_terminate", r"std::exception\b"),
    "filesystem": ("filesystem", ""),
    "forward_list": ("forward_list", ""),
    "fstream": ("ifstream ofstream fstream filebuf", ""),
    "functional": ("function bind ref cref reference_wrapper plus minus multiplies divides greater less equal_to less_equal "
                   "greater_equal invoke hash negate bit_or logical_or logical_and identity not_fn mem_fn", None),
    "future": ("promise future shared_future packaged_task async future_error future_status", ""),
    "initializer_list": ("initializer_list", ""),
    "iomanip": ("setw setprecision setfill quoted put_time get_time hexfloat", None),
    "iostream": ("cout cerr cin clog", ""),
    "iterator": ("back_inserter front_inserter inserter istreambuf_iterator istream_iterator ostream_iterator distance advance "
                 "make_move_iterator move_iterator reverse_iterator make_reverse_iterator", None),
    "latch": ("latch", ""),
    "limits": ("numeric_limits", ""),
    "list": ("list", ""),
    "map": ("map multimap", ""),
    "memory": ("unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this static_pointer_cast "
               "dynamic_pointer_cast addressof construct_at destroy_at destroy destroy_n uninitialized_copy allocator_traits "
               "make_unique_for_overwrite uninitialized_fill owner_less default_delete assume_aligned", None),
    "mutex": ("mutex recursive_mutex timed_mutex lock_guard unique_lock scoped_lock call_once once_flag defer_lock adopt_lock "
              "try_to_lock", ""),
    "new": ("bad_alloc nothrow launder align_val_t get_new_handler set_new_handler bad_array_new_length", None),
    "numbers": ("numbers", ""),
    "numeric": ("accumulate iota reduce transform_reduce inner_product partial_sum inclusive_scan exclusive_scan gcd lcm "
                "adjacent_difference midpoint", ""),
    "optional": ("optional nullopt nullopt_t make_optional bad_optional_access", ""),
    "ostream": ("endl flush", None),
    "queue": ("queue priority_queue", ""),
    "random": ("mt19937 mt19937_64 random_device uniform_int_distribution uniform_real_distribution normal_distribution "
               "bernoulli_distribution minstd_rand seed_seq discrete_distribution", ""),
    "ranges": ("views", r"std::ranges::"),
    "regex": ("regex regex_match regex_search smatch regex_replace", ""),
    "semaphore": ("counting_semaphore binary_semaphore", ""),
    "set": ("set multiset", ""),
    "shared_mutex": ("shared_mutex shared_lock shared_timed_mutex", ""),
    "source_location": ("source_location", ""),
    "span": ("span as_bytes as_writable_bytes dynamic_extent", ""),
    "sstream": ("stringstream istringstream ostringstream", ""),
    "stack": ("stack", ""),
    "stdexcept": ("runtime_error logic_error invalid_argument out_of_range length_error domain_error overflow_error range_error", ""),
    "stop_token": ("stop_token stop_source stop_callback nostopstate", ""),
    "string": ("string to_string stoi stol stoll stoul stoull stof stod getline", r"std::(u8|w)string|char_traits|string_literals"),
    "string_view": ("string_view", r"string_view_literals"),
    "system_error": ("error_code error_category system_error error_condition generic_category system_category make_error_code "
                     "is_error_code_enum errc", ""),
    "thread": ("thread jthread this_thread", ""),
    "tuple": ("tuple make_tuple tie get_if_tuple tuple_cat apply forward_as_tuple make_from_tuple", None),
    "typeindex": ("type_index", ""),
    "typeinfo": ("type_info bad_cast", r"\btypeid\b"),
    "unordered_map": ("unordered_map unordered_multimap", ""),
    "unordered_set": ("unordered_set unordered_multiset", ""),
    "variant": ("variant visit holds_alternative monostate variant_alternative_t variant_size_v bad_variant_access get_if", ""),
    "vector": ("vector", ""),
}
# Other headers that declare what these do, or that are of no use without it.
ELSEWHERE = {
    "system_error": {"string_view"},
    "ostream": {"iostream", "fstream", "sstream", "iomanip"},
    "initializer_list": {"vector", "string", "map", "set", "array", "deque", "list"},
    "iterator": {"vector", "string", "array", "map", "span", "deque", "string_view"},
    "new": {"memory"},
    "compare": {"utility"},
    "exception": {"future", "stdexcept"},
    "string": {"sstream", "fstream"},
    "cstdio": {"iostream"},
}
DECLARED_IN = {}
for header_, (names_, _) in HEADERS.items():
    for name_ in names_.split():
        DECLARED_IN.setdefault(name_, set()).add(header_)
# Declared by several headers, of which not all are listed above.
for ambiguous in ("hash", "errc", "make_error_code", "getline", "swap", "get_if", "equal", "begin", "end", "less", "greater", "exception"):
    DECLARED_IN.pop(ambiguous, None)

CODE = re.compile(r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
INCLUDE = re.compile(r"^\s*#\s*include\s*<([a-z_0-9]+)>", re.MULTILINE)
OWN = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
USED = re.compile(r"\bstd::(?:ranges::)?([a-z_0-9]+)")
FOLDERS = ("src", "apps", "examples")


def code_of(text):
    """The text without comments and literals; lines keep their numbers."""
    return CODE.sub(lambda match: "\n" * match.group().count("\n"), text)


def includes_of(text):
    return set(INCLUDE.findall(text))


def named_headers(root, path, text):
    """The project's headers that a file includes."""
    for name in OWN.findall(text):
        for folder in (path.parent, root / "include", root / "src", root / "apps"):
            if (folder / name).is_file():
                yield folder / name
                break


def mistakes(root, path):
    text = path.read_text("utf-8")
    code = code_of(text)
    own = includes_of(text)
    known = own.union(*(includes_of(header.read_text("utf-8")) for header in named_headers(root, path, text)))
    place = path.relative_to(root)
    reported = set()
    for number, line in enumerate(code.splitlines(), start=1):
        for match in USED.finditer(line):
            name = match.group(1)
            declared = DECLARED_IN.get(name, set())
            accepted = declared | set().union(*(ELSEWHERE.get(each, set()) for each in declared)) if declared else set()
            if declared and not accepted & known and not declared & reported:
                reported |= declared
                yield f"{place}:{number}: std::{name} is used: #include <{'> or <'.join(sorted(declared))}>"
    used = set(USED.findall(code))
    for each in sorted(own & set(HEADERS)):
        names, pattern = HEADERS[each]
        if pattern is None or used & set(names.split()) or (pattern and re.search(pattern, code)):
            continue
        yield f"{place}: nothing of <{each}> is used"


def files(root, suffix):
    folders = FOLDERS if suffix == ".cpp" else FOLDERS + ("include",)
    for folder in folders:
        yield from sorted((root / folder).rglob("*" + suffix))


def problems(root, suffix=".cpp"):
    return [line for path in files(root, suffix) for line in mistakes(root, path)]


HEALTHY = {
    "include/sluice/io/table.hpp": "#include <vector>\nstd::vector<int> column();\n",
    "src/io/rows.hpp": "#include <string>\nstd::string row();\n",
    "src/io/table.cpp": '#include "sluice/io/table.hpp"\n\n#include <map>\n#include <utility>\n\n#include "io/rows.hpp"\n'
                        "// std::regex\nauto text = \"std::regex\"; std::vector<int> v; std::string s; std::map<int, int> m;\n",
}
PLANTED = [  # what is added at the end or replaced, what is found
    ("", "std::optional<int> o;\n", "table.cpp:9: std::optional is used: #include <optional>"),
    ("", "std::ranges::sort(v);\n", "std::sort is used: #include <algorithm>"),
    ("std::map<int, int> m;", "", "table.cpp: nothing of <map> is used"),
    ('#include "io/rows.hpp"\n', "", "std::string is used: #include <string>"),
    ("#include <map>", "#include <thread>\n#include <map>", "nothing of <thread> is used"),
]


def self_test():
    failures = []
    for old, new, reason in [("", "", None)] + PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            for name, text in HEALTHY.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                changed = text.replace(old, new) if old else text + new
                (root / name).write_text(changed if name.endswith(".cpp") else text, "utf-8")
            found = problems(root)
        if found if reason is None else len(found) != 1 or reason not in found[0]:
            failures.append(f"{reason or 'a healthy tree'}: found {found}")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        found = self_test()
    elif len(arguments) == 1:
        found = problems(pathlib.Path(arguments[0]).resolve())
    elif len(arguments) == 2 and arguments[1] == "--headers":
        for line in problems(pathlib.Path(arguments[0]).resolve(), ".hpp"):
            print(line)
        return 0
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
