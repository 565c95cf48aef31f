// SPDX-License-Identifier: Apache-2.0
#include "failures.hpp"

#include <pthread.h>

#include <atomic>

namespace sluice::python {
namespace {

PyObject* types = nullptr;  // a tuple, kept for the process's life

// How many forks are between the first process and this one.
std::atomic<unsigned> forks{0};
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

}  // namespace

void set_error_types(nb::tuple by_status) { types = by_status.release().ptr(); }

void raise(sluice_status status) {
    const auto count = types != nullptr ? PyTuple_Size(types) : 0;
    PyObject* type = status > 0 && status < count ? PyTuple_GetItem(types, status) : PyExc_RuntimeError;
    PyErr_SetString(type, sluice_last_error());
    throw nb::python_error();
}

void raise(PyObject* type, const std::string& text) {
    PyErr_SetString(type, text.c_str());
    throw nb::python_error();
}

made_here::made_here() noexcept : forks_(forks.load(std::memory_order_relaxed)) { static_cast<void>(watches_forks); }

bool made_here::is_here() const noexcept { return forks_ == forks.load(std::memory_order_relaxed); }

void made_here::require(const char* what) const {
    if (is_here()) return;
    raise(PyExc_RuntimeError, std::string(what) +
                                  " was made before this process was forked, and its threads are not here: make it "
                                  "in this process, or start processes by 'spawn'");
}

}  // namespace sluice::python
