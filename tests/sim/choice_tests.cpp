// SPDX-License-Identifier: Apache-2.0
// A choice among kernels, batches of matrices and reductions of tiles in the simulator.
#include <gtest/gtest.h>

#include "sluice/kernels/one_of.hpp"
#include "sluice/kernels/tile_kernels.hpp"
#include "sluice/kernels/tile_reduce.hpp"
#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim::choice_tests {
namespace {

template <int Size>
struct note_size {  // x = Size
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, Size> x) const {
        x.store(at, vector_tile<float, Size>::full(Size));
    }
};
using sizes = one_of<note_size<64>, note_size<128>>;

struct centre_rows {  // of a matrix of at most 16 columns, without the rows' means
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 8, 16> x) const {
        const auto mine = x.load(at);
        const auto sums = broadcast<8, 16>(row_sums(mine));
        const float columns = static_cast<float>(x.columns());
        x.store(at, map(mine, sums, [=](float a, float sum) { return a - sum / columns; }));
    }
};

auto choices_and_batches(const std::shared_ptr<tuning_table>& table) {
    const std::vector<float> numbers(4 * 20 * 12, 2);
    auto products = launch(one_of<batch_gemm_tiles<float, 16, 16, 8>, batch_gemm_tiles<float, 8, 8, 4>>(table),
                           upload(numbers, {4, 20, 12}), upload(numbers, {4, 12, 20}), zeros<float>({4, 20, 20}));
    auto centred = launch(centre_rows{}, upload(numbers, {80, 12}));
    return zip(launch(sizes(table), zeros<float>({100})).and_then(download), std::move(products).and_then(download),
               std::move(centred).and_then(download));
}

TEST(choices, take_what_the_table_has_for_a_simulated_device) {
    const auto table = std::make_shared<tuning_table>();
    simulator machine;
    const auto expect_size = [&](float size) {
        const auto [chosen, products, centred] = sync(choices_and_batches(table), machine.pool());
        EXPECT_EQ(chosen, std::vector<float>(100, size));
        EXPECT_EQ(products, std::vector<float>(4 * 20 * 20, 48));
        EXPECT_EQ(centred, std::vector<float>(80 * 12, 0));
    };
    expect_size(64);
    table->add({"simulated", {"note_size<64>", "note_size<128>"}, {{100}}, 1, 1, 2});
    expect_size(128);
    const auto graph = compile(machine.pool(), [table] { return choices_and_batches(table); });
    EXPECT_EQ(std::get<0>(sync(graph(), machine.pool())), std::vector<float>(100, 128));
    explore([table] { return choices_and_batches(table); }, {.schedules = 100}).require_clean();
}

}  // namespace
}  // namespace sluice::sim::choice_tests
