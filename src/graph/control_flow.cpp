// SPDX-License-Identifier: Apache-2.0
#include "sluice/graph/control_flow.hpp"

#include <array>
#include <string_view>

#include "graph/graph_recorder.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::detail {

recorded_part::recorded_part(execution_context& context) : context_(context) {
    graph_recorder::of(context_.stream())->begin_part();
}

recorded_part::~recorded_part() {
    if (is_open_) graph_recorder::of(context_.stream())->drop_part();
}

void recorded_part::end(std::string_view name, conditional_command::kind kind, storage& condition, std::uint64_t mark) {
    is_open_ = false;
    graph_recorder::of(context_.stream())->end_part({name}, kind, condition, mark);
}

std::uint64_t next_loop_mark(execution_context& context) {
    return graph_recorder::of(context.stream())->next_loop_mark();
}

void set_flag(execution_context& context, storage& flag) {
    const std::array accesses{memory_access{&flag, access_mode::write}};
    context.stream().fill({"do_while", accesses}, {flag.data(), 1, sizeof(int)});
}

void copy_back(execution_context& context, storage& to, storage* from, std::size_t bytes) {
    if (from == nullptr || bytes == 0 || from->data() == to.data()) return;
    copy_bytes(context.stream(), {"copy back"}, to, *from, bytes, copy_direction::device_to_device);
}

void require_same_shape(const shape& before, const shape& after, std::string_view name) {
    if (before == after) return;
    throw error(errc::shape_mismatch,
                "the body returned " + to_string(after) + " for " + to_string(before) +
                    "; the shapes of a loop's tensors must not change",
                {name});
}

void require_one_number(const tensor<int>& condition, std::string_view name) {
    if (condition.size() == 1) return;
    throw error(errc::shape_mismatch, "a condition must be one number, not " + to_string(condition.shape()), {name});
}

}  // namespace sluice::detail
