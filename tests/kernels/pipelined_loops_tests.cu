// SPDX-License-Identifier: Apache-2.0
// run_pipelined in kernels that are not the library's.
#include "sluice/kernels/pipelined_loops.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "conformance/backend.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::conformance::pipelined_loops_tests {
namespace {

SLUICE_KERNEL void add_to(unsigned long long* sum, unsigned long long x) {
#if defined(__CUDA_ARCH__)
    atomicAdd(sum, x);
#else
    *sum += x;
#endif
}

struct arguments {
    const unsigned* in;
    double* out;
    unsigned long long* sum;
    std::size_t size, batch;
};

// Reads across the batch, so that an element that was not there yet, or was overwritten, is seen.
struct reverse_and_halve {
    double* out;
    SLUICE_KERNEL void operator()(const unsigned* batch, std::size_t first, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[first + i] = batch[count - 1 - i] / 2.0;
    }
};

// Two loops one after the other, in the same shared memory: one writes another type, one sums up in a variable.
template <typename Form>
struct halves_then_sum : arguments {
    SLUICE_KERNEL void operator()(void* shared) const {
        const pipelined::batches<unsigned> input{in, size, batch};
        run_pipelined(Form{}, input, shared, reverse_and_halve{out});
        unsigned long long mine = 0;
        run_pipelined(Form{}, input, shared,
                      [&mine](const unsigned* staged, std::size_t, std::size_t count, unsigned rank, unsigned threads) {
                          for (std::size_t i = rank; i < count; i += threads) mine += staged[i];
                      });
        if (mine != 0) add_to(sum, mine);
    }
};

// The loop again and again: what it leaves behind must not disturb the next.
template <typename Form>
struct one_batch_at_a_time : arguments {
    SLUICE_KERNEL void operator()(void* shared) const {
        unsigned long long mine = 0;
        for (std::size_t at = 0; at < size; at += batch) {
            const std::size_t count = size - at < batch ? size - at : batch;
            run_pipelined(
                Form{}, pipelined::batches<unsigned>{in + at, count, batch}, shared,
                [&mine](const unsigned* staged, std::size_t, std::size_t found, unsigned rank, unsigned threads) {
                    for (std::size_t i = rank; i < found; i += threads) mine += staged[i];
                });
        }
        add_to(sum, mine);
        run_pipelined(Form{}, pipelined::batches<unsigned>{in, size, batch}, shared, reverse_and_halve{out});
    }
};

// Two warps halve while the other two add up, each pair in a loop of its own. `batch` is the same in both.
template <typename Left, typename Right>
struct side_by_side : arguments {
    using left = pipelined::part<64, Left>;
    using right = pipelined::part<64, Right, 64, 2>;
    SLUICE_KERNEL void operator()(void* shared) const {
        const pipelined::batches<unsigned> input{in, size, batch};
        run_pipelined(left{}, input, shared, reverse_and_halve{out});
        unsigned long long mine = 0;
        void* const state =
            static_cast<unsigned char*>(shared) + pipelined::shared_bytes<left>(128, batch * sizeof(unsigned));
        run_pipelined(right{}, input, state,
                      [&mine](const unsigned* staged, std::size_t, std::size_t count, unsigned rank, unsigned threads) {
                          for (std::size_t i = rank; i < count; i += threads) mine += staged[i];
                      });
        if (mine != 0) add_to(sum, mine);
    }
};

struct no_ranks {
    SLUICE_KERNEL constexpr bool operator()(unsigned) const { return false; }
};
struct last_lanes {
    SLUICE_KERNEL constexpr bool operator()(unsigned rank) const { return rank % 32 >= 28; }
};

template <typename Kernel>
void run_on_host(const void* closure) {
    unsigned char unused[1];
    (*static_cast<const Kernel*>(closure))(unused);
}
#if defined(__CUDACC__)
template <typename Kernel>
__global__ void run_on_device(const __grid_constant__ Kernel kernel) {
    extern __shared__ __align__(128) unsigned char pipelined_loops_tests_shared[];
    kernel(pipelined_loops_tests_shared);
}
#endif

class pipelined_loops : public conformance_test {
protected:
    // Runs the kernel with blocks of 128 threads on inputs of several sizes, and checks the halves and the sum.
    template <typename Kernel>
    void expect_kernel(const char* name, std::size_t shared_bytes) {
        constexpr std::size_t batch = 128;
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, batch, 3 * batch + 1, 100 * batch - 3}) {
            for (const unsigned blocks : {1u, 3u}) {
                SCOPED_TRACE(testing::Message() << name << " of " << size << ", " << blocks << " blocks");
                const auto values = counting<unsigned>(size);
                std::vector<double> expected(size);
                for (std::size_t first = 0; first < size; first += batch) {
                    const std::size_t count = std::min(batch, size - first);
                    for (std::size_t i = 0; i < count; ++i) expected[first + i] = values[first + count - 1 - i] / 2.0;
                }
                const auto in = submit_to(home, upload(values));
                auto out = submit_to(home, full<double>(in.shape(), -1));
                auto sum = submit_to(home, zeros<unsigned long long>({1}));
                Kernel kernel{{in.device_data(), out.device_data(), sum.device_data(), size, batch}};
                const std::array accesses{memory_access{in.memory(), access_mode::read},
                                          memory_access{out.memory(), access_mode::write},
                                          memory_access{sum.memory(), access_mode::write}};
                launch_command command;
#if defined(__CUDACC__)
                command.device_function = reinterpret_cast<const void*>(&run_on_device<Kernel>);
#endif
                command.host_function = &run_on_host<Kernel>;
                command.grid.x = blocks;
                command.block.x = 128;
                command.shared_bytes = shared_bytes;
                detail::set_closure(command, kernel);
                home.launch({name, accesses}, command);
                ASSERT_EQ(contents(std::move(out), home), expected);
                const auto total = std::accumulate(values.begin(), values.end(), 0ull);
                ASSERT_EQ(contents(std::move(sum), home).front(), total);
            }
        }
    }

    template <typename Form>
    void expect_right(const char* name) {
        const std::size_t bytes = pipelined::shared_bytes<Form>(128, 128 * sizeof(unsigned));
        expect_kernel<halves_then_sum<Form>>(name, bytes);
        expect_kernel<one_batch_at_a_time<Form>>(name, bytes);
    }
    template <typename Left, typename Right>
    void expect_both(const char* name) {
        using kernel = side_by_side<Left, Right>;
        expect_kernel<kernel>(name, pipelined::shared_bytes<typename kernel::left>(128, 128 * sizeof(unsigned)) +
                                        pipelined::shared_bytes<typename kernel::right>(128, 128 * sizeof(unsigned)));
    }

    bool is_before_hopper() const { return on.kind() == device_kind::cuda && on.properties().compute_capability < 90; }

    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, pipelined_loops, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(pipelined_loops, run_in_kernels_of_a_user) {
    expect_right<pipelined::plain_loads>("plain loads");
    expect_right<pipelined::one_stage>("one stage");
    expect_right<pipelined::n_stages<3>>("three stages");
    expect_right<pipelined::roles<2, 32>>("roles, a warp copies");
    expect_right<pipelined::roles<3, 5>>("roles, five threads copy");
    expect_right<pipelined::thread_scope<3>>("thread scope");
    expect_right<pipelined::primitives<2>>("primitives");
    expect_right<pipelined::arrivals<3>>("arrivals");
}

TEST_P(pipelined_loops, run_in_kernels_of_a_user_with_bulk_copies) {
    if (is_before_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
    expect_right<pipelined::bulk<1>>("bulk, one stage");
    expect_right<pipelined::bulk<3>>("bulk");
    expect_right<pipelined::part<64, pipelined::bulk<2>, 32>>("bulk in a part");
    expect_both<pipelined::bulk<2>, pipelined::warp_scope<2>>("bulk next to warps");
}

TEST_P(pipelined_loops, run_with_any_threads_as_producers) {
    expect_right<pipelined::roles_where<2, pipelined::even_ranks>>("even ranks copy");
    expect_right<pipelined::roles_where<3, pipelined::odd_ranks>>("odd ranks copy");
    expect_right<pipelined::roles_where<2, pipelined::first_ranks<96>>>("three warps of four copy");
    expect_right<pipelined::roles_where<4, last_lanes>>("four lanes of each warp copy");
}

TEST_P(pipelined_loops, run_in_a_part_of_the_block) {
    expect_right<pipelined::part<64, pipelined::plain_loads>>("plain loads");
    expect_right<pipelined::part<96, pipelined::n_stages<2>>>("two stages");
    expect_right<pipelined::part<64, pipelined::n_stages<3>, 64>>("three stages in the last two warps");
    expect_right<pipelined::part<64, pipelined::roles<2, 32>, 32>>("roles in the middle");
    expect_right<pipelined::part<64, pipelined::roles_where<2, pipelined::even_ranks>>>("even ranks copy");
    expect_right<pipelined::part<32, pipelined::thread_scope<2>, 96, 15>>("thread scope in the last warp");
    expect_right<pipelined::part<128, pipelined::primitives<2>>>("primitives in the whole block");
    expect_right<pipelined::part<64, pipelined::arrivals<2>>>("arrivals");
    expect_both<pipelined::n_stages<2>, pipelined::n_stages<2>>("two stages next to two stages");
    expect_both<pipelined::roles<2, 32>, pipelined::thread_scope<3>>("roles next to thread scope");
    expect_both<pipelined::arrivals<2>, pipelined::arrivals<2>>("arrivals next to arrivals");
}

TEST_P(pipelined_loops, run_in_each_warp_for_itself) {
    expect_right<pipelined::warp_scope<1>>("one stage");
    expect_right<pipelined::warp_scope<4>>("four stages");
    expect_right<pipelined::part<64, pipelined::warp_scope<2>, 32>>("in a part of the block");
    expect_both<pipelined::warp_scope<2>, pipelined::warp_scope<3>>("in two parts");
}

TEST(pipelined_forms, know_what_they_need_of_a_block) {
    using pipelined::shared_bytes;
    EXPECT_EQ(shared_bytes<pipelined::plain_loads>(256, 1024), 1024u);
    EXPECT_EQ(shared_bytes<pipelined::n_stages<4>>(256, 1024), 4096u);
    EXPECT_EQ((shared_bytes<pipelined::warp_scope<2>>(256, 1024)), 8 * 2 * 1024u);
    EXPECT_EQ((shared_bytes<pipelined::part<64, pipelined::warp_scope<2>>>(256, 1024)), 2 * 2 * 1024u);
    EXPECT_TRUE(pipelined::plain_loads::fits(32));
    EXPECT_FALSE(pipelined::plain_loads::fits(0));
    EXPECT_FALSE(pipelined::plain_loads::fits(48));
    EXPECT_TRUE((pipelined::roles<2, 64>::fits(96)));
    EXPECT_FALSE((pipelined::roles<2, 64>::fits(64)));
    EXPECT_TRUE((pipelined::roles_where<2, pipelined::even_ranks>::fits(32)));
    EXPECT_FALSE((pipelined::roles_where<2, pipelined::first_ranks<64>>::fits(64)));
    EXPECT_FALSE((pipelined::roles_where<2, no_ranks>::fits(64)));
    EXPECT_FALSE(pipelined::arrivals<64>::fits(32));
    EXPECT_TRUE((pipelined::part<64, pipelined::one_stage, 64>::fits(128)));
    EXPECT_FALSE((pipelined::part<64, pipelined::one_stage, 64>::fits(96)));
}

}  // namespace sluice::conformance::pipelined_loops_tests
