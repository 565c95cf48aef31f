// SPDX-License-Identifier: Apache-2.0
// Addresses that kernels of compiled graphs know in addition to the views of the launch: each launch uses its own
// memory, as eager operations do, whether the graph can set the addresses or records the operation again.
#include <cstdint>

#include "conformance/backend.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::graph_address_tests {
namespace {

CONFORMANCE_SUITE(graph_addresses);

constexpr std::size_t size = 500;

enum class form : unsigned char { middle, tagged, packed, halves, one_based, behind_the_end, inverted, distance };

#pragma pack(push, 4)
struct packed_pointer {
    std::uint32_t before;
    const float* x;
};
#pragma pack(pop)

// Copies x; it holds the address of x in one form only.
struct copy_from {
    form as;
    packed_pointer packed;
    std::uint32_t low, high;
    std::uintptr_t word;

    SLUICE_KERNEL const float* address(const view<const float>& x, const float* y) const {
        switch (as) {
            case form::middle: return reinterpret_cast<const float*>(word) - x.size() / 2;
            case form::tagged: return reinterpret_cast<const float*>(word - 1);
            case form::packed: return packed.x;
            case form::halves: return reinterpret_cast<const float*>(std::uintptr_t{high} << 32 | low);
            case form::one_based: return reinterpret_cast<const float*>(word) + 1;
            case form::behind_the_end: return reinterpret_cast<const float*>(word) - x.size() - 4;
            case form::inverted: return reinterpret_cast<const float*>(~word);
            case form::distance: return y + static_cast<std::ptrdiff_t>(word);
        }
        return nullptr;
    }
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* const e = y.at(at)) *e = address(x, e - at.value())[at.value()];
    }
};

copy_from copy_of(form as, const float* x, const float* y) {
    copy_from made{};
    made.as = as;
    const auto at = [](const float* address) { return reinterpret_cast<std::uintptr_t>(address); };
    switch (as) {
        case form::middle: made.word = at(x + size / 2); break;
        case form::tagged: made.word = at(x) + 1; break;
        case form::packed: made.packed = {7, x}; break;
        case form::halves:
            made.low = static_cast<std::uint32_t>(at(x));
            made.high = static_cast<std::uint32_t>(at(x) >> 32);
            break;
        case form::one_based: made.word = at(x - 1); break;
        case form::behind_the_end: made.word = at(x + size + 4); break;
        case form::inverted: made.word = ~at(x); break;
        case form::distance: made.word = static_cast<std::uintptr_t>(x - y); break;
    }
    return made;
}

auto copied(form as, const shared_tensor<float>& x) {
    return uninitialized<float>({size}).and_then([=](tensor<float> y) {
        const auto range = each_of(y);
        return launch(copy_of(as, x->device_data(), y.device_data()), range, x, std::move(y));
    });
}

// Tensors in memory of their own, filled with 0, with 1 ...
std::vector<shared_tensor<float>> filled(int count, scheduling_policy& pool) {
    std::vector<shared_tensor<float>> made;
    for (int i = 0; i < count; ++i) made.emplace_back(sluice::sync(full<float>({size}, static_cast<float>(i)), pool));
    return made;
}

struct copy_by_table {
    SLUICE_KERNEL void operator()(index_1d at, view<const float* const> table, view<const float>,
                                  disjoint_view<float> y) const {
        if (float* const e = y.at(at)) *e = table[0][at.value()];
    }
};

// Copies x when `end` is null; otherwise uses the last element before `end`.
struct copy_or_last {
    const float* end;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* const e = y.at(at)) *e = end == nullptr ? x[at.value()] : end[-1] + 100;
    }
};

}  // namespace

TEST_P(graph_addresses, in_any_form_are_those_of_the_launch) {
    round_robin pool(on, 2);
    for (const form as : {form::middle, form::tagged, form::packed, form::halves, form::one_based, form::behind_the_end,
                          form::inverted, form::distance}) {
        const auto fast = compile(
            on, graph_options{.replicas = 2}, [=](shared_tensor<float> x) { return copied(as, x).and_then(download); },
            shared_input<float>({size}));
        const auto inputs = filled(4, pool);
        for (int i = 0; i < 8; ++i) {
            EXPECT_EQ(sluice::sync(fast(inputs[i % 4]), pool), std::vector<float>(size, static_cast<float>(i % 4)))
                << "form " << static_cast<int>(as) << ", launch " << i;
        }
    }
}

TEST_P(graph_addresses, of_outputs_are_those_of_the_launch) {
    round_robin pool(on, 1);
    const auto fast =
        compile(on, [](shared_tensor<float> x) { return copied(form::distance, x); }, shared_input<float>({size}));
    const shared_tensor<float> x(sluice::sync(full<float>({size}, 3.f), pool));
    std::vector<tensor<float>> kept;
    for (int i = 0; i < 3; ++i) kept.push_back(sluice::sync(fast(x), pool));
    for (tensor<float>& each : kept)
        EXPECT_EQ(sluice::sync(download(std::move(each)), pool), std::vector<float>(size, 3.f));
}

TEST_P(graph_addresses, in_a_table_that_the_operation_uploads_are_those_of_the_launch) {
    single_stream pool(on);
    const auto fast = compile(
        on,
        [](shared_tensor<float> x) {
            return zip(upload(std::vector<const float*>{x->device_data()}, {1}), uninitialized<float>({size}))
                .and_then([=](tensor<const float*> table, tensor<float> y) {
                    const auto range = each_of(y);
                    return launch(copy_by_table{}, range, std::move(table), x, std::move(y));
                })
                .and_then(download);
        },
        shared_input<float>({size}));
    const auto inputs = filled(4, pool);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(sluice::sync(fast(inputs[i]), pool), std::vector<float>(size, static_cast<float>(i)));
}

TEST_P(graph_addresses, that_an_argument_makes_null_stay_null) {
    single_stream pool(on);
    const auto fast = compile(
        on,
        [](shared_tensor<float> x, bool has_end) {
            return uninitialized<float>({size})
                .and_then([=](tensor<float> y) {
                    const auto range = each_of(y);
                    const float* const end = has_end ? x->device_data() + size : nullptr;
                    return launch(copy_or_last{end}, range, x, std::move(y));
                })
                .and_then(download);
        },
        shared_input<float>({size}), argument<bool>(true));
    const auto inputs = filled(9, pool);
    int i = 0;
    for (const bool has_end : {true, true, false, false, false, true, true, false, false}) {
        const float value = static_cast<float>(i) + (has_end ? 100.f : 0.f);
        EXPECT_EQ(sluice::sync(fast(inputs[i], has_end), pool), std::vector<float>(size, value)) << i;
        ++i;
    }
}

TEST_P(graph_addresses, that_are_whole_are_set_without_another_recording) {
    single_stream pool(on);
    int calls = 0;
    const auto fast = compile(
        on,
        [&calls](shared_tensor<float> x) {
            ++calls;
            return copied(form::middle, x).and_then(download);
        },
        shared_input<float>({size}));
    const int at_first = calls;
    const auto inputs = filled(4, pool);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(sluice::sync(fast(inputs[i]), pool), std::vector<float>(size, static_cast<float>(i)));
    EXPECT_EQ(calls, at_first);
}

}  // namespace sluice::conformance::graph_address_tests
