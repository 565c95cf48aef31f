// SPDX-License-Identifier: Apache-2.0
#include "serve/triton_config.hpp"

#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

// Where requests are joined, the first dimension is max_batch_size's and not listed, as Triton has it.
std::vector<triton_tensor> tensors_of(const std::vector<nn::value_info>& from, bool is_joined) {
    std::vector<triton_tensor> all;
    for (const nn::value_info& each : from) {
        triton_tensor& made = all.emplace_back();
        made.name = each.name;
        made.data_type = each.is_text ? "TYPE_STRING" : "TYPE_" + std::string(datatype_of(each.type));
        if (!each.shape) continue;
        for (const nn::dimension& its : *each.shape)
            made.dims.push_back(its.length ? static_cast<std::int64_t>(*its.length) : -1);
        if (is_joined && !made.dims.empty()) made.dims.erase(made.dims.begin());
    }
    return all;
}

}  // namespace

triton_config triton_config_of(const served_model& model) {
    const bool is_joined = model.max_batch() > 1;
    triton_config made;
    made.name = model.name();
    made.platform = model.network().platform();
    made.max_batch_size = is_joined ? model.max_batch() : 0;
    made.inputs = tensors_of(model.network().inputs(), is_joined);
    made.outputs = tensors_of(model.network().outputs(), is_joined);
    made.instance_group = model.network().device_name();
    made.instance_kind = made.instance_group.starts_with("cuda") ? "KIND_GPU" : "KIND_CPU";
    made.its = model.config();
    return made;
}

}  // namespace sluice::serve
