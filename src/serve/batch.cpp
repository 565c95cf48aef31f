// SPDX-License-Identifier: Apache-2.0
#include "serve/batch.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

[[noreturn]] void refuse(const nn::value_info& input, const std::string& why) {
    throw refusal(refusal_kind::bad_request, "input " + in_quotes(input.name) + ": " + why);
}

std::string text_of(const std::vector<nn::dimension>& shape) {
    std::string text = "[";
    for (const nn::dimension& each : shape) {
        if (text.size() > 1) text += ", ";
        text += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : printable(each.name, 40);
    }
    return text + "]";
}

// The lengths that dimensions of a name have in this request.
using named_lengths = std::vector<std::pair<const std::string*, std::size_t>>;

void require_shape(const nn::value_info& input, const tensor_shape& shape, named_lengths& named) {
    if (!input.shape) return;
    const auto fits = [&](std::size_t at) {
        const nn::dimension& wanted = (*input.shape)[at];
        if (wanted.length) return *wanted.length == shape[at];
        if (wanted.name.empty()) return true;
        for (const auto& [name, length] : named)
            if (*name == wanted.name) return length == shape[at];
        named.emplace_back(&wanted.name, shape[at]);
        return true;
    };
    bool is_right = input.shape->size() == shape.rank();
    for (std::size_t i = 0; is_right && i < shape.rank(); ++i) is_right = fits(i);
    if (!is_right) {
        refuse(input, "the shape is " + to_string(shape) + "; the model takes " + text_of(*input.shape));
    }
}

[[noreturn]] void refuse_dimensions(const nn::value_info& output, const nn::any_tensor& its) {
    throw refusal(refusal_kind::failed, "output " + in_quotes(output.name) + " has " +
                                            std::to_string(its.shape().size()) + " dimensions; an answer has at most " +
                                            std::to_string(tensor_shape::most_dimensions));
}

std::vector<std::size_t> lengths_of(const tensor_shape& shape) {
    return {shape.lengths().begin(), shape.lengths().end()};
}

}  // namespace

void require_inputs(const std::vector<nn::value_info>& model, std::span<const tensor_view> inputs,
                    const std::vector<bool>& left_out) {
    if (inputs.size() != model.size()) {
        throw refusal(refusal_kind::bad_request, "the request has " + std::to_string(inputs.size()) +
                                                     " inputs; the model takes " + std::to_string(model.size()));
    }
    named_lengths named;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!left_out.empty() && left_out[i]) continue;
        const tensor_view& input = inputs[i];
        if (input.type != model[i].type) {
            refuse(model[i], "the datatype is " + std::string(datatype_of(input.type)) + "; the model takes " +
                                 std::string(datatype_of(model[i].type)));
        }
        require_shape(model[i], input.shape, named);
        const auto bytes = io::byte_count(input.shape.lengths(), input.type);
        if (!bytes) refuse(model[i], "the shape " + to_string(input.shape) + " is too large");
        if (*bytes != input.bytes.size()) {
            refuse(model[i], "the shape " + to_string(input.shape) + " takes " + std::to_string(*bytes) +
                                 " bytes; the data has " + std::to_string(input.bytes.size()));
        }
    }
}

bool can_join(std::span<const tensor_view> left, std::span<const tensor_view> right) {
    // A model whose dimensions have no names takes inputs of different first lengths: those are not rows.
    return std::ranges::equal(left, right, [&](const tensor_view& a, const tensor_view& b) {
        return a.shape[0] == left.front().shape[0] && b.shape[0] == right.front().shape[0] &&
               std::ranges::equal(a.shape.lengths().subspan(1), b.shape.lengths().subspan(1));
    });
}

std::size_t rows_of(std::span<const waiting_call> batch) {
    std::size_t rows = 0;
    for (const waiting_call& each : batch) rows += each.rows;
    return rows;
}

bool can_pad(std::span<const waiting_call> batch) {
    return rows_of(batch) != 0 && std::ranges::all_of(batch, [](const waiting_call& call) {
               return std::ranges::all_of(call.call->inputs, [&](const tensor_view& each) {
                   return each.shape.rank() != 0 && each.shape[0] == call.rows;
               });
           });
}

std::vector<nn::any_tensor> join(std::span<const waiting_call> batch, std::size_t rows) {
    const std::vector<tensor_view>& first = batch.front().call->inputs;
    const std::size_t own_rows = rows_of(batch);
    const bool has_rows = batch.size() > 1 || rows != own_rows;
    std::vector<nn::any_tensor> joined;
    joined.reserve(first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
        std::vector<std::size_t> shape = lengths_of(first[i].shape);
        if (has_rows) shape.front() = rows;
        std::byte* to = nullptr;
        joined.push_back(nn::any_tensor::make_on_host(first[i].type, std::move(shape), to));
        for (const waiting_call& each : batch) {
            const std::span<const std::byte> bytes = each.call->inputs[i].bytes;
            if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
            to += bytes.size();
        }
        if (rows == own_rows) continue;
        const std::size_t row_bytes = joined.back().size_bytes() / rows;
        for (std::size_t row = own_rows; row < rows; ++row, to += row_bytes)
            if (row_bytes != 0) std::memcpy(to, to - row_bytes, row_bytes);
    }
    return joined;
}

bool answer_each(std::span<waiting_call> batch, const std::vector<nn::value_info>& model,
                 const std::vector<nn::any_tensor>& outputs, std::size_t rows) {
    const bool is_whole = batch.size() == 1 && rows == batch.front().rows;
    std::vector<tensor_view> views;
    views.reserve(outputs.size());
    for (const nn::any_tensor& each : outputs) {
        if (each.shape().size() > tensor_shape::most_dimensions) refuse_dimensions(model[views.size()], each);
        const bool has_rows = !each.shape().empty() && each.shape().front() == rows;
        if (!is_whole && !has_rows) return false;
        views.push_back({each.type(), tensor_shape(each.shape()), each.bytes()});
    }
    if (is_whole) {
        batch.front().is_answered = batch.front().call->answer(views);
        return true;
    }
    std::vector<std::size_t> row_bytes;
    row_bytes.reserve(views.size());
    for (const tensor_view& each : views) row_bytes.push_back(rows == 0 ? 0 : each.bytes.size() / rows);
    std::size_t at = 0;
    for (waiting_call& each : batch) {
        for (std::size_t i = 0; i < views.size(); ++i) {
            views[i].shape[0] = each.rows;
            views[i].bytes = outputs[i].bytes().subspan(at * row_bytes[i], each.rows * row_bytes[i]);
        }
        each.is_answered = each.call->answer(views);
        at += each.rows;
    }
    return true;
}

}  // namespace sluice::serve
