// SPDX-License-Identifier: Apache-2.0
// Dense layers, with layer norms and activations between them, as one step.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "kernels/row_chain/row_chain.hpp"
#include "nn/chains/row_chain_step.hpp"
#include "nn/fused_sizes.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {
namespace {

// More weights are read faster by a kernel for each layer.
constexpr std::size_t most_chain_bytes = std::size_t{8} << 20;

struct found_chain {
    std::vector<kernels::row_chain_part> parts;
    std::vector<std::size_t> steps;
    slot output = no_slot;
    bool takes_matrix = false;
};

class chain_search {
public:
    chain_search(prepared_graph& in, precision what, execution_context& context, rounding_report& report)
        : in_(in),
          what_(what),
          context_(context),
          report_(report),
          layers_(in, {.most_layers = 1, .most_bytes = most_chain_bytes, .widest = kernels::widest_chain_layer}),
          is_left_(in.steps.size(), true) {}

    void run() {
        const std::size_t count = in_.steps.size();
        for (std::size_t i = 0; i < count; ++i) {
            if (!is_left_[i]) continue;
            found_chain found = chain_from(i);
            if (!is_worth(found)) continue;
            const io::dtype type = what_ == precision::bf16  ? io::dtype::bf16
                                   : what_ == precision::f16 ? io::dtype::f16
                                                             : io::dtype::f32;
            if (auto packed = kernels::pack_row_chain(found.parts, type)) join(found, std::move(*packed));
        }
        erase_steps(in_, is_left_);
    }

private:
    found_chain chain_from(std::size_t at) const {
        found_chain made;
        std::size_t bytes = 0;
        while (at != no_step && made.parts.size() < kernels::most_chain_layers) {
            std::vector<found_layer> found = layers_.from(at);
            if (found.empty() || (!made.parts.empty() && in_.steps[at].inputs[0] != made.output)) break;
            mlp_layer& numbers = found[0].numbers;
            // The operator refuses a product of other widths.
            if (!made.parts.empty() && numbers.in_features != made.parts.back().layer.out_features) break;
            bytes += numbers.in_features * numbers.out_features * (what_ == precision::f32 ? 4 : 2);
            if (bytes > most_chain_bytes) break;
            if (what_ != precision::f32 && !kernels::why_not_rounded(rounded_type_of(what_), numbers).empty()) break;
            made.steps.insert(made.steps.end(), found[0].steps.begin(), found[0].steps.end());
            made.output = found[0].output;
            made.takes_matrix |= found[0].takes_matrix;
            made.parts.push_back({std::move(numbers), {}});
            take_norm(made);
            at = layers_.reader_of(made.output);
        }
        return made;
    }
    static kernels::rounded_type rounded_type_of(precision what) {
        return what == precision::bf16 ? kernels::rounded_type::bf16 : kernels::rounded_type::f16;
    }

    void take_norm(found_chain& to) const {
        const std::size_t at = layers_.reader_of(to.output);
        if (at == no_step || !is_norm_of(in_.steps[at], to.output, to.parts.back().layer.out_features)) return;
        const step& norm = in_.steps[at];
        kernels::row_norm made;
        const auto numbers = [&](std::size_t input) {
            const auto all = constant_input(in_, norm, input)->values<float>();
            return std::vector<float>(all.begin(), all.end());
        };
        made.scale = numbers(1);
        if (norm.inputs.size() > 2 && norm.inputs[2] != no_slot) made.shift = numbers(2);
        made.epsilon = real(norm, "epsilon", 1e-5f);
        to.steps.push_back(at);
        to.output = norm.outputs[0];
        if (const auto after = layers_.activation_of(to.output)) {
            made.after = after->what;
            to.steps.push_back(after->step);
            to.output = in_.steps[after->step].outputs[0];
        }
        to.parts.back().norm = std::move(made);
    }
    // Over the last dimension, with constant factors, of what this value is.
    bool is_norm_of(const step& of, slot value, std::size_t width) const {
        if (!is(of, "LayerNormalization") || !is_one_node(of) || of.outputs.size() != 1 || of.inputs[0] != value ||
            integer(of, "axis", -1) != -1 || integer(of, "stash_type", 1) != 1)
            return false;
        const auto fits = [&](std::size_t input) {
            const any_tensor* const given = constant_input(in_, of, input);
            return given != nullptr && given->shape() == std::vector<std::size_t>{width};
        };
        return fits(1) && (of.inputs.size() < 3 || of.inputs[2] == no_slot || fits(2));
    }

    // In 16 bits narrow layers without a norm are one kernel already, at every number of rows. And layers inside a
    // network that take rows of any number of dimensions are a transformer's: it has more rows, and its values stay in
    // 16 bits.
    bool is_worth(const found_chain& found) const {
        if (found.parts.size() < 2) return false;
        const slot input = in_.steps[found.steps.front()].inputs[0];
        if (!found.takes_matrix && std::ranges::find(in_.inputs, input) == in_.inputs.end()) return false;
        return what_ == precision::f32 || std::ranges::any_of(found.parts, [](const kernels::row_chain_part& each) {
                   return each.norm ||
                          std::max(each.layer.in_features, each.layer.out_features) > always_fused_width_on_gpu;
               });
    }

    // The step comes in the place of the first one.
    void join(found_chain& found, kernels::packed_row_chain packed) {
        std::ranges::sort(found.steps);
        prepared_graph body = part_of(in_, found.steps);
        if (body.inputs.size() != 1 || body.outputs != std::vector<slot>{found.output}) return;
        if (what_ != precision::f32) {
            round_products(body, what_, context_, report_);
            keep_values_narrow(body);
        }
        step whole = in_.steps[found.steps.front()];
        whole.label += " to " + in_.steps[found.steps.back()].label;
        whole.inputs = body.inputs;
        whole.outputs = body.outputs;
        take_constants(body, whole);
        join_expressions(body);
        find_last_uses(body);
        for (const std::size_t each : found.steps) {
            is_left_[each] = each == found.steps.front();
            if (!is_left_[each]) note_joined(in_.steps[each], whole);
        }
        const auto chain =
            std::make_shared<const row_chain_step>(std::move(body), std::move(packed), found.takes_matrix, context_);
        whole.what = &chain->definition();
        whole.stretch = chain;
        in_.steps[found.steps.front()] = std::move(whole);
    }
    // They become inputs: so they are where the others of the network are.
    void take_constants(prepared_graph& body, step& whole) {
        std::set<slot> used;
        for (const step& each : body.steps) used.insert(each.inputs.begin(), each.inputs.end());
        for (const slot each : used) {
            const auto constant = body.constants.find(each);
            if (constant == body.constants.end()) continue;
            body.inputs.push_back(each);
            whole.inputs.push_back(add_constant(in_, constant->second));
        }
        body.constants.clear();
    }

    prepared_graph& in_;
    const precision what_;
    execution_context& context_;
    rounding_report& report_;
    const dense_search layers_;
    std::vector<bool> is_left_;
};

}  // namespace

void fuse_row_chains(prepared_graph& in, precision what, execution_context& context, rounding_report& report) {
    if (context.device().properties().compute_capability < 90) return;  // there is no such kernel
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) fuse_row_chains(*inner, what, context, report);
    chain_search(in, what, context, report).run();
}

}  // namespace sluice::nn::detail
