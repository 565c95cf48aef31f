// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

namespace sluice::python {
namespace {

nb::handle await_function;  // kept for the process's life

// A thread that asks for the GIL while the interpreter ends would be ended itself.
std::atomic<bool> is_shut_down{false};
// While a network computes, the process must not end: it destroys objects of the libraries that compute.
std::atomic<int> runs_in_flight{0};

void note_end() noexcept {
    runs_in_flight.fetch_sub(1);
    runs_in_flight.notify_all();
}

const network& network_in(const nb::object& of) { return *nb::inst_ptr<network>(of); }

}  // namespace

void run_end::callback::call() const noexcept {
    try {
        function(run);
    } catch (nb::python_error& thrown) {
        thrown.restore();
        PyErr_WriteUnraisable(function.ptr());
    } catch (...) {  // no memory for the call
    }
}

void run_end::add_callback(nb::object f, nb::object run) {
    const callback made{std::move(f), std::move(run)};
    {
        const std::lock_guard lock(mutex_);
        if (!is_there_) {
            callbacks_.push_back(made);
            return;
        }
    }
    made.call();
}

void run_end::come() noexcept {
    std::vector<callback> callbacks;
    std::vector<nb::object> kept;
    {
        const std::lock_guard lock(mutex_);
        is_there_ = true;
        callbacks.swap(callbacks_);
        kept.swap(kept_);
    }
    if (callbacks.empty() && kept.empty()) return;
    const nb::gil_scoped_acquire with_gil;
    for (const callback& each : callbacks) each.call();
    callbacks.clear();
    kept.clear();
}

void shut_down() {
    is_shut_down.store(true);
    const nb::gil_scoped_release without_gil;
    for (int now = runs_in_flight.load(); now != 0; now = runs_in_flight.load()) runs_in_flight.wait(now);
}

in_flight::in_flight(const array_inputs& inputs) : end_(std::make_shared<run_end>()) {
    for (const array_input& each : inputs.arrays)
        if (nb::object owner = each.device_owner(); owner.is_valid()) end_->keep(std::move(owner));
    at_end_ = std::make_unique<std::shared_ptr<run_end>>(end_);
    runs_in_flight.fetch_add(1);
    if (!is_shut_down.load()) return;
    note_end();
    raise(PyExc_RuntimeError, "the interpreter ends: nothing can be submitted any more");
}

in_flight::~in_flight() {
    if (at_end_ != nullptr) note_end();  // nothing was submitted
}

void in_flight::end(void* context) noexcept {
    const std::unique_ptr<std::shared_ptr<run_end>> end(static_cast<std::shared_ptr<run_end>*>(context));
    (*end)->come();
    note_end();
}

run::run(nb::object of, PyObject* args, PyObject* kwargs) : network_(std::move(of)) {
    const network& what = network_in(network_);
    what.birth().require("this network");
    const array_inputs inputs(what, args, kwargs);
    in_flight work(inputs);
    end_ = work.its_end();
    const auto come = [](sluice_run*, void* context) { in_flight::end(context); };
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_submit(what.handle(), inputs.tensors.data(), inputs.tensors.size(), come,
                                       work.context(), &handle_);
    }
    check(status);
    work.started();
}

run::~run() {
    if (!birth_.is_here()) return;
    const nb::gil_scoped_release without_gil;
    sluice_run_destroy(handle_);
}

// Looks for signals ten times a second.
void run::wait(std::optional<double> seconds) const {
    constexpr double look = 0.1;
    using clock = std::chrono::steady_clock;
    const double most = std::min(seconds.value_or(HUGE_VAL), 1e9);
    const auto begin = clock::now();
    for (;;) {
        const double left = most - std::chrono::duration<double>(clock::now() - begin).count();
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            const double now = std::clamp(left, 0.0, look);
            status = sluice_run_wait(handle_, static_cast<std::int64_t>(now * 1e9), nullptr);
        }
        if (status == SLUICE_TIMED_OUT && left > look) {
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            continue;
        }
        check(status);
        return;
    }
}

nb::object run::result(std::optional<double> seconds) {
    birth_.require("this run");
    if (seconds && !(*seconds >= 0)) raise(PyExc_ValueError, "timeout is a number of seconds, at least 0, or None");
    wait(seconds);
    if (arrays_.is_valid()) return arrays_;
    sluice_result* result = nullptr;
    check(sluice_run_wait(handle_, 0, &result));
    arrays_ = arrays_of(network_in(network_), owned(result));
    return arrays_;
}

nb::object submit(nb::handle of, PyObject* args, PyObject* kwargs) {
    return nb::cast(new run(nb::borrow(of), args, kwargs), nb::rv_policy::take_ownership);
}

void set_await_function(nb::object function) { await_function = function.release(); }

std::string run::text() const {
    const char* const state = !birth_.is_here() ? "of another process" : is_done() ? "over" : "running";
    return std::string("<sluice.Run on ") + network_in(network_).device() + ": " + state + ">";
}

void bind_run(nb::module_& in) {
    nb::class_<run>(in, "Run", nb::is_weak_referenceable(), "A run that was submitted: `await run`, or run.result().")
        .def(
            "result", &run::result, nb::arg("timeout") = nb::none(), nb::lock_self(),
            "Waits at most `timeout` seconds, without the GIL, and returns the outputs as net(x) does; raises what the "
            "run failed with, and TimedOutError. The same arrays at each call.")
        .def("done", &run::is_done, "Whether the run is complete or has failed. Does not wait.")
        .def(
            "add_done_callback",
            [](nb::object self, nb::object f) { nb::inst_ptr<run>(self)->add_done_callback(self, std::move(f)); },
            "Calls f(run) once the run is over, on a thread of the library; at once when it is over already.")
        .def(
            "__await__", [](nb::handle self) { return await_function(self); },
            "Waits in asyncio, while the event loop runs other tasks.")
        .def("__repr__", &run::text);
}

}  // namespace sluice::python
