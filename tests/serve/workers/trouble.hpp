// SPDX-License-Identifier: Apache-2.0
// Numbers with which models of worker_peer do what processes do on bad days, and what one of many outputs computes.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::serve::testing {

inline constexpr float refused_number = 13;        // error: errc::out_of_range
inline constexpr float no_memory_number = 14;      // std::bad_alloc
inline constexpr float slow_number = 15;           // a second, with looks at the run_guard
inline constexpr float wrong_number = 16;          // an output more than the model has
inline constexpr float in_line_number = 17;        // 1.5 s, after those that came before
inline constexpr float killed_number = 1001;       // SIGKILL
inline constexpr float exit_number = 1002;         // _exit(7)
inline constexpr float hung_number = 1003;         // no end
inline constexpr float lost_number = 1004;         // the device fails
inline constexpr float killed_once_number = 1005;  // SIGKILL, the first time
inline constexpr float lost_later_number = 1007;   // the device fails when the batch is answered
inline constexpr float held_number = 1006;         // from now on the system does not let the process end

// Of each type, with shapes of each form. A model of "many" has as many outputs.
inline std::vector<nn::any_tensor> many_tensors() {
    std::vector<nn::any_tensor> made;
    for (int i = 0; i <= static_cast<int>(io::dtype::boolean); ++i) {
        for (const std::vector<std::size_t>& shape :
             std::vector<std::vector<std::size_t>>{{}, {0}, {3, 0, 2}, {7}, {1, 1, 1, 1, 1, 1, 1, 2}, {1000, 33}}) {
            std::byte* to = nullptr;
            made.push_back(nn::any_tensor::make_on_host(static_cast<io::dtype>(i), shape, to));
            std::memset(to, i + 1, made.back().size_bytes());
        }
    }
    return made;
}

}  // namespace sluice::serve::testing
