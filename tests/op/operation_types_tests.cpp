// SPDX-License-Identifier: Apache-2.0
// Every operation type is move-only, and no aggregate. (g++ 12 destroys aggregate temporaries twice in a
// co_await expression.)
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

namespace sluice::operation_types_tests {
namespace {

struct kernel {
    SLUICE_KERNEL void operator()(index_1d, disjoint_view<float>) const {}
};

template <typename Op>
constexpr bool is_shared_operation = false;
template <typename Source>
constexpr bool is_shared_operation<share_operation<Source>> = true;

template <typename Op>
constexpr bool is_well_formed() {
    static_assert(operation<Op>);
    static_assert(!std::is_aggregate_v<Op>, "an operation type needs a constructor");
    static_assert(std::is_move_constructible_v<Op>);
    static_assert(std::is_copy_constructible_v<Op> == is_shared_operation<Op>, "an operation runs once");
    static_assert(std::is_same_v<decltype(std::declval<const Op&>().estimate()), work_estimate>);
    static_assert(
        std::is_same_v<decltype(std::declval<Op>().submit(std::declval<execution_context&>())), output_of<Op>>);
    return true;
}

using floats = tensor<float>;
using shared_floats = shared_tensor<float>;

struct plus_one {
    int operator()(int x) const { return x + 1; }
};
struct another {
    value_operation<int> operator()(int x) const { return value_operation<int>(x); }
};
struct look {
    int operator()(execution_context&) const { return 1; }
};

static_assert(is_well_formed<value_operation<int>>());
static_assert(is_well_formed<transform_operation<value_operation<int>, plus_one>>());
static_assert(is_well_formed<and_then_operation<value_operation<int>, another>>());
static_assert(is_well_formed<zip_operation<value_operation<int>, value_operation<float>>>());
static_assert(is_well_formed<zip_list_operation<value_operation<int>>>());
static_assert(is_well_formed<zip_list_operation<any_operation<int>>>());
static_assert(is_well_formed<tap_operation<value_operation<int>, plus_one>>());
static_assert(is_well_formed<decltype(first(zip(value(1), value(2.f))))>());
static_assert(is_well_formed<decltype(last(zip(value(1), value(2.f))))>());
static_assert(is_well_formed<decltype(launch(kernel(), upload(std::vector<float>())))>());
static_assert(is_well_formed<decltype(launch(kernel(), each_written(), std::declval<floats>()))>());
static_assert(is_well_formed<random_operation<half, normal_distribution>>());
static_assert(is_well_formed<fill_operation<float>>());
static_assert(is_well_formed<decltype(arange<int>(0, 3))>());
static_assert(is_well_formed<share_operation<value_operation<int>>>());
static_assert(is_well_formed<with_context_operation<look>>());
static_assert(is_well_formed<any_operation<int>>());
static_assert(is_well_formed<upload_operation<float>>());
static_assert(is_well_formed<upload_buffer_operation<float>>());
static_assert(is_well_formed<allocate_operation<float>>());
static_assert(is_well_formed<download_operation<float, floats>>());
static_assert(is_well_formed<download_operation<float, shared_floats>>());
static_assert(is_well_formed<copy_operation<float, floats>>());
static_assert(is_well_formed<copy_operation<float, shared_floats>>());
static_assert(is_well_formed<launch_operation<kernel, launch_range, floats>>());
static_assert(is_well_formed<full_operation<float>>());
static_assert(is_well_formed<decltype(relu)::operation>());
static_assert(is_well_formed<gemm_operation<floats, shared_floats>>());

// The types that operations pass on, and the types that hold operations.
static_assert(!std::is_aggregate_v<floats> && !std::is_aggregate_v<partition<float>> &&
              !std::is_aggregate_v<shared_floats>);
static_assert(!std::is_aggregate_v<buffer<float>> && !std::is_aggregate_v<host_buffer<float>>);
static_assert(!std::is_aggregate_v<pending<int>> && !std::is_aggregate_v<device_future<int>>);

// What owns device memory, or is in flight, is never copied by accident. Only what is shared can be copied.
template <typename T>
constexpr bool is_move_only = std::is_move_constructible_v<T> && !std::is_copy_constructible_v<T>;
static_assert(is_move_only<floats> && is_move_only<partition<float>> && is_move_only<buffer<float>>);
static_assert(is_move_only<host_buffer<float>> && is_move_only<pending<int>> && is_move_only<device_future<int>>);
static_assert(is_move_only<any_operation<int>> && is_move_only<launch_operation<kernel, launch_range, floats>>);
static_assert(std::is_copy_constructible_v<share_operation<value_operation<int>>>);
static_assert(std::is_copy_constructible_v<shared_floats>);

// A scope keeps the address of its name, which therefore has one.
static_assert(std::is_constructible_v<detail::name_scope, execution_context&, const std::string&>);
static_assert(!std::is_constructible_v<detail::name_scope, execution_context&, std::string>);
static_assert(!std::is_constructible_v<detail::name_scope, execution_context&, const char*>);

}  // namespace

TEST(operation_types, are_checked_by_the_compiler) { SUCCEED(); }

}  // namespace sluice::operation_types_tests
