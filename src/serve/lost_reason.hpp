// SPDX-License-Identifier: Apache-2.0
// Why a model is lost, where there is more to say than that its device has failed.
#pragma once

#include <string>

#include "sluice/serve/engine.hpp"

namespace sluice::serve {

// A loaded_model that knows more derives from this too.
class says_why_lost {
public:
    virtual ~says_why_lost() = default;
    // The end of a sentence whose subject is the model; only where it is lost.
    virtual std::string why_lost() const = 0;
};

// The same of any model that is lost.
inline std::string lost_reason(const loaded_model& model) {
    if (const auto* const its = dynamic_cast<const says_why_lost*>(&model)) return its->why_lost();
    return "its device " + model.device_name() + " has failed";
}

}  // namespace sluice::serve
