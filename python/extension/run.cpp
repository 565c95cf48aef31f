// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

namespace sluice::python {
namespace {

nb::handle await_function;  // kept for the process's life

const network& network_in(const nb::object& of) { return *nb::inst_ptr<network>(of); }

// "0.25 s"
std::string text_of(double seconds) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof(digits), seconds).ptr) + " s";
}

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

in_flight::in_flight(const array_inputs& inputs) : end_(std::make_shared<run_end>()) {
    for (const array_input& each : inputs.arrays)
        if (nb::object owner = each.device_owner(); owner.is_valid()) end_->keep(std::move(owner));
    at_end_ = std::make_unique<counted>(end_);
}

void in_flight::end(void* context) noexcept {
    const std::unique_ptr<counted> ended(static_cast<counted*>(context));
    ended->end->come();
}

run::run(nb::object of, PyObject* args, PyObject* kwargs) : network_(std::move(of)) {
    const network& what = network_in(network_);
    what.birth().require("this network");
    const work_in_flight call;
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
    const gil_given_away without_gil;
    sluice_run_destroy(handle_);
}

// Looks for signals ten times a second.
void run::wait(std::optional<double> seconds) const {
    constexpr double look = 0.1;
    using clock = std::chrono::steady_clock;
    const double most = std::min(seconds.value_or(HUGE_VAL), 1e9);
    const auto begin = clock::now();
    sluice_status status = sluice_run_wait(handle_, 0, nullptr);  // a run that is over gives its result at the end too
    while (status == SLUICE_TIMED_OUT) {
        const double left = most - std::chrono::duration<double>(clock::now() - begin).count();
        if (left <= 0) raise(SLUICE_TIMED_OUT, "the run is not complete after " + text_of(most));
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        const work_in_flight call;
        const nb::gil_scoped_release without_gil;
        status = sluice_run_wait(handle_, static_cast<std::int64_t>(std::min(left, look) * 1e9), nullptr);
    }
    check(status);
}

nb::object run::result(std::optional<double> seconds) {
    birth_.require("this run");
    if (seconds && !(*seconds >= 0)) raise(PyExc_ValueError, "timeout is a number of seconds, at least 0, or None");
    wait(seconds);
    if (arrays_.is_valid()) return arrays_;
    if (result_ == nullptr) {
        sluice_result* result = nullptr;
        check(sluice_run_wait(handle_, 0, &result));
        result_ = owned(result);
    }
    const result_ptr kept = result_;
    const nb::object made = arrays_of(network_in(network_), kept);
    if (!arrays_.is_valid()) arrays_ = made;  // else another thread was faster
    result_.reset();
    return arrays_;
}

nb::object submit(nb::handle of, PyObject* args, PyObject* kwargs) {
    return nb::cast(new run(nb::borrow(of), args, kwargs), nb::rv_policy::take_ownership);
}

void set_await_function(nb::object function) { await_function = function.release(); }

bool run::is_done() const {
    birth_.require("this run");
    return sluice_run_wait(handle_, 0, nullptr) != SLUICE_TIMED_OUT;
}

void run::add_done_callback(nb::object self, nb::object f) {
    birth_.require("this run");
    end_->add_callback(std::move(f), std::move(self));
}

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
