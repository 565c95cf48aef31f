// SPDX-License-Identifier: Apache-2.0
// What runs throw whose process has ended, and models whose runs may throw it.
#pragma once

#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

class process_ended : public refusal {
public:
    process_ended()
        : refusal(refusal_kind::failed, "two worker processes have ended while they computed it; it is not run again") {
    }
};

// A loaded_model that other processes compute derives from this too.
class runs_in_processes {
public:
    virtual ~runs_in_processes() = default;
    // As loaded_model::run, which runs again when the first process has ended; this throws process_ended then.
    // `is_again`: a process has ended with these inputs already.
    virtual std::vector<nn::any_tensor> run_once(const std::vector<nn::any_tensor>& inputs, bool is_again) const = 0;
};

}  // namespace sluice::serve
