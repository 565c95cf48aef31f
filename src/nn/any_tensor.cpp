// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/any_tensor.hpp"

#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::nn {
namespace {

std::size_t elements_of(const std::vector<std::size_t>& shape, io::dtype type) {
    if (!io::byte_count(shape, type))
        throw error(errc::shape_mismatch, "a tensor of shape " + to_string(std::span(shape)) + " has no memory");
    return *io::element_count(shape);
}

}  // namespace

std::string to_string(std::span<const std::size_t> shape) {
    std::string text = "[";
    for (const std::size_t each : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(each);
    return text + "]";
}

std::string to_string(const any_tensor& of) {
    if (!of) return "nothing";
    return std::string(io::to_string(of.type())) + " " + to_string(std::span(of.shape()));
}

any_tensor::any_tensor(constant contents)
    : type_(contents.type),
      is_there_(true),
      shape_(std::move(contents.shape)),
      elements_(elements_of(shape_, type_)),
      host_(std::move(contents.bytes)) {
    if (host_ == nullptr || host_->size() != size_bytes()) {
        throw error(errc::shape_mismatch, "a tensor " + to_string(*this) + " has " + std::to_string(size_bytes()) +
                                              " bytes, not " + std::to_string(host_ ? host_->size() : 0));
    }
}

any_tensor::any_tensor(io::dtype type, std::vector<std::size_t> shape, storage_ref memory)
    : type_(type),
      is_there_(true),
      shape_(std::move(shape)),
      elements_(elements_of(shape_, type)),
      device_(std::move(memory)) {
    if (device_.get() == nullptr && elements_ != 0)
        throw error(errc::invalid_argument, "a tensor without memory: it was moved from");
}

any_tensor any_tensor::from_bytes(io::dtype type, std::vector<std::size_t> shape, std::span<const std::byte> bytes) {
    return any_tensor(
        constant{type, std::move(shape),
                 std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
}

std::vector<std::size_t> any_tensor::lengths_of(const sluice::shape& of) {
    std::vector<std::size_t> lengths(of.rank());
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = of[i];
    return lengths;
}

std::span<const std::byte> any_tensor::bytes() const noexcept {
    if (host_ == nullptr) return {};
    return std::as_bytes(std::span(*host_));
}

void any_tensor::require_type(io::dtype type) const {
    if (type_ == type) return;
    throw error(errc::invalid_argument,
                "a tensor of " + std::string(io::to_string(type_)) + " is read as " + std::string(io::to_string(type)));
}

void any_tensor::require_device(io::dtype type) const {
    require_type(type);
    if (device_.get() == nullptr) throw error(errc::invalid_argument, "the tensor is not on a device: upload it first");
}

void any_tensor::require_host(io::dtype type) const {
    require_type(type);
    if (host_ == nullptr && elements_ != 0)
        throw error(errc::invalid_argument, "the tensor is on a device: download it first");
}

any_tensor any_tensor::with_shape(std::vector<std::size_t> shape) const {
    if (io::element_count(shape) != elements_) {
        throw error(errc::shape_mismatch, "a tensor of " + std::to_string(elements_) + " elements cannot have shape " +
                                              to_string(std::span(shape)));
    }
    any_tensor made = *this;
    made.shape_ = std::move(shape);
    return made;
}

any_tensor any_tensor::with_type(io::dtype type) const {
    if (io::size_of(type) != io::size_of(type_)) throw error(errc::invalid_argument, "elements of another size");
    any_tensor made = *this;
    made.type_ = type;
    return made;
}

any_tensor any_tensor::with_memory(storage_ref memory) const {
    any_tensor made = *this;
    made.device_ = std::move(memory);
    return made;
}

any_tensor any_tensor::of_shape(io::dtype type, std::vector<std::size_t> shape) {
    any_tensor made;
    made.elements_ = elements_of(shape, type);
    made.type_ = type;
    made.is_there_ = true;
    made.shape_ = std::move(shape);
    return made;
}

any_tensor any_tensor::make_on_host(io::dtype type, std::vector<std::size_t> shape, std::byte*& to) {
    const std::size_t bytes = elements_of(shape, type) * io::size_of(type);
    const auto made = std::make_shared<std::string>(bytes, '\0');
    to = reinterpret_cast<std::byte*>(made->data());
    return any_tensor(constant{type, std::move(shape), made});
}

}  // namespace sluice::nn
