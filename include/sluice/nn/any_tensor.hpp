// SPDX-License-Identifier: Apache-2.0
// any_tensor: a tensor whose element type and number of dimensions are known when the program runs. The values of a
// network are such tensors.
//
//     nn::any_tensor rows(std::vector<float>{1, 2, 3, 4}, {2, 2});         // in host memory
//     std::span<const float> numbers = answers.at(0).values<float>();
//
// The elements are row-major, in host memory, on a device, or in both. They never change: copies share them.
//
// All members take time linear in the number of dimensions, however many bytes there are. But the constructors from a
// span or a vector copy the values, and make_on_host sets them: linear in their bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::nn {

class any_tensor {
public:
    // No tensor: an input that is left out.
    any_tensor() = default;

    // In host memory. Throws errc::shape_mismatch unless the contents fill the shape.
    explicit any_tensor(constant contents);
    template <typename T>
    any_tensor(std::span<const T> values, std::vector<std::size_t> shape)
        : any_tensor(from_bytes(io::dtype_of<T>, std::move(shape), std::as_bytes(values))) {}
    template <typename T>
    any_tensor(const std::vector<T>& values, std::vector<std::size_t> shape)
        : any_tensor(std::span<const T>(values), std::move(shape)) {}

    // On a device. Throws errc::invalid_argument for a tensor that was moved from.
    template <typename T>
    explicit any_tensor(const shared_tensor<T>& x)
        : any_tensor(io::dtype_of<T>, lengths_of(x->shape()), storage_ref(x->memory())) {}
    template <typename T>
    explicit any_tensor(tensor<T> x) : any_tensor(io::dtype_of<T>, lengths_of(x.shape()), storage_ref(x.memory())) {}
    any_tensor(io::dtype type, std::vector<std::size_t> shape, storage_ref memory);

    // Whether there is a tensor: false for an input that is left out.
    explicit operator bool() const noexcept { return is_there_; }
    io::dtype type() const noexcept { return type_; }  // the type of the elements
    // The lengths of the dimensions, row-major; empty for a scalar.
    const std::vector<std::size_t>& shape() const noexcept { return shape_; }
    std::size_t elements() const noexcept { return elements_; }                         // the number of elements
    std::size_t size_bytes() const noexcept { return elements_ * io::size_of(type_); }  // the bytes of all elements

    // Whether the elements are in host memory: bytes() has them.
    bool is_on_host() const noexcept { return host_ != nullptr; }
    const std::shared_ptr<const std::string>& host_owner() const noexcept { return host_; }  // of bytes()
    // Whether the elements are on a device: memory() has them.
    bool is_on_device() const noexcept { return device_.get() != nullptr; }
    // The elements in host memory; empty when they are not there, and when there are none.
    std::span<const std::byte> bytes() const noexcept;
    // The same as T. Throws errc::invalid_argument for another type, or when they are not in host memory.
    template <typename T>
    std::span<const T> values() const {
        require_host(io::dtype_of<T>);
        return {reinterpret_cast<const T*>(bytes().data()), elements_};
    }

    // The same on a device, for operations. Throws errc::invalid_argument for another type, or when they are not there;
    // errc::shape_mismatch for more than 4 dimensions.
    template <typename T>
    shared_tensor<T> on_device() const {
        require_device(io::dtype_of<T>);
        return shared_tensor<T>(tensor<T>(buffer<T>(device_, elements_), sluice::shape(std::span(shape_))));
    }

    // For commands: the storage on the device, or null.
    storage* memory() const noexcept { return device_.get(); }
    // The storage on the device, with a reference that keeps it; empty where there is none.
    const storage_ref& shared_memory() const noexcept { return device_; }

    // The same elements in another shape of the same number of elements, in another type of the same size, or also on a
    // device. Nothing is copied. Throw errc::shape_mismatch for a shape of another number of elements, and
    // errc::invalid_argument for a type of another size.
    any_tensor with_shape(std::vector<std::size_t> shape) const;
    // In another type of the same size. Throws errc::invalid_argument for one of another size.
    any_tensor with_type(io::dtype type) const;
    any_tensor with_memory(storage_ref memory) const;  // also on a device, in this memory

    // A type and a shape without elements, for shape inference.
    static any_tensor of_shape(io::dtype type, std::vector<std::size_t> shape);
    // New elements in host memory, all bits zero. `to` may be written until the tensor is given to others.
    static any_tensor make_on_host(io::dtype type, std::vector<std::size_t> shape, std::byte*& to);

private:
    static any_tensor from_bytes(io::dtype type, std::vector<std::size_t> shape, std::span<const std::byte> bytes);
    static std::vector<std::size_t> lengths_of(const sluice::shape& of);
    void require_type(io::dtype type) const;
    void require_host(io::dtype type) const;
    void require_device(io::dtype type) const;

    io::dtype type_ = io::dtype::f32;
    bool is_there_ = false;
    std::vector<std::size_t> shape_;
    std::size_t elements_ = 0;
    std::shared_ptr<const std::string> host_;
    storage_ref device_;
};

// "f32 [2, 3]"
std::string to_string(const any_tensor& of);
// "[2, 3]"
std::string to_string(std::span<const std::size_t> shape);

}  // namespace sluice::nn
