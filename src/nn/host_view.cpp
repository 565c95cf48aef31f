// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/host_view.hpp"

#include <algorithm>

#include "sluice/base/error.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::detail {

view_form::view_form(io::dtype type, std::span<const std::size_t> shape) : type_(type), rank_(shape.size()) {
    if (rank_ > most_dimensions) {
        throw error(errc::shape_mismatch, "a view has at most " + std::to_string(most_dimensions) +
                                              " dimensions, and the shape is " + to_string(shape));
    }
    const auto bytes = io::byte_count(shape, type);
    if (!bytes) throw error(errc::shape_mismatch, "a tensor of shape " + to_string(shape) + " has no size");
    bytes_ = *bytes;
    std::ranges::copy(shape, lengths_.begin());
}

std::string view_form::text() const { return std::string(io::to_string(type_)) + " " + to_string(shape()); }

void require_filled(const view_form& by, std::size_t elements) {
    if (elements * io::size_of(by.type()) == by.size_bytes()) return;
    throw error(errc::shape_mismatch, std::to_string(elements) + " numbers do not fill " + by.text());
}

}  // namespace sluice::nn::detail

namespace sluice::nn {

input_view::input_view(const any_tensor& of) : form_(of.type(), of.shape()), data_(of.bytes().data()) {
    if (!of.is_on_host()) throw error(errc::invalid_argument, "the tensor " + form_.text() + " is not in host memory");
}

}  // namespace sluice::nn
