// SPDX-License-Identifier: Apache-2.0
// Reads the attributes of trees once: they may be millions of numbers.
#include <utility>

#include "nn/operators/tree_links.hpp"
#include "nn/operators/tree_program.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

void pack_trees(prepared_graph& in, const std::filesystem::path& path, execution_context& context) {
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) pack_trees(*inner, path, context);
        const bool is_of_trees = each.from->domain == operators::onnx_ml || each.from->domain == operators::tree_files;
        if (!is_of_trees || !each.from->op.starts_with("TreeEnsemble") ||
            each.inputs.size() != operators::packed_trees_input)
            continue;
        const operators::run_environment environment{
            .path = &path, .command_name = {}, .context = nullptr, .run_graph = {}};
        const operators::node_call reader(environment, *each.from, each.position, each.opset, operators::place::nowhere,
                                          {}, {});
        try {
            const any_tensor image = operators::pack_trees(operators::tables_of_trees(reader), true);
            // On the device it is the same memory.
            const any_tensor there =
                adopt_tensor(context.device(), image.type(), image.shape(), image.bytes().data(), image.host_owner());
            each.inputs.push_back(add_constant(in, image.with_memory(there.shared_memory())));
        } catch (const error&) {
            continue;  // the operator refuses it when it runs
        }
    }
}

}  // namespace sluice::nn::detail
