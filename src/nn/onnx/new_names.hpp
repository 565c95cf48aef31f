// SPDX-License-Identifier: Apache-2.0
// new_names: names for values that a model does not have yet.
#pragma once

#include <string>
#include <unordered_set>

#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

class new_names {
public:
    explicit new_names(const graph& of) { add(of); }  // and of the graphs in it

    // Whether no value has it. Then one does.
    bool take(const std::string& name) { return taken_.insert(name).second; }

private:
    void add(const graph& of);

    std::unordered_set<std::string> taken_;
};

}  // namespace sluice::nn::detail
