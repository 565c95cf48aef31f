// SPDX-License-Identifier: Apache-2.0
// held_row: a row of numbers that a team of a GPU keeps in registers while it normalizes it, so that memory is read
// once. A thread has up to four pieces of eight neighbours. It adds up few numbers, so their rounding errors do not
// matter, as they do for one thread alone (row_sum.hpp).
//
// Which thread has which numbers follows from the width alone, and so do the bits. (To read more before it is used
// takes registers, so that fewer rows are in flight: slower on an H200, with few rows and with many.)
#pragma once

#if defined(__CUDACC__)

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/operators/launch_rows.hpp"
#include "sluice/base/half.hpp"
#include "sluice/kernels/detail/elements.hpp"

namespace sluice::nn::operators {

template <typename Team>
class held_row {
public:
    static constexpr std::size_t of_piece = 8, most_pieces = 4;
    static constexpr std::size_t most_width = Team::size() * of_piece * most_pieces;

    // Up to most_width numbers, -0 at first: a number that is added to it stays as it is, -0 too.
    __device__ held_row(const Team& team, std::size_t width) : team_(team), width_(width) {
#pragma unroll
        for (auto& piece : x_) {
#pragma unroll
            for (float& each : piece) each = -0.0f;
        }
    }

    // Adds the numbers of a row to those that are here.
    template <typename From>
    __device__ void add(const From* row) {
        const bool is_whole = has_whole_pieces(row);
        each_piece([&](std::size_t k, std::size_t first) {
            float read[of_piece];
            load(read, row + first, width_ - first, is_whole);
#pragma unroll
            for (std::size_t e = 0; e < of_piece; ++e) x_[k][e] += read[e];
        });
    }

    // Each number becomes its distance from the mean, if that is subtracted, and the result is 1 / sqrt(variance +
    // epsilon). The mean that is found first is rounded: what it misses is found with the variance.
    __device__ float centre(bool is_centred, float epsilon, float& mean) {
        const float share = 1 / static_cast<float>(width_);  // before the sums, which could overflow
        float first_mean = 0, missed = 0;
        if (is_centred) {
            float own = 0;
            each_number([&](float& x) { own += x * share; });
            first_mean = team_.join(own, added());
        }
        float distances = 0, squares = 0;
        each_number([&](float& x) {
            x -= first_mean;
            distances += x * share;
            squares += x * share * x;
        });
        if (is_centred) missed = team_.join(distances, added());
        const float variance = team_.join(squares, added()) - missed * missed;
        if (is_centred) each_number([&](float& x) { x -= missed; });
        mean = first_mean + missed;
        return 1 / std::sqrt((variance < 0 ? 0.0f : variance) + epsilon);
    }

    // Each number becomes x * factor * scale + shift; `shift` may be null.
    template <typename Scale>
    __device__ void scale(float factor, const Scale* scale, const Scale* shift) {
        const bool is_whole = has_whole_pieces(scale), is_whole_shift = has_whole_pieces(shift);
        each_piece([&](std::size_t k, std::size_t first) {
            float by[of_piece], plus[of_piece] = {};
            load(by, scale + first, width_ - first, is_whole);
            if (shift != nullptr) load(plus, shift + first, width_ - first, is_whole_shift);
#pragma unroll
            for (std::size_t e = 0; e < of_piece; ++e) {
                x_[k][e] = x_[k][e] * factor * by[e];
                if (shift != nullptr) x_[k][e] += plus[e];
            }
        });
    }
    // The same where the factors are elsewhere: number j of this row is number place(j) of both lists.
    template <typename Scale, typename Place>
    __device__ void scale(float factor, const Scale* scale, const Scale* shift, const Place& place) {
        each_piece([&](std::size_t k, std::size_t first) {
#pragma unroll
            for (std::size_t e = 0; e < of_piece; ++e) {
                if (first + e >= width_) continue;
                const std::size_t at = place(first + e);
                x_[k][e] = x_[k][e] * factor * static_cast<float>(scale[at]);
                if (shift != nullptr) x_[k][e] += static_cast<float>(shift[at]);
            }
        });
    }

    template <typename To>
    __device__ void store(To* row) const {
        const bool is_whole = has_whole_pieces(row);
        each_piece(
            [&](std::size_t k, std::size_t first) { store_piece(row + first, x_[k], width_ - first, is_whole); });
    }

private:
    template <typename Number>
    __device__ bool has_whole_pieces(const Number* row) const {
        return width_ % of_piece == 0 && reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
    }
    // function(k, first): each piece of this thread, and its first number.
    template <typename Function>
    __device__ void each_piece(const Function& function) const {
#pragma unroll
        for (std::size_t k = 0; k < most_pieces; ++k) {
            if (k * Team::size() * of_piece >= width_) break;
            const std::size_t first = (k * Team::size() + team_.rank()) * of_piece;
            if (first < width_) function(k, first);
        }
    }
    template <typename Function>
    __device__ void each_number(const Function& function) {
        each_piece([&](std::size_t k, std::size_t first) {
#pragma unroll
            for (std::size_t e = 0; e < of_piece; ++e)
                if (first + e < width_) function(x_[k][e]);
        });
    }

    template <typename From>
    __device__ static void load(float (&to)[of_piece], const From* from, std::size_t count, bool is_whole) {
        constexpr std::size_t of_part = kernels::piece_size<From>;
        using part = kernels::piece<From, of_part>;
        if (is_whole) {
            part read[of_piece / of_part];
#pragma unroll
            for (std::size_t i = 0; i < of_piece / of_part; ++i) read[i] = reinterpret_cast<const part*>(from)[i];
#pragma unroll
            for (std::size_t e = 0; e < of_piece; ++e)
                to[e] = static_cast<float>(read[e / of_part].element[e % of_part]);
            return;
        }
#pragma unroll
        for (std::size_t e = 0; e < of_piece; ++e) to[e] = e < count ? static_cast<float>(from[e]) : 0.0f;
    }
    template <typename To>
    __device__ static void store_piece(To* to, const float (&from)[of_piece], std::size_t count, bool is_whole) {
        constexpr std::size_t of_part = kernels::piece_size<To>;
        using part = kernels::piece<To, of_part>;
        if (is_whole) {
#pragma unroll
            for (std::size_t i = 0; i < of_piece / of_part; ++i) {
                part made;
#pragma unroll
                for (std::size_t e = 0; e < of_part; ++e) made.element[e] = To(from[i * of_part + e]);
                reinterpret_cast<part*>(to)[i] = made;
            }
            return;
        }
#pragma unroll
        for (std::size_t e = 0; e < of_piece; ++e)
            if (e < count) to[e] = To(from[e]);
    }

    const Team& team_;
    const std::size_t width_;
    float x_[most_pieces][of_piece];
};

}  // namespace sluice::nn::operators

#endif
