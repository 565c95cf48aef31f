// SPDX-License-Identifier: Apache-2.0
// run: the class sluice.Run, a run of a network that was submitted.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "interpreter_end.hpp"
#include "network.hpp"

namespace sluice::python {

// What the end of a run needs, on a thread of the library: it takes the GIL only where Python has something to do.
class run_end {
public:
    // Calls f(run) after the end: now, or on the thread of the end. With the GIL.
    void add_callback(nb::object f, nb::object run);
    // Keeps the object until the end. Before the end can come.
    void keep(nb::object owner) { kept_.push_back(std::move(owner)); }
    // Not with the GIL.
    void come() noexcept;

private:
    struct callback {
        nb::object function, run;
        void call() const noexcept;
    };

    std::mutex mutex_;  // no Python code runs under it
    bool is_there_ = false;
    std::vector<callback> callbacks_;
    std::vector<nb::object> kept_;
};

// Work that the library does with memory of Python's: it keeps what owns the inputs on a GPU until the end, and the
// process waits for it before it ends.
class in_flight {
public:
    // Throws RuntimeError when the interpreter ends.
    explicit in_flight(const array_inputs& inputs);

    const std::shared_ptr<run_end>& its_end() const noexcept { return end_; }
    // For `end`, which has it from started() on.
    void* context() const noexcept { return at_end_.get(); }
    void started() noexcept { static_cast<void>(at_end_.release()); }
    // On any thread, not with the GIL.
    static void end(void* context) noexcept;

private:
    struct counted {
        explicit counted(std::shared_ptr<run_end> of) : end(std::move(of)) {}
        const work_in_flight work;  // ends last
        const std::shared_ptr<run_end> end;
    };

    const std::shared_ptr<run_end> end_;
    std::unique_ptr<counted> at_end_;
};

class run {
public:
    // Submits; `of` is the network's object.
    run(nb::object of, PyObject* args, PyObject* kwargs);
    run(const run&) = delete;  // owns the handle
    run& operator=(const run&) = delete;
    ~run();

    // Waits without the GIL; a signal's exception ends the wait. The same arrays at each call.
    nb::object result(std::optional<double> seconds);
    bool is_done() const;
    std::string text() const;
    void add_done_callback(nb::object self, nb::object f);

private:
    void wait(std::optional<double> seconds) const;

    const nb::object network_;
    const made_here birth_;
    std::shared_ptr<run_end> end_;  // never null
    sluice_run* handle_ = nullptr;
    result_ptr result_;  // from the first request until its arrays are made
    nb::object arrays_;
};

nb::object submit(nb::handle network, PyObject* args, PyObject* kwargs);

// The Python function that `await run` calls.
void set_await_function(nb::object function);
void bind_run(nb::module_& in);

}  // namespace sluice::python
