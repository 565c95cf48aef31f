// SPDX-License-Identifier: Apache-2.0
#include "interpreter_end.hpp"

#include <pthread.h>

#include <atomic>

namespace sluice::python {
namespace {

std::atomic<bool> is_shut_down{false};
// No thread of the library asks for the GIL any more.
std::atomic<bool> are_threads_quiet{false};
// While a network computes, the process must not end: it destroys objects of the libraries that compute.
std::atomic<int> calls_and_runs{0};
// The threads of the parent are not in its child.
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { calls_and_runs.store(0); });

void note_end() noexcept {
    calls_and_runs.fetch_sub(1);
    calls_and_runs.notify_all();
}

void wait_for_all() noexcept {
    for (int now = calls_and_runs.load(); now != 0; now = calls_and_runs.load()) calls_and_runs.wait(now);
}

}  // namespace

work_in_flight::work_in_flight() {
    static_cast<void>(watches_forks);
    calls_and_runs.fetch_add(1);
    if (!is_shut_down.load()) return;
    note_end();
    raise(PyExc_RuntimeError, "the interpreter ends: nothing can be submitted any more");
}

// Python code may fork inside a call: the child has not counted it.
work_in_flight::~work_in_flight() {
    if (birth_.is_here()) note_end();
}

gil_given_away::gil_given_away() noexcept {
    calls_and_runs.fetch_add(1);
    if (!are_threads_quiet.load()) {
        state_ = PyEval_SaveThread();
    } else {
        note_end();
    }
}

gil_given_away::~gil_given_away() {
    if (state_ == nullptr) return;
    PyEval_RestoreThread(state_);
    note_end();
}

void shut_down() {
    const nb::gil_scoped_release without_gil;
    is_shut_down.store(true);
    wait_for_all();
    are_threads_quiet.store(true);
    wait_for_all();  // for destructors that have begun
}

}  // namespace sluice::python
