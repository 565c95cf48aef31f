// SPDX-License-Identifier: Apache-2.0
// tensor<T>: a buffer with a shape, row-major. partition<T>: a matrix or vector that is split into disjoint tiles; each
// index of a kernel may write one tile. Both own their memory, are move-only, and may be dropped at any moment.
//
// All members take constant time, but for the constructor of an uninitialised tensor, which takes what
// memory_pool::allocate takes.
#pragma once

#include "sluice/op/shared.hpp"
#include "sluice/runtime/buffer.hpp"
#include "sluice/runtime/shape.hpp"

namespace sluice {

template <typename T>
class partition;

namespace detail {
// Throws errc::invalid_argument: an argument of the operation is a tensor that was moved from.
[[noreturn]] void refuse_moved_tensor(const error_context& context);
// The number of elements of a new tensor. Throws errc::invalid_argument for shape::none().
std::size_t size_of_new_tensor(const shape& shape, const device& on, const command_info& info);
}  // namespace detail

template <typename T>
class tensor {
public:
    using value_type = T;  // of the elements

    tensor() = default;
    // Contents undefined; for commands on `user`. Throws out_of_memory; errc::invalid_argument for the shape of a
    // tensor that was moved from.
    tensor(stream user, const sluice::shape& shape, const command_info& info = {"allocate"})
        : buffer_(user, detail::size_of_new_tensor(shape, user.owner(), info), info), shape_(shape) {}
    // Throws errc::shape_mismatch unless the buffer has as many elements as the shape.
    tensor(buffer<T> contents, const sluice::shape& shape) : buffer_(std::move(contents)), shape_(shape) {
        require_size(shape);
    }

    // After a move, a tensor has no elements, no memory, and the shape shape::none(). Operations throw
    // errc::invalid_argument for such a tensor and for its shape; also for a default-constructed tensor.
    tensor(tensor&& other) noexcept
        : buffer_(std::move(other.buffer_)), shape_(std::exchange(other.shape_, sluice::shape::none())) {}
    tensor& operator=(tensor&& other) noexcept {
        buffer_ = std::move(other.buffer_);
        shape_ = std::exchange(other.shape_, sluice::shape::none());
        return *this;
    }
    tensor(const tensor&) = delete;  // copies of device memory are commands: say copy(...)
    tensor& operator=(const tensor&) = delete;
    ~tensor() = default;

    const sluice::shape& shape() const noexcept { return shape_; }            // extents, in elements
    std::size_t size() const noexcept { return buffer_.size(); }              // elements, the product of the extents
    std::size_t size_bytes() const noexcept { return buffer_.size_bytes(); }  // of all elements
    std::size_t rows() const noexcept { return shape_.rows(); }  // the last dimension is a row: the number of rows
    std::size_t columns() const noexcept { return shape_.columns(); }  // elements of a row

    // The same elements in another shape of the same size. Throws errc::shape_mismatch otherwise.
    tensor reshape(const sluice::shape& shape) && {
        require_size(shape);
        shape_ = shape;
        return std::move(*this);
    }

    // Splits a matrix or a vector into tiles of the given shape; the tiles at the last row and column may be smaller.
    // Throws errc::shape_mismatch unless both are matrices or both vectors, and the tile is not empty.
    sluice::partition<T> partition(const sluice::shape& tile) &&;

    // For commands: see buffer.
    storage* memory() const noexcept { return buffer_.memory(); }
    // The device address, for commands that name memory(); null after a move.
    T* device_data() const noexcept { return buffer_.device_data(); }

private:
    void require_size(const sluice::shape& shape) const {
        if (shape.size() == buffer_.size()) return;
        throw error(errc::shape_mismatch, "a tensor of " + std::to_string(buffer_.size()) +
                                              " elements cannot have shape " + to_string(shape));
    }

    buffer<T> buffer_;
    sluice::shape shape_ = sluice::shape::none();
};

// Immutable, with many readers.
template <typename T>
using shared_tensor = shared<tensor<T>>;

namespace detail {
// Throws errc::invalid_argument when the tensor was moved from. A tensor of shape [0] passes.
template <typename T>
void require_held(const tensor<T>& x, const error_context& context) {
    if (x.memory() == nullptr) refuse_moved_tensor(context);
}
template <typename T>
void require_held(const shared_tensor<T>& x, const error_context& context) {
    require_held(*x, context);
}
}  // namespace detail

// A tensor that is split into tiles: tensor::partition makes it.
template <typename T>
class partition {
public:
    using value_type = T;  // of the elements

    // Throws errc::shape_mismatch unless both are matrices or both vectors, and the tile is not empty.
    partition(tensor<T> whole, const shape& tile) : whole_(std::move(whole)), tile_(tile) {
        const std::size_t rank = tile.rank();
        if (whole_.shape().rank() != rank || rank == 0 || rank > 2 || tile.size() == 0) {
            throw error(errc::shape_mismatch,
                        "a partition splits a matrix into non-empty matrix tiles, or a vector into non-empty vectors; "
                        "this is " +
                            to_string(whole_.shape()) + " in tiles of " + to_string(tile));
        }
    }

    const shape& tile_shape() const noexcept { return tile_; }  // of a whole tile; those at the edges are smaller
    // How many tiles down, and how many across. The tiles of a vector are one row.
    std::size_t tile_rows() const noexcept { return count(whole_.rows(), tile_.rows()); }
    // How many tiles across.
    std::size_t tile_columns() const noexcept { return count(whole_.columns(), tile_.columns()); }
    const tensor<T>& whole() const noexcept { return whole_; }  // the tensor that is split

    tensor<T> unpartition() && { return std::move(whole_); }  // the tensor again; the partition is empty then

private:
    // Does not overflow for a tile of any size.
    static std::size_t count(std::size_t of, std::size_t tile) noexcept { return of / tile + (of % tile != 0 ? 1 : 0); }

    tensor<T> whole_;
    shape tile_;
};

template <typename T>
partition<T> tensor<T>::partition(const sluice::shape& tile) && {
    return sluice::partition<T>(std::move(*this), tile);
}

}  // namespace sluice
