// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/node_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "nn/operators/run_memory.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {

std::string node_call::label() const { return label_of(node_, position_); }

// --- inputs ---

integers node_call::host_integers(std::size_t i) const {
    if (!has_input(i)) return {};
    const any_tensor& from = input(i);
    if (!from.is_on_host() && from.elements() != 0)
        refuse_unsupported("needs the numbers of input " + std::to_string(i) + " on the host, before it runs");
    integers numbers(from.elements());
    with_type(from.type(), [&]<typename T>() {
        if constexpr (std::is_integral_v<T>) {
            std::vector<T> values(from.elements());
            if (!values.empty()) std::memcpy(values.data(), from.bytes().data(), from.size_bytes());
            std::ranges::transform(values, numbers.begin(), [](T each) { return static_cast<std::int64_t>(each); });
        } else {
            refuse("input " + std::to_string(i) + " has to be integers, and is " + to_string(from));
        }
    });
    return numbers;
}

double node_call::host_number(std::size_t i) const {
    const any_tensor& from = input(i);
    if (from.elements() != 1) refuse("input " + std::to_string(i) + " has to be one number, and is " + to_string(from));
    if (!from.is_on_host())
        refuse_unsupported("needs the number of input " + std::to_string(i) + " on the host, before it runs");
    double number = 0;
    with_type(from.type(), [&]<typename T>() {
        T value;
        std::memcpy(&value, from.bytes().data(), sizeof(T));
        number = static_cast<double>(static_cast<computed<T>>(value));
    });
    return number;
}

// --- attributes ---

std::int64_t node_call::integer(std::string_view attribute, std::int64_t otherwise) const {
    const auto* const found = node_.find<std::int64_t>(attribute);
    return found != nullptr ? *found : otherwise;
}

float node_call::real(std::string_view attribute, float otherwise) const {
    const auto* const found = node_.find<float>(attribute);
    return found != nullptr ? *found : otherwise;
}

std::string node_call::text(std::string_view attribute, std::string_view otherwise) const {
    const auto* const found = node_.find<std::string>(attribute);
    return found != nullptr ? *found : std::string(otherwise);
}

integers node_call::integer_list(std::string_view attribute) const {
    const auto* const found = node_.find<integers>(attribute);
    return found != nullptr ? *found : integers();
}

std::vector<float> node_call::real_list(std::string_view attribute) const {
    const auto* const found = node_.find<std::vector<float>>(attribute);
    return found != nullptr ? *found : std::vector<float>();
}

std::vector<std::string> node_call::text_list(std::string_view attribute) const {
    const auto* const found = node_.find<std::vector<std::string>>(attribute);
    return found != nullptr ? *found : std::vector<std::string>();
}

const graph* node_call::graph_attribute(std::string_view attribute) const {
    const auto* const found = node_.find<std::shared_ptr<const graph>>(attribute);
    return found != nullptr ? found->get() : nullptr;
}

std::size_t node_call::axis(std::int64_t value, std::size_t rank, bool may_be_end,
                            std::optional<std::size_t> from) const {
    const auto count = static_cast<std::int64_t>(rank);
    const std::int64_t from_begin = value < 0 ? value + count : value;
    if (from_begin < 0 || from_begin > count || (from_begin == count && !may_be_end)) {
        refuse_number(from, "has the axis " + std::to_string(value) + " of a tensor with " + std::to_string(rank) +
                                " dimensions");
    }
    return static_cast<std::size_t>(from_begin);
}

std::vector<std::size_t> node_call::axes(const integers& values, std::size_t rank,
                                         std::optional<std::size_t> from) const {
    std::vector<std::size_t> found;
    for (const std::int64_t each : values) found.push_back(axis(each, rank, false, from));
    std::ranges::sort(found);
    if (const auto twice = std::ranges::adjacent_find(found); twice != found.end())
        refuse_number(from, "names an axis twice, " + std::to_string(*twice));
    return found;
}

// --- outputs ---

any_tensor node_call::make(io::dtype type, lengths shape) const {
    const auto bytes = io::byte_count(shape, type);
    if (!bytes) refuse_shapes("gives a tensor of shape " + to_string(std::span(shape)) + ", which has no memory");
    if (run_memory* const memory = run_memory::now(); memory != nullptr && where_ != place::nowhere)
        memory->charge(*this, *bytes);
    switch (where_) {
        case place::nowhere: break;
        case place::host: {
            std::byte* unused = nullptr;
            return any_tensor::make_on_host(type, std::move(shape), unused);
        }
        case place::device: {
            const command_info info{name()};
            return any_tensor(type, std::move(shape),
                              context().stream().allocate(std::max<std::size_t>(*bytes, 1), info));
        }
    }
    return any_tensor::of_shape(type, std::move(shape));
}

const any_tensor& node_call::make_output(std::size_t i, io::dtype type, lengths shape) {
    if (i >= outputs_.size()) refuse("has too few outputs");
    return outputs_[i] = make(type, std::move(shape));
}

void node_call::set_output(std::size_t i, any_tensor value) {
    if (i >= outputs_.size()) refuse("has too few outputs");
    outputs_[i] = std::move(value);
}

// --- addresses ---

void* node_call::address(const any_tensor& of) const {
    switch (where_) {
        case place::host: return const_cast<std::byte*>(of.bytes().data());  // made by make(), or only read
        case place::device: return of.memory() != nullptr ? of.memory()->data() : nullptr;
        case place::nowhere: break;
    }
    return nullptr;
}

void node_call::copy(const any_tensor& from, const any_tensor& to) const {
    const std::size_t bytes = from.size_bytes();
    if (bytes == 0 || where_ == place::nowhere) return;
    if (where_ == place::host) {
        std::memcpy(write<std::byte>(to), read<std::byte>(from), bytes);
        return;
    }
    const std::array accesses{memory_access{from.memory(), access_mode::read},
                              memory_access{to.memory(), access_mode::write}};
    context().stream().copy({name(), accesses}, {.destination = to.memory()->data(),
                                                 .source = from.memory()->data(),
                                                 .bytes = bytes,
                                                 .direction = copy_direction::device_to_device});
}

// --- refusals ---

std::string text_of_wrong_value(std::size_t input, std::string_view name, std::string_view why,
                                std::string_view possible) {
    std::string text(why);
    text += ", as its input " + std::to_string(input) + (name.empty() ? "" : " (" + in_quotes(name) + ")") + " says";
    return possible.empty() ? text : text + "; " + std::string(possible);
}

void node_call::refuse(std::string_view why) const {
    throw file_error(*environment_.path, file_error::no_offset, label(), why);
}
void node_call::refuse_shapes(std::string_view why) const {
    throw file_error(*environment_.path, file_error::no_offset, label(), why, errc::shape_mismatch);
}
void node_call::refuse_unsupported(std::string_view why) const {
    throw file_error(*environment_.path, file_error::no_offset, label(), why, errc::unsupported);
}
void node_call::refuse_value(std::size_t input, std::string_view why, std::string_view possible) const {
    throw file_error(*environment_.path, file_error::no_offset, label(),
                     text_of_wrong_value(input, node_.inputs[input], why, possible), errc::out_of_range);
}
void node_call::refuse_number(std::optional<std::size_t> from, std::string_view why) const {
    if (from) refuse_value(*from, why);
    refuse(why);
}
void node_call::refuse_type(const any_tensor& of) const {
    refuse_unsupported("does not take " + std::string(io::to_string(of.type())));
}

// --- shapes ---

std::size_t product_of(std::span<const std::size_t> shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

lengths strides_of(std::span<const std::size_t> shape) {
    lengths strides(shape.size());
    std::size_t next = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = next;
        next *= shape[i];
    }
    return strides;
}

lengths broadcast(const node_call& in, std::span<const std::size_t> a, std::span<const std::size_t> b) {
    lengths made(std::max(a.size(), b.size()));
    for (std::size_t i = 0; i < made.size(); ++i) {
        // Counted from the last dimension.
        const std::size_t of_a = i < a.size() ? a[a.size() - 1 - i] : 1, of_b = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (of_a != of_b && of_a != 1 && of_b != 1)
            in.refuse_shapes("combines the shapes " + to_string(a) + " and " + to_string(b) + ", which do not fit");
        made[made.size() - 1 - i] = of_a == 1 ? of_b : of_a;
    }
    return made;
}

}  // namespace sluice::nn::operators
