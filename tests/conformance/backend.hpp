// The suite that every backend enrols in.
//
// The tests know no backend: each is an instance of conformance_test, run once for every backend that the
// executable's enrolment file lists. CONFORMANCE_SUITE(name) makes a suite of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
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
};

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
