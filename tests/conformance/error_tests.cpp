// SPDX-License-Identifier: Apache-2.0
// Calls that are refused. The message names the request, the device and the line of the call.
#include <array>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance::error_tests {
namespace {

class errors : public conformance_test {
protected:
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, errors, testing::ValuesIn(enrolled_backends()), backend_name);

// These launches are refused before it is checked whether the kernel has GPU code.
struct needs_matrix {
    void operator()(index_2d, matrix_view<const int>, disjoint_matrix<int>) const {}
};
struct needs_flat {
    void operator()(index_1d, view<const int>, disjoint_view<int>) const {}
};
struct needs_tiles {
    void operator()(tile_index, disjoint_tiles<int>) const {}
};

}  // namespace

TEST_P(errors, an_upload_that_does_not_fill_its_shape_is_refused_when_it_is_built) {
    expect_refused_here(errc::shape_mismatch, {"upload", "5 values", "[2, 3]"},
                        [] { upload(std::vector<int>(5), {2, 3}); });
    expect_refused(errc::shape_mismatch, {"upload"}, [&] { upload(host_buffer<int>(home, 7), {8}); });
}

TEST_P(errors, a_shape_of_another_size_is_refused) {
    expect_refused(errc::shape_mismatch, {"6 elements", "[4]"}, [&] { sync(zeros<int>({2, 3}), pool).reshape({4}); });
    expect_refused(errc::shape_mismatch, {"6 elements", "[7]"}, [&] { tensor<int>(buffer<int>(home, 6), shape{7}); });
}

TEST_P(errors, a_partition_needs_a_matrix_or_vector_and_tiles_that_are_not_empty) {
    const auto expect_no_partition = [&](const shape& of, const shape& tile) {
        expect_refused(errc::shape_mismatch, {to_string(of), to_string(tile)},
                       [&] { sync(zeros<int>(of), pool).partition(tile); });
    };
    expect_no_partition({6}, {2, 2});
    expect_no_partition({2, 3, 4}, {2, 2});
    expect_no_partition({6, 6}, {2});
    expect_no_partition({6, 6}, {0, 2});
    expect_no_partition({6}, {0});
    expect_no_partition({}, {});
}

TEST_P(errors, a_launch_that_does_not_fit_its_range_is_refused_before_anything_is_submitted) {
    auto line_of_12 = sync(zeros<int>({12}), pool);
    auto matrix = sync(zeros<int>({3, 4}), pool);
    auto tiles = sync(zeros<int>({4, 4}), pool).partition({2, 2});
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"needs_matrix", "over [12]"},
                        [&] { launch_on(home, needs_matrix{}, each_of(line_of_12), matrix, matrix); });
    expect_refused(errc::shape_mismatch, {"needs_matrix", "shape [12]"},
                   [&] { launch_on(home, needs_matrix{}, each_of(matrix), matrix, line_of_12); });
    expect_refused(errc::shape_mismatch, {"needs_matrix", "shape [12]"},
                   [&] { launch_on(home, needs_matrix{}, each_of(matrix), line_of_12, matrix); });
    expect_refused(errc::shape_mismatch, {"needs_flat", "tile_index"},
                   [&] { launch_on(home, needs_flat{}, each_of(tiles), line_of_12, line_of_12); });
    expect_refused(errc::shape_mismatch, {"needs_tiles", "partition"},
                   [&] { launch_on(home, needs_tiles{}, each_of(matrix), tiles); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(errors, memory_of_another_device_is_refused_by_name) {
    single_stream other_pool(other_device());
    auto theirs = sync(zeros<int>({4}), other_pool);
    auto ours = sync(zeros<int>({4}), pool);
    const ticket before = home.issued();
    const std::string device = GetParam().device, other = GetParam().other_device;

    expect_refused_here(errc::invalid_argument, {"needs_flat on " + device, "memory of " + other},
                        [&] { launch_on(home, needs_flat{}, each_of(ours), theirs, ours); });
    expect_refused(errc::invalid_argument, {"needs_flat on " + other, "memory of " + device},
                   [&] { launch_on(other_pool.next(), needs_flat{}, each_of(ours), theirs, ours); });
    expect_refused(errc::invalid_argument, {"copy on " + device, "memory of " + other},
                   [&] { sync(copy(shared_tensor<int>(std::move(theirs))), pool); });
    theirs = sync(zeros<int>({4}), other_pool);
    expect_refused(errc::invalid_argument, {"download on " + device, "memory of " + other},
                   [&] { sync(download(std::move(theirs)), pool); });
    EXPECT_EQ(home.issued(), before);
    EXPECT_EQ(contents(std::move(ours), home), std::vector<int>(4, 0));
}

TEST_P(errors, a_refused_command_leaves_the_stream_and_its_tickets_unchanged) {
    single_stream other_pool(other_device());
    auto theirs = sync(zeros<unsigned>({4}), other_pool);
    auto ours = sync(upload(std::vector<unsigned>{1, 2, 3, 4}), pool);
    const ticket before = home.issued();
    EXPECT_THROW(step_on(home, theirs, 1), error);
    EXPECT_EQ(home.issued(), before);
    step_on(home, ours, 1);
    EXPECT_EQ(home.issued(), before + 1);
    EXPECT_EQ(contents(std::move(ours), home), (std::vector<unsigned>{4, 7, 10, 13}));
}

TEST_P(errors, an_unknown_device_is_refused_with_the_list_of_devices) {
    expect_refused(errc::device_not_found, {"'cpu:99'", "cpu:0", GetParam().device}, [&] { devices.find("cpu:99"); });
    expect_refused(errc::device_not_found, {"'tpu'"}, [&] { devices.find("tpu"); });
    expect_refused(errc::device_not_found, {"''"}, [&] { devices.find(""); });
}

TEST_P(errors, devices_are_found_by_name_and_by_kind) {
    EXPECT_EQ(&devices.find(GetParam().device), &on);
    EXPECT_EQ(devices.find("cpu").name(), "cpu:0");
    EXPECT_EQ(&devices.default_device(), devices.devices().front());
    EXPECT_EQ(&devices.find("auto"), devices.devices().front());
    EXPECT_EQ(devices.find(GetParam().device.substr(0, GetParam().device.find(':'))).kind(), on.kind());
}

TEST_P(errors, a_policy_without_streams_is_refused) {
    expect_refused(errc::invalid_argument, {GetParam().device, "at least one"}, [&] { round_robin(on, 0); });
}

}  // namespace sluice::conformance::error_tests
