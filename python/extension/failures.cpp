// SPDX-License-Identifier: Apache-2.0
#include "failures.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace sluice::python {
namespace {

PyObject *types = nullptr, *missing_file_type = nullptr;  // a tuple and a class, kept for the process's life

// How many forks are between the first process and this one.
std::atomic<unsigned> forks{0};
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

// The text without the name of a function of C at its beginning: "sluice_network_run: ...".
const char* text_without_function(const char* text) noexcept {
    if (std::strncmp(text, "sluice_", 7) != 0) return text;
    const char* const end = std::strstr(text, ": ");
    return end != nullptr ? end + 2 : text;
}

}  // namespace

void set_error_types(nb::tuple by_status, nb::object missing_file) {
    types = by_status.release().ptr();
    missing_file_type = missing_file.release().ptr();
}

void raise(sluice_status status) { raise(status, text_without_function(sluice_last_error())); }

void raise(sluice_status status, const std::string& text) {
    const auto count = types != nullptr ? PyTuple_Size(types) : 0;
    raise(status > 0 && status < count ? PyTuple_GetItem(types, status) : PyExc_RuntimeError, text);
}

void raise_of_file(sluice_status status, const nb::bytes& path) {
    if (status != SLUICE_IO_FAILED || access(path.c_str(), F_OK) == 0 || errno != ENOENT) raise(status);
    const nb::object name =
        nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.c_str(), static_cast<Py_ssize_t>(path.size())));
    const nb::object made = nb::handle(missing_file_type)(ENOENT, std::strerror(ENOENT), name);
    PyErr_SetObject(missing_file_type, made.ptr());
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
