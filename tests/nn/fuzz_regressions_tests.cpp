// SPDX-License-Identifier: Apache-2.0
// Replays what the fuzzers started from, and the hostile files that are kept (what a fuzzer finds goes there too), so
// that every run of the tests covers them. A seed is either read or refused with a file_error, a hostile file is
// refused or harmless; anything else (another exception, a sanitizer's report) fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "fuzz/read_csv.hpp"
#include "fuzz/read_image.hpp"
#include "fuzz/read_npy.hpp"
#include "fuzz/read_npz.hpp"
#include "fuzz/read_safetensors.hpp"
#include "fuzz/replay.hpp"
#include "fuzz/run_passes.hpp"

namespace sluice::nn::fuzz_regressions_tests {
namespace {

using sluice::fuzz::replay;

TEST(fuzz_regressions, safetensors_seeds_are_read_or_refused) {
    replay("fuzz/corpus/safetensors", fuzz::read_safetensors);
}

TEST(fuzz_regressions, npy_seeds_are_read_or_refused) { replay("fuzz/corpus/npy", io::fuzz::read_npy); }

TEST(fuzz_regressions, hostile_safetensors_are_read_or_refused) {
    replay("regressions/safetensors", fuzz::read_safetensors);
}

TEST(fuzz_regressions, hostile_npy_are_read_or_refused) { replay("regressions/npy", io::fuzz::read_npy); }

TEST(fuzz_regressions, npz_files_are_read_or_refused) {
    if (!io::zlib_supported()) GTEST_SKIP() << "there is no zlib here";
    replay("fuzz/corpus/npz", io::fuzz::read_npz);
    replay("regressions/npz", io::fuzz::read_npz);
}

TEST(fuzz_regressions, tables_are_read_or_refused) {
    replay("fuzz/corpus/csv", io::fuzz::read_csv);
    replay("regressions/csv", io::fuzz::read_csv);
}

TEST(fuzz_regressions, png_files_are_read_or_refused) {
    if (!io::png_supported()) GTEST_SKIP() << "there is no libpng here";
    replay("fuzz/corpus/png", io::fuzz::read_image);
    replay("regressions/png", io::fuzz::read_image);
}

TEST(fuzz_regressions, jpeg_files_are_read_or_refused) {
    if (!io::jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    replay("fuzz/corpus/jpeg", io::fuzz::read_image);
    replay("regressions/jpeg", io::fuzz::read_image);
}

TEST(fuzz_regressions, networks_of_random_bytes_compute_with_passes_what_they_compute_without) {
    for (unsigned seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        std::vector<std::byte> bytes(20 + random() % 120);
        std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() % 256); });
        EXPECT_NO_THROW(fuzz::run_passes(bytes));
    }
}

}  // namespace
}  // namespace sluice::nn::fuzz_regressions_tests
