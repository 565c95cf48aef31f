// SPDX-License-Identifier: Apache-2.0
// Operators of the user's own (sluice/nn/own_operator.hpp), in addition to those of the table.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nn/operators/table.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/own_operator.hpp"

namespace sluice::nn::operators {

// All operators of one network. Definitions of own operators live as long as this.
class known_to_network {
public:
    explicit known_to_network(const own_operators& own);
    known_to_network(const known_to_network&) = delete;  // steps point to the definitions
    known_to_network& operator=(const known_to_network&) = delete;

    // The operator of this name and version, or null.
    const definition* find(std::string_view domain, std::string_view name, std::int64_t opset) const;
    // Whether there is one of another version.
    bool is_known(std::string_view domain, std::string_view name) const;
    const std::vector<definition>& own() const noexcept { return own_; }

private:
    std::vector<std::shared_ptr<const own_operator>> kept_;
    std::vector<definition> own_;
};

// The node was to be computed on the host, and its operator submits operations, which need a device.
class needs_device : public file_error {
public:
    using file_error::file_error;
};

}  // namespace sluice::nn::operators
