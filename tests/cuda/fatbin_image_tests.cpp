// SPDX-License-Identifier: Apache-2.0
// The check of fatbins that nvcc made, which needs no GPU. fatbin_module_tests.cpp runs them on one.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "conformance/expect_refused.hpp"
#include "cuda/module_image.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice::cuda::fatbin_image_tests {
namespace {

using conformance::expect_refused;

const std::filesystem::path folder = SLUICE_TEST_FATBINS;

std::span<const std::byte> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
module_image read(std::string_view text) { return read_image(bytes_of(text), {"load_module"}); }

// The whole length of the first entry is after the fatbin's header of 16 bytes, and 8 bytes into the entry's own.
constexpr std::size_t length_at = 16 + 8;

std::uint64_t first_length(const std::string& of) {
    std::uint64_t length = 0;
    std::memcpy(&length, of.data() + length_at, sizeof(length));
    return length;
}
std::string with_first_length(std::string of, std::uint64_t length) {
    std::memcpy(of.data() + length_at, &length, sizeof(length));
    return of;
}

class fatbin_images : public testing::TestWithParam<std::string_view> {
protected:
    const std::string whole = io::testing::read_file(folder / GetParam());
};
INSTANTIATE_TEST_SUITE_P(, fatbin_images, testing::Values("this_build.fatbin", "sm_75.fatbin"),
                         [](const auto& file) { return std::string(file.param.substr(0, file.param.find('.'))); });

}  // namespace

TEST_P(fatbin_images, that_nvcc_made_pass_unchanged) {
    const module_image image = read(whole);
    EXPECT_EQ(image.kind, image_kind::fatbin);
    EXPECT_EQ(image.compute_capability, 0);  // only the driver knows what is inside
    ASSERT_EQ(image.bytes.size(), whole.size());
    EXPECT_EQ(std::memcmp(image.bytes.data(), whole.data(), whole.size()), 0);
}

TEST_P(fatbin_images, that_are_cut_anywhere_are_refused) {
    for (std::size_t length = 4; length < whole.size(); ++length)
        expect_refused(errc::bad_file, {"cut"}, [&] { read(std::string_view(whole).substr(0, length)); });
}

TEST_P(fatbin_images, whose_first_entry_has_a_wrong_length_are_refused) {
    const std::uint64_t right = first_length(whole);
    ASSERT_LT(right, whole.size());
    for (const std::uint64_t wrong : {right + 1, right - 1, whole.size() + 0, ~std::uint64_t{0}})
        expect_refused(errc::bad_file, {"damaged"}, [&] { read(with_first_length(whole, wrong)); });
    EXPECT_NO_THROW(read(with_first_length(whole, right)));
}

TEST_P(fatbin_images, on_a_cpu_device_are_refused) {
    runtime machine({.cuda = false});
    expect_refused(errc::unsupported, {"load_module", GetParam().data(), "cpu:0", "GPUs only"},
                   [&] { load_module(machine.find("cpu"), folder / GetParam()); });
}

}  // namespace sluice::cuda::fatbin_image_tests
