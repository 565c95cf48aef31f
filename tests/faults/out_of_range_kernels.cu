// SPDX-License-Identifier: Apache-2.0
#undef SLUICE_CHECK_BOUNDS
#define SLUICE_CHECK_BOUNDS 1
#include "faults/out_of_range_kernels.hpp"

#include "support/bounds_kernels.hpp"

namespace sluice::faults {
namespace {

using namespace test_support;

struct reads_beyond_from_all_threads {
    static constexpr unsigned line = __LINE__ + 2;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        if (float* const element = out.at(at)) *element = x[x.size() + at.value()];
    }
};

template <typename Kernel>
overrun_words words(std::string access, const std::string& file = "bounds_kernels.hpp:") {
    return {std::string(detail::type_name<Kernel>()), std::move(access), file + std::to_string(Kernel::line) + ")"};
}

template <typename Kernel>
void over_elements(stream on, tensor<float>& x) {
    tensor<float> from(on, x.shape());
    launch_on(on, Kernel{}, each_of(x), from, x);
}
template <typename Kernel>
void over_tiles(stream on, tensor<float>& x) {
    auto tiles = std::move(x).partition({4, 4});
    launch_on(on, Kernel{}, each_of(tiles), tiles);
    x = std::move(tiles).unpartition();
}

}  // namespace

std::string to_string(overrun how) {
    switch (how) {
        case overrun::of_a_view: return "of_a_view";
        case overrun::of_a_row: return "of_a_row";
        case overrun::of_a_column: return "of_a_column";
        case overrun::of_a_tile: return "of_a_tile";
        case overrun::of_shared_memory: return "of_shared_memory";
        case overrun::of_a_part: return "of_a_part";
        case overrun::of_a_matrix_of_tiles: return "of_a_matrix_of_tiles";
    }
    return "";
}

overrun_words words_of(overrun how) {
    switch (how) {
        case overrun::of_a_view:
            return words<reads_beyond_a_view>("element 31 of a view is out of range: its size is 31");
        case overrun::of_a_row:
            return words<reads_beyond_the_rows>("row 7 of a matrix_view is out of range: its size is 7");
        case overrun::of_a_column:
            return words<reads_beyond_the_columns>("column 3 of a matrix_view is out of range: its size is 3");
        case overrun::of_a_tile:
            return words<writes_beyond_the_rows_of_a_tile>("row 4 of a tile_view is out of range: its size is 4");
        case overrun::of_shared_memory:
            return words<writes_beyond_shared_memory>("element 16 of a block_part is out of range: its size is 16");
        case overrun::of_a_part:
            return words<writes_beyond_a_part>("element 16 of a block_part is out of range: its size is 16");
        case overrun::of_a_matrix_of_tiles:
            return words<loads_beyond_a_matrix>("row of tiles 2 of a tiles_of is out of range: its size is 2");
    }
    return {};
}

void overrun_on(stream on, tensor<float>& x, overrun how) {
    switch (how) {
        case overrun::of_a_view: return over_elements<reads_beyond_a_view>(on, x);
        case overrun::of_a_row: return over_elements<reads_beyond_the_rows>(on, x);
        case overrun::of_a_column: return over_elements<reads_beyond_the_columns>(on, x);
        case overrun::of_a_tile: return over_tiles<writes_beyond_the_rows_of_a_tile>(on, x);
        case overrun::of_shared_memory:
            return launch_on(on, writes_beyond_shared_memory{}, blocks(2, 16), shared_memory<float>(16), x);
        case overrun::of_a_part:
            return launch_on(on, writes_beyond_a_part{}, blocks(2, 16), shared_memory<float>(1), x);
        case overrun::of_a_matrix_of_tiles: {
            const loads_beyond_a_matrix kernel{{x.device_data(), 8, 4}, {x.device_data(), 8, 4}};
            const memory_access accesses[] = {{x.memory(), access_mode::write}};
            const command_info info{detail::type_name<loads_beyond_a_matrix>(), accesses, source_location::current()};
            return launch_tiles(on, info, kernel.out, kernel);
        }
    }
}

void overrun_by_all_on(stream on, tensor<float>& x) { over_elements<reads_beyond_from_all_threads>(on, x); }
overrun_words words_of_all() {
    return words<reads_beyond_from_all_threads>(" of a view is out of range: its size is 1048576",
                                                "out_of_range_kernels.cu:");
}

}  // namespace sluice::faults
