// The suite that every backend enrols in.
//
// The tests know no backend: each is an instance of conformance_test, run once for every backend that the
// executable's enrolment file lists. CONFORMANCE_SUITE(name) makes a suite of them.
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
    std::string name;               // of the instances of the tests
    runtime_options options;        // for a runtime that has it
    std::string device;             // the device that is tested
    std::string other_device;       // another one of the same runtime
    bool runs_side_by_side = true;  // a stream goes on while another is held
    unsigned slow_rounds = 1000;    // for how many rounds a slow kernel spins: ten microseconds or more
    bool is_traced = false;         // with a recorder before it, which must change nothing
    bool is_compiled = false;       // operations run as graphs, which must change nothing either
};

// Can an operation with this output be a graph?
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

// Copies of it are one and the same work, which a graph would make its own.
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
    std::copy_constructible<Op> && !is_staged<Op> && !is_shared_work<Op> && is_graph_output<output_of<Op>>;

// Defined by each executable, in its enrolment file.
std::vector<backend> enrolled_backends();

inline std::string backend_name(const testing::TestParamInfo<backend>& instance) { return instance.param.name; }
inline void PrintTo(const backend& which, std::ostream* out) { *out << which.name; }

class conformance_test : public testing::TestWithParam<backend> {
protected:
    device& other_device() { return devices.find(GetParam().other_device); }
    unsigned slow() const { return GetParam().slow_rounds; }

    // As many commands as may stand behind a gate: a GPU's queue is not endless, and a recorder's marks fill it too.
    unsigned behind_a_gate(unsigned wanted) const {
        return GetParam().is_traced && on.kind() == device_kind::cuda ? std::min(wanted, 40u) : wanted;
    }

    // Device and host memory that somebody holds.
    std::size_t bytes_in_use() { return on.device_pool().usage().in_use_bytes + on.host_pool().usage().in_use_bytes; }

    // In place of sluice::sync. Where the backend says so, an operation that can be recorded several times (one that
    // can be copied) runs as a launch of a graph of it. Tests say sluice::sync where that cannot be: of what submitting
    // does (recording does it too), of names in traces, of work on several devices.
    template <operation Op>
    auto sync(Op op, scheduling_policy& pool, std::optional<wait_mode> mode = {}) {
        if constexpr (can_be_graph<Op>) {
            if (GetParam().is_compiled) {
                const std::function<any_operation<output_of<Op>>()> again = [op = std::move(op)] { return op; };
                return sluice::sync(compile(pool, again)(), pool, mode);
            }
        }
        return sluice::sync(std::move(op), pool, mode);
    }

    // For a runtime of this backend.
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

// For tests that hold a stream and launch behind it: under a tool that makes each launch wait for its kernel (as
// compute-sanitizer does; scripts/gpu_session says so) that would wait for ever.
#define NEEDS_A_GATE() \
    if (std::getenv("SLUICE_LAUNCHES_BLOCK") != nullptr) GTEST_SKIP() << "no stream can be held here"

// Submits to this very stream and does not wait.
template <operation Op>
auto submit_to(stream& on, Op op) {
    execution_context context(on);
    return std::move(op).submit(context);
}

template <typename T>
std::vector<T> contents(tensor<T> from, stream& on) {
    return sync_on(download(std::move(from)), on);
}

inline bool has_passed(stream& on, ticket number) {
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
