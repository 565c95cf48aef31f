// SPDX-License-Identifier: Apache-2.0
// Finds stretches of convolutions of bytes and of what is around them, and makes one step of each.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nn/integers/byte_groups.hpp"
#include "nn/integers/integer_stretch.hpp"
#include "nn/integers/integer_weights.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/steps.hpp"
#include "nn/passes/stretch_fusion.hpp"
#include "nn/passes/stretch_values.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

// A dense layer is read again for each image: beyond the second cache a product of all rows is faster.
constexpr std::size_t most_layer_weights = std::size_t{256} << 10;

class integer_search {
public:
    explicit integer_search(const prepared_graph& in)
        : in_(in),
          readers_(only_readers(in)),
          givers_(givers(in)),
          groups_(byte_groups(in)),
          is_of_group_(in.steps.size(), false),
          values_(in) {
        for (const auto& group : groups_)
            if (group)
                for (const std::size_t each : group->steps) is_of_group_[each] = true;
    }

    // The steps of each stretch, in order. A later one has later steps only.
    std::vector<std::vector<std::size_t>> find() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            if (groups_[i]) {
                take_group(*groups_[i]);
            } else if (!is_of_group_[i]) {
                take(i);
            }
        }
        close();
        return std::move(found_);
    }

private:
    // Inside are bytes; what a dequantization of the stretch gives is after it.
    using state = stretch_values::state;

    integer_role role_at(std::size_t step) const {
        return step < several_steps ? integer_role_of(in_, step) : integer_role::none;
    }

    bool can_take(std::size_t at, integer_role role) const {
        const step& of = in_.steps[at];
        if (role == integer_role::convolution) return true;
        if (of.inputs.empty() || of.inputs[0] == no_slot || values_[of.inputs[0]] != state::inside) return false;
        switch (role) {
            case integer_role::pooling: return true;
            case integer_role::dequantize: {
                // An expression that reads it dequantizes as it goes, and reads a quarter of the bytes.
                const std::size_t reader = readers_[of.outputs[0]];
                if (reader == no_step) return false;  // it has no place to write
                return reader == several_steps || in_.steps[reader].what->fused_inputs == operators::none;
            }
            case integer_role::flatten: {
                const std::size_t reader = readers_[of.outputs[0]];
                return role_at(reader) == integer_role::layer && is_small(in_.steps[reader]);
            }
            case integer_role::layer: {
                const integer_role before = role_at(givers_[of.inputs[0]]);
                return is_small(of) && (before == integer_role::flatten || before == integer_role::layer);
            }
            default: return false;
        }
    }
    static bool is_small(const step& layer) {
        const operators::quantized_operator& of = *layer.layers->quantized;
        return of.in_features * of.out_features <= most_layer_weights;
    }

    void take(std::size_t at) {
        const step& of = in_.steps[at];
        const integer_role role = integer_role_of(in_, at);
        const bool depends_on_others = values_.has_input(of, state::after);
        if (role == integer_role::convolution && depends_on_others) close();
        if (!values_.has_input(of, state::after) && can_take(at, role)) {
            open_.push_back(at);
            values_.mark(of, role == integer_role::dequantize ? state::after : state::inside);
        } else if (depends_on_others || values_.has_input(of, state::inside)) {
            values_.mark(of, state::after);
        }
    }

    // All of it or none. Nothing outside reads what its steps give before the last one.
    void take_group(const byte_group& of) {
        const bool is_inside =
            std::ranges::all_of(of.parts, [&](const auto& each) { return values_[each.bytes] == state::inside; });
        if (!is_inside) {
            for (const std::size_t each : of.steps) take(each);
            return;
        }
        for (const std::size_t each : of.steps) {
            open_.push_back(each);
            values_.mark(in_.steps[each], state::inside);
        }
    }

    // With what quantizes for one of its convolutions only.
    void close() {
        if (!open_.empty()) {
            std::vector<std::size_t> all = open_;
            for (const std::size_t each : open_) {
                const slot from = in_.steps[each].inputs[0];
                const std::size_t giver = givers_[from];
                if (values_[from] == state::inside) continue;
                const bool is_later = found_.empty() || (giver < several_steps && giver > found_.back().back());
                if (role_at(giver) == integer_role::quantize && readers_[from] == each && is_later)
                    all.push_back(giver);
            }
            std::ranges::sort(all);
            found_.push_back(std::move(all));
            open_.clear();
        }
        values_.close();
    }

    const prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
    const std::vector<std::optional<byte_group>> groups_;
    std::vector<bool> is_of_group_;
    stretch_values values_;
    std::vector<std::size_t> open_;
    std::vector<std::vector<std::size_t>> found_;
};

}  // namespace

void fuse_integer_stretches(prepared_graph& in, const integer_weights& weights, const model& from,
                            execution_context& context) {
    if (context.device().kind() != device_kind::cpu) return;
    fuse_stretches(
        in, integer_search(in).find(), kernels::most_outside_integers,
        [&](prepared_graph body) -> std::shared_ptr<const joined_steps> {
            auto made = std::make_shared<const integer_stretch>(std::move(body), weights, from, context.device());
            return made->is_possible() ? made : nullptr;
        },
        [&](step& whole) {
            // Its inputs are those of a convolution, whichever step is the first; and it has layers, so that no other
            // pass takes it for one of f32.
            const auto& steps = whole.stretch->body().steps;
            const auto one = std::ranges::find_if(steps, [](const step& each) { return each.layers != nullptr; });
            whole.what = operators::find("", "Conv", 13);
            whole.layers = one->layers;
        });
}

}  // namespace sluice::nn::detail
