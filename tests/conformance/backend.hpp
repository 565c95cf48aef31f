// SPDX-License-Identifier: Apache-2.0
// The fixture of the suites that every backend must pass.
//
// The tests do not depend on a backend: each is an instance of conformance_test and runs once for every backend in the
// executable's enrolment file. CONFORMANCE_SUITE(name) defines a suite of such tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/sluice.hpp"
#include "support/gate.hpp"

namespace sluice::conformance {

struct backend {
    std::string name;               // part of the test's name
    runtime_options options;        // for a runtime with this backend
    std::string device;             // the device that is tested
    std::string other_device;       // another one of the same runtime
    bool runs_concurrently = true;  // a stream continues while another is held
    unsigned slow_rounds = 1000;    // how many rounds a slow kernel spins: ten microseconds or more
    bool is_traced = false;         // with a trace recorder, which must change nothing
    bool is_compiled = false;       // operations run as graphs, which must change nothing either
};

// Whether an operation with this output can be a graph.
template <typename T>
inline constexpr bool is_graph_output = std::copy_constructible<T>;
template <typename T>
inline constexpr bool is_graph_output<std::vector<T>> = std::copy_constructible<T>;
template <typename T>
inline constexpr bool is_graph_output<tensor<T>> = true;
template <typename T>
inline constexpr bool is_graph_output<pending<T>> = true;
template <typename T>
inline constexpr bool is_graph_output<shared<tensor<T>>> = true;
template <typename... Ts>
inline constexpr bool is_graph_output<std::tuple<Ts...>> = (is_graph_output<Ts> && ...);

// Shared work: all copies are the same work, but a graph would run its own copy of it.
template <typename Op>
inline constexpr bool is_shared_work = false;
template <typename Source>
inline constexpr bool is_shared_work<share_operation<Source>> = true;
template <typename Source, typename Function>
inline constexpr bool is_shared_work<and_then_operation<Source, Function>> = is_shared_work<Source>;
template <typename... Parts>
inline constexpr bool is_shared_work<zip_operation<Parts...>> = (is_shared_work<Parts> || ...);

template <typename Op>
inline constexpr bool can_be_graph =
    std::copy_constructible<Op> && !is_host_driven<Op> && !is_shared_work<Op> && is_graph_output<output_of<Op>>;

// Otherwise the compiled backends would run everything eagerly without a sign of it.
inline constexpr bool are_operations_compiled = can_be_graph<decltype(upload(std::vector<float>()).and_then(download))>;

// Defined by each executable, in its enrolment file.
std::vector<backend> enrolled_backends();

inline std::string backend_name(const testing::TestParamInfo<backend>& instance) { return instance.param.name; }
inline void PrintTo(const backend& which, std::ostream* out) { *out << which.name; }

class conformance_test : public testing::TestWithParam<backend> {
protected:
    device& other_device() { return devices.find(GetParam().other_device); }
    unsigned slow() const { return GetParam().slow_rounds; }

    // The number of commands that may be queued after a gate: a GPU's queue is limited, and a recorder's marks fill it
    // too.
    unsigned max_queued_after_gate(unsigned wanted) const {
        return GetParam().is_traced && on.kind() == device_kind::cuda ? std::min(wanted, 40u) : wanted;
    }

    // Device and host memory in use.
    std::size_t bytes_in_use() { return on.device_pool().usage().in_use_bytes + on.host_pool().usage().in_use_bytes; }

    // Replaces sluice::sync. With a compiled backend, an operation that can be recorded several times (one that can be
    // copied, which requires SLUICE_OPERATIONS_HAVE_COPIES) runs as a launch of its graph. Tests call sluice::sync
    // where this is not possible: tests of effects of submission (recording has them too), of names in traces, and of
    // work on several devices.
    template <operation Op>
    auto sync(Op op, scheduling_policy& pool, std::optional<wait_mode> mode = {}) {
        static_assert(are_operations_compiled || sizeof(Op) == 0, "suites define SLUICE_OPERATIONS_HAVE_COPIES");
        if constexpr (can_be_graph<Op>) {
            if (GetParam().is_compiled) {
                const std::function<any_operation<output_of<Op>>()> again = [op = std::move(op)] { return op; };
                return sluice::sync(compile(pool, again)(), pool, mode);
            }
        }
        return sluice::sync(std::move(op), pool, mode);
    }

    // Options for a runtime with this backend.
    runtime_options options() {
        runtime_options all = GetParam().options;
        if (GetParam().is_traced) all.trace = &recorder;
        return all;
    }

    trace_recorder recorder;
    runtime devices{options()};
    sluice::device& on = devices.find(GetParam().device);
};

#define CONFORMANCE_SUITE(name)              \
    class name : public conformance_test {}; \
    INSTANTIATE_TEST_SUITE_P(, name, testing::ValuesIn(enrolled_backends()), backend_name)

using test_support::gate;

// For tests that hold a stream and then launch on it. Under a tool that makes each launch wait for its kernel
// (compute-sanitizer does; scripts/gpu_session sets the variable) such a test would wait for ever.
#define NEEDS_A_GATE() \
    if (std::getenv("SLUICE_LAUNCHES_BLOCK") != nullptr) GTEST_SKIP() << "no stream can be held here"

// Submits to the given stream and does not wait.
template <operation Op>
auto submit_to(stream on, Op op) {
    execution_context context(on);
    return std::move(op).submit(context);
}

template <typename T>
std::vector<T> contents(tensor<T> from, stream on) {
    return sync_on(download(std::move(from)), on);
}

inline bool has_passed(stream on, ticket number) {
    on.poll();
    return on.passed() >= number;
}

// 0, 1, 2 ... 126, 0, 1 ...
template <typename T>
std::vector<T> counting(std::size_t size) {
    std::vector<T> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<T>(i % 127);
    return made;
}

}  // namespace sluice::conformance
