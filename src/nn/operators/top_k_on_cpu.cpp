// SPDX-License-Identifier: Apache-2.0
// An element is a key of 64 bits: one of its number, which is smaller the earlier it comes, and its index. Keys are
// gathered that come before the last one of k; where there are many, the first k of them are kept. So most elements are
// compared once, some at a time.
#include "nn/operators/top_k_on_cpu.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "nn/operators/launch_each.hpp"

namespace sluice::nn::operators {
namespace {

struct top_k_kernel {
    const float* x;
    float* values;
    std::int64_t* indices;
    std::size_t length, inner, k;
    in_word<bool> greatest;

    static constexpr std::size_t most_k = 2048, block = 64, room = 2 * most_k;

    // The numbers are elements, of which a row has `length`.
    static constexpr std::size_t numbers_of_part = 32'768;
    std::size_t host_unit() const { return length; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        std::uint64_t keys[room + block];
        for (std::size_t row = first / length; row < last / length; ++row) {
            const std::size_t outer = row / inner, within = row - outer * inner;
            const float* const from = x + outer * length * inner + within;
            greatest ? find<true>(from, keys) : find<false>(from, keys);
            for (std::size_t j = 0; j < k; ++j) {
                const std::size_t at = keys[j] & index_bits, to = (outer * k + j) * inner + within;
                indices[to] = static_cast<std::int64_t>(at);
                values[to] = from[at * inner];
            }
        }
    }

private:
    static constexpr std::uint64_t index_bits = 0xffff'ffff;

    // Of numbers in their order, with NaN after all of them; or the other way round.
    template <bool Greatest>
    static std::uint32_t key_of(float number) {
        const auto bits = std::bit_cast<std::uint32_t>(number + 0.0f);  // -0 is 0
        const std::uint32_t flipped = bits ^ ((bits >> 31) != 0 ? 0xffff'ffffu : 0x8000'0000u);
        const std::uint32_t ordered = number != number ? 0xffff'ffffu : flipped;
        return Greatest ? ~ordered : ordered;
    }

    // The first k keys, in order.
    template <bool Greatest>
    void find(const float* from, std::uint64_t* keys) const {
        const std::size_t enough = std::max(2 * k, k + block);
        std::size_t size = 0;
        std::uint32_t last = 0xffff'ffff;  // keys of numbers up to this one are gathered
        for (std::size_t r = 0; r < length; r += block) {
            const std::size_t some = std::min(block, length - r);
            std::uint32_t of_block[block];
            if (!read<Greatest>(from, r, some, last, of_block)) continue;
            for (std::size_t i = 0; i < some; ++i) {
                keys[size] = std::uint64_t{of_block[i]} << 32 | (r + i);
                size += of_block[i] <= last ? 1 : 0;
            }
            if (size < enough) continue;
            std::nth_element(keys, keys + (k - 1), keys + size);
            size = k;
            // An equal one that comes later is not among the first.
            const auto least = static_cast<std::uint32_t>(keys[k - 1] >> 32);
            if (least == 0) break;
            last = least - 1;
        }
        if (size > k) std::nth_element(keys, keys + (k - 1), keys + size);
        std::sort(keys, keys + k);
    }

    // Whether one of these keys is to be gathered.
    template <bool Greatest>
    bool read(const float* from, std::size_t first, std::size_t count, std::uint32_t last, std::uint32_t* to) const {
        unsigned found = 0;
        if (inner == 1) {
            for (std::size_t i = 0; i < count; ++i) to[i] = key_of<Greatest>(from[first + i]);
        } else {
            for (std::size_t i = 0; i < count; ++i) to[i] = key_of<Greatest>(from[(first + i) * inner]);
        }
        for (std::size_t i = 0; i < count; ++i) found |= to[i] <= last ? 1u : 0u;
        return found != 0;
    }
};

}  // namespace

bool top_k_on_cpu(const node_call& in, const any_tensor& x, const axis_view& view, std::size_t k, bool greatest,
                  const any_tensor& values, const any_tensor& indices) {
    constexpr std::size_t most_length = std::numeric_limits<std::uint32_t>::max();
    if (is_on_gpu(in) || x.type() != io::dtype::f32 || k == 0 || k > top_k_kernel::most_k || x.elements() == 0 ||
        view.length > most_length)
        return false;
    each(in, x.elements(),
         top_k_kernel{in.read<float>(x), in.write<float>(values), in.write<std::int64_t>(indices), view.length,
                      view.inner, k, greatest},
         {&x}, {&values, &indices});
    return true;
}

}  // namespace sluice::nn::operators
