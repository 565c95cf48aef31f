// SPDX-License-Identifier: Apache-2.0
// The operations that the tests of compiled graphs compile.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance {

inline std::vector<unsigned> counting(std::size_t size, unsigned from = 0) {
    std::vector<unsigned> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = from + static_cast<unsigned>(i);
    return values;
}

// x through two steps, from device memory to device memory.
inline auto two_steps(tensor<unsigned> x) {
    return step(std::move(x), 0).and_then([](auto once) { return step(std::move(once), 1); });
}

inline std::vector<unsigned> after_two(std::vector<unsigned> x) {
    for (unsigned& each : x) each = after_steps(each, 2);
    return x;
}

// A copy by a kernel, to memory that nothing else has written.
inline auto relayed(tensor<unsigned> x) {
    return with_context([from = std::move(x)](execution_context& context) {
        tensor<unsigned> to(context.stream(), from.shape());
        relay_on(context.stream(), from, to);
        return to;
    });
}

using any_function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
template <typename Function>
any_function any(Function f) {
    return [f](tensor<unsigned> x) { return any_operation<pending<std::vector<unsigned>>>(f(std::move(x))); };
}

}  // namespace sluice::conformance
