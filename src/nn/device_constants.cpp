// SPDX-License-Identifier: Apache-2.0
#include "nn/device_constants.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "nn/passes/steps.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

// The values that steps read on a device: of a graph, and of the graphs inside a step.
std::vector<slot> read_inside(const step& by);
std::set<slot> device_uses(const prepared_graph& body) {
    std::set<slot> found;
    for (const step& each : body.steps) {
        if (each.inner.empty() && !each.is_on_host && !each.gives_shape_only) {
            for (std::size_t i = 0; i < each.inputs.size(); ++i)
                if (!takes_on_host(each, i) && !takes_shape_only(each, i)) found.insert(each.inputs[i]);
        }
        const std::vector<slot> inside = read_inside(each);
        found.insert(inside.begin(), inside.end());
    }
    return found;
}

std::vector<slot> read_inside(const step& by) {
    std::vector<slot> found;
    for (const auto& [from, inner] : by.inner) {
        const std::set<slot> inside = device_uses(*inner);
        for (const auto& one : inner->captures)
            if (inside.contains(one.inside)) found.push_back(one.outside);
    }
    return found;
}

}  // namespace

any_tensor uploaded(execution_context& context, const any_tensor& from) {
    const command_info info{"upload"};
    storage_ref to = context.stream().allocate(std::max<std::size_t>(from.size_bytes(), 1), info);
    if (from.elements() != 0) {
        sluice::detail::upload_bytes(context.stream(), *to, from.bytes().data(), from.size_bytes(), from.host_owner(),
                                     info.location);
    }
    return from.with_memory(std::move(to));
}

void upload_constants(prepared_graph& body, execution_context& context) {
    std::set<slot> used;
    for (step& each : body.steps) {
        used.insert(each.inputs.begin(), each.inputs.end());
        for (const auto& [from, inner] : each.inner) {
            upload_constants(*inner, context);
            for (const auto& one : inner->captures) used.insert(one.outside);
        }
        each.read_inside = read_inside(each);
    }
    used.insert(body.outputs.begin(), body.outputs.end());
    const std::set<slot> on_device = device_uses(body);
    std::erase_if(body.constants, [&](const auto& each) { return !used.contains(each.first); });
    for (auto& [at, value] : body.constants)
        if (on_device.contains(at) && !value.is_on_device()) value = uploaded(context, value);
}

}  // namespace sluice::nn::detail
