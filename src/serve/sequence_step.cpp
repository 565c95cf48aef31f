// SPDX-License-Identifier: Apache-2.0
#include "serve/sequence_step.hpp"

#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "serve/state_values.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::serve {
namespace {

// What the model says of its state, in the order of state_values::all.
std::vector<nn::value_info> state_infos(const served_model& model) {
    std::vector<nn::value_info> all;
    for (const auto& [input, output] : model.state().all) all.push_back(model.network().inputs()[input]);
    return all;
}

tensor_view view_of(const nn::any_tensor& from) { return {from.type(), tensor_shape(from.shape()), from.bytes()}; }

}  // namespace

sequence_step::sequence_step(std::shared_ptr<infer_call> from, served_model& model,
                             std::shared_ptr<sequence_table> sequences, clock::time_point since)
    : from_(std::move(from)), model_(model), sequences_(std::move(sequences)), since_(since) {
    inputs = from_->inputs;
    timeout = from_->timeout;
    priority = from_->priority;
    so_far = from_->so_far;
}

void sequence_step::take_state() {
    if (of().begins) {
        sequences_->begin_life(*this);
        return make_zeros();
    }
    const kept_state& now = sequences_->state_for(*this, state_infos(model_));
    for (std::size_t i = 0; i < now.values.size(); ++i) inputs[model_.state().all[i].input] = view_of(now.values[i]);
}

// They count while this step is there. What the step leaves counts for the sequence.
void sequence_step::make_zeros() {
    const std::vector<tensor_shape> shapes =
        first_shapes(model_.network(), model_.config(), model_.state(), from_->inputs);
    std::size_t all = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const nn::value_info& its = model_.network().inputs()[model_.state().all[i].input];
        const auto bytes = io::byte_count(shapes[i].lengths(), its.type);
        if (!bytes || *bytes > SIZE_MAX / 2 - all)
            throw refusal(refusal_kind::bad_request, "the state " + in_quotes(its.name) + " would be too large");
        all += *bytes;
    }
    if (of().budget && !share_) share_.emplace(of().budget);
    if (share_ && !share_->hold(all))
        throw refusal::for_now("the memory for requests is in use: there is no room for the state");
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::size_t input = model_.state().all[i].input;
        std::byte* ignored = nullptr;
        zeros_.push_back(nn::any_tensor::make_on_host(
            model_.network().inputs()[input].type, {shapes[i].lengths().begin(), shapes[i].lengths().end()}, ignored));
        inputs[input] = view_of(zeros_.back());
    }
}

void sequence_step::drop_zeros() noexcept {
    zeros_.clear();
    share_.reset();
}

kept_state sequence_step::next_state(std::span<const tensor_view> outputs) const {
    kept_state made{.like = state_infos(model_), .values = {}};
    for (const auto& [input, output] : model_.state().all) {
        const tensor_view& from = outputs[output];
        std::byte* to = nullptr;
        made.values.push_back(
            nn::any_tensor::make_on_host(from.type, {from.shape.lengths().begin(), from.shape.lengths().end()}, to));
        if (!from.bytes.empty()) std::memcpy(to, from.bytes.data(), from.bytes.size());
    }
    return made;
}

bool sequence_step::answer(std::span<const tensor_view> outputs) noexcept {
    try {
        kept_state next = next_state(outputs);
        from_->make_answer(outputs);  // which may refuse: an output that JSON cannot say, a region that is too small
        sequences_->keep(*this, std::move(next));
    } catch (const std::exception& failure) {
        refuse(refusal_of(failure));
        return false;
    }
    drop_zeros();
    // Before the answer: the client may send the next step at once.
    std::shared_ptr<sequence_step> next = sequences_->end_turn(*this);
    from_->so_far = so_far;
    const bool is_answer = from_->answer(outputs);
    end(std::move(next));
    return is_answer;
}

void sequence_step::refuse(const refusal& why) noexcept { end(fail(why)); }

std::shared_ptr<sequence_step> sequence_step::fail(const refusal& why) noexcept {
    drop_zeros();
    std::shared_ptr<sequence_step> next = sequences_->end_turn(*this);
    from_->so_far = so_far;
    from_->refuse(why);
    return next;
}

// NOLINTNEXTLINE(bugprone-exception-escape): shared_from_this does not throw, the model is in a shared_ptr
void sequence_step::end(std::shared_ptr<sequence_step> next) noexcept {
    if (next) {
        // Of another version, it may end with its last step, before this thread has left it.
        const auto other = &next->model() == &model_ ? nullptr : next->model().shared_from_this();
        served_model::begin_turn(std::move(next), nullptr);
    }
    model_.end_step();  // after which it may go
}

}  // namespace sluice::serve
