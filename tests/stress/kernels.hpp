// SPDX-License-Identifier: Apache-2.0
// The kernels of random programs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"
#include "sluice/graph/loop_condition.hpp"
#include "sluice/runtime/view.hpp"
#include "stress/numbers.hpp"

namespace sluice::stress {

struct mix_kernel {
    float k;
    std::size_t shift;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, view<const float> y,
                                  disjoint_view<float> out) const {
        if (float* const e = out.at(at)) *e = mix_of(x[at.value()], y[(at.value() + shift) % y.size()], k);
    }
};

struct change_kernel {
    float k;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e = changed_by(*e, k);
    }
};

struct wrap_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e = wrapped(*e);
    }
};

// The forms in which a closure may hold the address of the memory that it reads.
enum class pointer_form : unsigned { middle, one_based, tagged, past_the_end, distance };
inline constexpr unsigned pointer_forms = 5;

// Reads x through an additional word next to a plain view; the offset of the word need not be a multiple of 8.
#pragma pack(push, 4)
struct packed_word {
    pointer_form form;
    std::uint64_t word;
};
#pragma pack(pop)
struct aligned_word {
    pointer_form form;
    std::uint64_t word;
};

template <typename Word>
struct pointer_kernel {
    Word by;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        float* const e = out.at(at);
        if (e == nullptr) return;
        const std::uint64_t element = sizeof(float);
        std::uint64_t from = by.word;
        if (by.form == pointer_form::middle) from -= x.size() / 2 * element;
        if (by.form == pointer_form::one_based) from += element;
        if (by.form == pointer_form::tagged) from -= 1;
        if (by.form == pointer_form::past_the_end) from -= x.size() * element;
        if (by.form == pointer_form::distance) from += reinterpret_cast<std::uint64_t>(e) - at.value() * element;
        *e = changed_by(reinterpret_cast<const float*>(from)[at.value()], 1);
    }
};

inline std::uint64_t word_of(pointer_form form, const float* x, const float* out, std::size_t count) {
    const auto start = reinterpret_cast<std::uint64_t>(x);
    switch (form) {
        case pointer_form::middle: return start + count / 2 * sizeof(float);
        case pointer_form::one_based: return start - sizeof(float);
        case pointer_form::tagged: return start + 1;
        case pointer_form::past_the_end: return start + count * sizeof(float);
        default: return start - reinterpret_cast<std::uint64_t>(out);
    }
}

struct is_above_kernel {
    float limit;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<int> to) const {
        if (int* const e = to.at(at)) *e = x[0] > limit ? 1 : 0;
    }
};
struct is_positive_kernel {
    SLUICE_KERNEL void operator()(index_1d at, view<const int> x, disjoint_view<int> to) const {
        if (int* const e = to.at(at)) *e = x[0] > 0 ? 1 : 0;
    }
};
struct count_down_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const e = x.at(at)) --*e;
    }
};
struct halve_kernel {
    float limit;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, loop_condition again) const {
        float* const e = x.at(at);
        if (e == nullptr) return;
        *e = half_of(*e);
        if (at.value() == 0) again.set(*e > limit);
    }
};

}  // namespace sluice::stress
