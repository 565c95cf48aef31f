// SPDX-License-Identifier: Apache-2.0
// owned_state: the state of a runtime whose devices a test creates itself.
#pragma once

#include <memory>

#include "runtime/runtime_state.hpp"

namespace sluice::test_support {

// Closes and releases the state as a runtime does.
struct end_state {
    void operator()(detail::runtime_state* state) const noexcept {
        state->close();
        state->release();
    }
};
using owned_state = std::unique_ptr<detail::runtime_state, end_state>;

}  // namespace sluice::test_support
