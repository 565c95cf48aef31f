// SPDX-License-Identifier: Apache-2.0
// attention_loops, for a file that is compiled for one kind of vector unit and includes this once.
//
// 64 queries and 128 keys at a time. The scores lie the other way round, a row for each key: keys are read where they
// are, the maxima and sums of 64 queries are vectors, and the second product reads a score for each query as one
// number.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include "kernels/add_product.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/elementwise/vector_math_loops.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t queries_at_once = attention_loops::queries_at_once, keys_at_once = 128;
constexpr std::size_t widest_value = attention_call::largest_size;

// A matrix that is read one number after the other.
struct strided_matrix {
    const float* at;
    std::int64_t of_row, of_inner;
};

// c += a * b, or c = a * b: Rows rows of c and Vectors vectors of each.
template <int Rows, int Vectors>
[[gnu::always_inline]] inline void multiply_tile(const strided_matrix& a, const float* b, std::int64_t of_b, float* c,
                                                 std::size_t of_c, std::size_t inner, bool adds) {
    number_lane sums[Rows][Vectors] = {};
    for (std::size_t k = 0; k < inner; ++k) {
        const float* const from_b = b + static_cast<std::int64_t>(k) * of_b;
        number_lane right[Vectors];
        for (int v = 0; v < Vectors; ++v)
            right[v] = *reinterpret_cast<const loose_number_lane*>(from_b + v * static_cast<int>(lane_numbers));
        const float* const from_a = a.at + static_cast<std::int64_t>(k) * a.of_inner;
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < Vectors; ++v) add_product(sums[r][v], from_a[r * a.of_row], right[v]);
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) {
            auto* const to = reinterpret_cast<loose_number_lane*>(c + static_cast<std::size_t>(r) * of_c) + v;
            *to = adds ? *to + sums[r][v] : sums[r][v];
        }
    }
}

// `columns` is a multiple of a vector.
template <int Rows>
void multiply_rows(const strided_matrix& a, const float* b, std::int64_t of_b, float* c, std::size_t of_c,
                   std::size_t inner, std::size_t columns, bool adds) {
    std::size_t at = 0;
    for (; at + 2 * lane_numbers <= columns; at += 2 * lane_numbers)
        multiply_tile<Rows, 2>(a, b + at, of_b, c + at, of_c, inner, adds);
    if (at < columns) multiply_tile<Rows, 1>(a, b + at, of_b, c + at, of_c, inner, adds);
}

void multiply_matrices(strided_matrix a, const float* b, std::int64_t of_b, float* c, std::size_t of_c,
                       std::size_t rows, std::size_t inner, std::size_t columns, bool adds) {
    constexpr int at_once = 6;  // by 2 vectors: 12 sums, 2 of b and 1 of a are in 16 registers
    std::size_t row = 0;
    for (; row + at_once <= rows; row += at_once) {
        multiply_rows<at_once>(a, b, of_b, c, of_c, inner, columns, adds);
        a.at += at_once * a.of_row;
        c += at_once * of_c;
    }
    for (; row + 2 <= rows; row += 2) {
        multiply_rows<2>(a, b, of_b, c, of_c, inner, columns, adds);
        a.at += 2 * a.of_row;
        c += 2 * of_c;
    }
    if (row < rows) multiply_rows<1>(a, b, of_b, c, of_c, inner, columns, adds);
}

// The queries of a call of the loops.
struct query_block {
    const attention_call& call;
    std::int64_t batch, head, first;
    std::size_t count;

    const float* begin(const attention_operand& of, std::int64_t position) const {
        return static_cast<const float*>(of.at) + batch * of.strides[0] + head * of.strides[1] +
               position * of.strides[2];
    }
};

// to[element][query], times the scale; queries that are not there are 0.
void take_queries(const query_block& of, float scale, float* to) {
    const float* const from = of.begin(of.call.q, of.first);
    const std::int64_t of_query = of.call.q.strides[2], of_element = of.call.q.strides[3];
    for (std::size_t q = 0; q < queries_at_once; ++q) {
        const float* const row = from + static_cast<std::int64_t>(q) * of_query;
        for (std::size_t d = 0; d < of.call.size; ++d)
            to[d * queries_at_once + q] = q < of.count ? row[static_cast<std::int64_t>(d) * of_element] * scale : 0.0f;
    }
}

// The scores of one key.
void mask_key(const query_block& of, const attention_mask& mask, std::int64_t key, float* scores) {
    const std::int64_t of_query = mask.strides[2];
    const std::int64_t at =
        of.batch * mask.strides[0] + of.head * mask.strides[1] + of.first * of_query + key * mask.strides[3];
    if (mask.what == attention_mask::kind::added) {
        const float* const from = static_cast<const float*>(mask.at) + at;
        for (std::size_t q = 0; q < of.count; ++q) scores[q] += from[static_cast<std::int64_t>(q) * of_query];
        return;
    }
    const auto* const from = static_cast<const std::uint8_t*>(mask.at) + at;
    const float otherwise = *static_cast<const float*>(mask.otherwise);
    const bool kept = mask.what == attention_mask::kind::kept_where_true;
    for (std::size_t q = 0; q < of.count; ++q)
        scores[q] = (from[static_cast<std::int64_t>(q) * of_query] != 0) == kept ? scores[q] : otherwise;
}

// The scores of a tile become exponentials. `by`: what sums so far are multiplied by.
void take_exponentials(float* scores, std::size_t keys, float* largest, float* sum, float* by) {
    constexpr float nothing = -__builtin_inff();
    for (std::size_t q = 0; q < queries_at_once; q += lane_numbers) {
        const number_lane before = *reinterpret_cast<const loose_number_lane*>(largest + q);
        number_lane most = before;
        for (std::size_t k = 0; k < keys; ++k) {
            const number_lane each = *reinterpret_cast<const loose_number_lane*>(scores + k * queries_at_once + q);
            most = each > most ? each : most;
        }
        const number_lane centre = most == nothing ? number_lane{} : most;
        number_lane factor, total = {};
        exponential(before - centre, factor);
        for (std::size_t k = 0; k < keys; ++k) {
            auto* const at = reinterpret_cast<loose_number_lane*>(scores + k * queries_at_once + q);
            const number_lane away = *at - centre;
            number_lane made;
            exponential(away, made);
            *at = made;
            total += made;
        }
        *reinterpret_cast<loose_number_lane*>(largest + q) = most;
        *reinterpret_cast<loose_number_lane*>(by + q) = factor;
        auto* const sums = reinterpret_cast<loose_number_lane*>(sum + q);
        *sums = *sums * factor + total;
    }
}

// Values side by side, as whole vectors: where they are, or copied.
struct value_rows {
    const float* at;
    std::int64_t of_key;
};
value_rows take_values(const query_block& of, std::int64_t key, std::size_t keys, std::size_t width, float* room) {
    const float* const from = of.begin(of.call.v, key);
    const std::int64_t of_key = of.call.v.strides[2], of_element = of.call.v.strides[3];
    if (of_element == 1 && width == of.call.value_size) return {from, of_key};
    for (std::size_t k = 0; k < keys; ++k) {
        const float* const row = from + static_cast<std::int64_t>(k) * of_key;
        for (std::size_t e = 0; e < width; ++e)
            room[k * width + e] = e < of.call.value_size ? row[static_cast<std::int64_t>(e) * of_element] : 0.0f;
    }
    return {room, static_cast<std::int64_t>(width)};
}

// The result of a query whose probabilities became 0: 0, or NaN where a value is infinite or NaN.
void zeros_by_values(const query_block& of, float* to) {
    for (std::size_t e = 0; e < of.call.value_size; ++e) {
        to[e] = 0;
        for (std::size_t k = 0; k < of.call.keys; ++k)
            to[e] += 0.0f * of.begin(of.call.v,
                                     static_cast<std::int64_t>(k))[static_cast<std::int64_t>(e) * of.call.v.strides[3]];
    }
}

void attend(const attention_call& call, float scale, std::size_t batch, std::size_t head, std::size_t first,
            std::size_t last) noexcept {
    alignas(64) float queries[attention_call::largest_size * queries_at_once];
    alignas(64) float scores[keys_at_once * queries_at_once];
    alignas(64) float made[queries_at_once * widest_value];
    alignas(64) float room[keys_at_once * widest_value];
    alignas(64) float largest[queries_at_once], sum[queries_at_once], by[queries_at_once];
    const query_block of{call, static_cast<std::int64_t>(batch), static_cast<std::int64_t>(head),
                         static_cast<std::int64_t>(first), last - first};
    const std::size_t width = (call.value_size + lane_numbers - 1) / lane_numbers * lane_numbers;
    take_queries(of, scale, queries);
    for (std::size_t q = 0; q < queries_at_once; ++q) {
        largest[q] = -__builtin_inff();
        sum[q] = 0;
    }
    for (std::size_t key = 0; key < call.keys; key += keys_at_once) {
        const std::size_t rest = call.keys - key, keys = rest < keys_at_once ? rest : keys_at_once;
        const auto from = static_cast<std::int64_t>(key);
        multiply_matrices({of.begin(call.k, from), call.k.strides[2], call.k.strides[3]}, queries, queries_at_once,
                          scores, queries_at_once, keys, call.size, queries_at_once, false);
        for (std::size_t i = 0; i < call.masks; ++i)
            for (std::size_t k = 0; k < keys; ++k)
                mask_key(of, call.mask[i], from + static_cast<std::int64_t>(k), scores + k * queries_at_once);
        take_exponentials(scores, keys, largest, sum, by);
        if (key != 0)
            for (std::size_t q = 0; q < of.count; ++q)
                for (std::size_t e = 0; e < width; ++e) made[q * width + e] *= by[q];
        const value_rows values = take_values(of, from, keys, width, room);
        multiply_matrices({scores, 1, queries_at_once}, values.at, values.of_key, made, width, of.count, keys, width,
                          key != 0);
    }
    auto* const to = const_cast<float*>(of.begin(call.y, of.first));
    for (std::size_t q = 0; q < of.count; ++q) {
        const float factor = 1 / sum[q];
        float* const row = to + static_cast<std::int64_t>(q) * call.y.strides[2];
        if (gives_zeros(call, sum[q])) {
            zeros_by_values(of, row);
            continue;
        }
        for (std::size_t e = 0; e < call.value_size; ++e) row[e] = made[q * width + e] * factor;
    }
}

}  // namespace
}  // namespace sluice::kernels
