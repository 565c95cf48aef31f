// SPDX-License-Identifier: Apache-2.0
// triton_config: the part of Triton's model configuration that there is here, whatever protocol asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/serve/served_model.hpp"

namespace sluice::serve {

struct triton_tensor {
    std::string name;
    std::string data_type;           // "TYPE_FP32"
    std::vector<std::int64_t> dims;  // -1: any length; without the first one where requests are joined
};

// Names are Triton's.
struct triton_config {
    std::string name, platform;
    std::string backend = "sluice";
    std::size_t max_batch_size = 0;  // 0: requests are not joined, and there is no dynamic batching
    std::vector<triton_tensor> inputs, outputs;
    std::string instance_group;  // the name of the device
    std::string instance_kind;   // "KIND_GPU", "KIND_CPU"
    model_config its;            // instances, versions, batching, policies

    bool has_dynamic_batching() const noexcept { return max_batch_size != 0; }
};

triton_config triton_config_of(const served_model& model);

}  // namespace sluice::serve
