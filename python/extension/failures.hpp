// SPDX-License-Identifier: Apache-2.0
// Failures as Python's exceptions, and what is true of the process: forks and the interpreter's end.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // here, so that all files convert std::string in the same way
#include <sluice/c/sluice.h>

#include <string>

namespace sluice::python {

namespace nb = nanobind;

// The classes by number of sluice_status, and that of a file that is not there. Called once, when the package is
// imported.
void set_error_types(nb::tuple by_status, nb::object missing_file);

// Throws the exception of a status with the calling thread's text, or with another one.
[[noreturn]] void raise(sluice_status status);
[[noreturn]] void raise(sluice_status status, const std::string& text);
inline void check(sluice_status status) {
    if (status != SLUICE_OK) raise(status);
}
// The same of a function that loads a file: a file that is not there has a class of its own.
[[noreturn]] void raise_of_file(sluice_status status, const nb::bytes& path);
// Throws an exception of Python's own, e.g. PyExc_TypeError.
[[noreturn]] void raise(PyObject* type, const std::string& text);

// Calls f from a slot of a type, where no C++ exception may leave; returns what f returns, or `failed`.
template <typename Result, typename Function>
Result in_slot(Result failed, Function&& f) noexcept {
    try {
        return f();
    } catch (nb::python_error& thrown) {
        thrown.restore();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& thrown) {
        PyErr_SetString(PyExc_RuntimeError, thrown.what());
    }
    return failed;
}

// A process that was forked has none of the library's threads. What was made before the fork is refused there, and
// never destroyed: that would wait for the threads.
class made_here {
public:
    made_here() noexcept;
    bool is_here() const noexcept;
    void require(const char* what) const;  // throws RuntimeError

private:
    unsigned forks_;
};

}  // namespace sluice::python
