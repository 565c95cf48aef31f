// SPDX-License-Identifier: Apache-2.0
// The code in docs/memory_of_others.md.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::docs::memory_of_others_tests {
namespace {

class memory_of_others : public testing::Test {
protected:
    runtime machine;
    device& cpu = machine.find("cpu");
    single_stream pool{cpu};
};

// Another library's side of an exchange.
void other_library_doubles(float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values[i] *= 2;
}

#if defined(__CUDACC__)
void adopt_on_gpu(device& gpu) {
    single_stream pool(gpu);
    float* data = nullptr;
    ASSERT_EQ(cudaMalloc(&data, 1024 * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMemset(data, 0, 1024 * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // all work of others on the memory is complete

    tensor<float> x = adopt(gpu, data, {1024}, [](float* p) { cudaFree(p); });
    auto y = sync(value(std::move(x)).and_then([](auto all) { return scale(std::move(all), 2); }), pool);

    EXPECT_EQ(y.device_data(), data);
    EXPECT_EQ(sync(download(std::move(y)), pool), std::vector<float>(1024, 0.f));
}
#endif

}  // namespace

TEST_F(memory_of_others, is_adopted) {
    const std::size_t rows = 4, columns = 8;
    auto table = std::make_shared<std::vector<float>>(rows * columns, 3.f);

    tensor<float> x = adopt(cpu, table->data(), {rows, columns}, table);  // the tensor keeps the vector
    const float* const read_only = table->data();
    auto y = sync(value(std::move(x)).and_then([](auto all) { return scale(std::move(all), 2); }), pool);
    EXPECT_EQ(y.device_data(), read_only);

    auto weights = std::make_shared<std::vector<float>>(columns, 1.f);
    shared_tensor<float> w = adopt(cpu, std::as_const(*weights).data(), {columns}, weights);  // const: only to read

    EXPECT_EQ(sync(download(w), pool), *weights);
    EXPECT_EQ(*table, std::vector<float>(rows * columns, 6.f));

#if defined(__CUDACC__)
    if (machine.default_device().kind() == device_kind::cuda) adopt_on_gpu(machine.default_device());
#endif
}

TEST_F(memory_of_others, the_way_out_is_an_address) {
    tensor<float> x = sync(full<float>({8}, 3), pool);  // waited for: the contents are there
    other_library_doubles(x.device_data(), x.size());   // complete before the tensor is next used
    EXPECT_EQ(sync(download(std::move(x)), pool), std::vector<float>(8, 6));
}

TEST_F(memory_of_others, capsules_go_out_and_come_in) {
    tensor<float> x = sync(full<float>({2, 4}, 3), pool);
    dlpack_capsule<> capsule = to_dlpack(std::move(x));  // waits until no command uses x

    DLManagedTensorVersioned* given = capsule.release();      // to another library; here it comes back
    tensor<float> y = from_dlpack<float>(cpu, given);         // now the tensor owns the capsule
    const shared_tensor<float> z(std::move(y));               // for many readers
    dlpack_capsule<> again = to_dlpack(z);                    // with the read-only flag
    auto w = from_dlpack<const float>(cpu, again.release());  // a shared_tensor

    EXPECT_EQ(sync(download(w), pool), std::vector<float>(8, 3));
}

TEST(memory_of_others_in_the_simulator, an_early_free_is_found) {
    const auto frees_too_early = [](sim::simulator& machine) {
        auto memory = std::make_shared<std::vector<float>>(64);
        tensor<float> x = adopt(machine.device(), memory->data(), {64}, memory);
        auto running = spawn(scale(std::move(x), 2), machine.pool());
        machine.memory_freed(memory->data());  // what the program does here by mistake
        std::move(running).get();
    };
    const sim::exploration made = sim::explore(frees_too_early, {.schedules = 100});
    ASSERT_TRUE(made.found.has_value());
    EXPECT_EQ(made.found->what, sim::fault::use_after_free);
}

TEST_F(memory_of_others, is_mapped_by_two_processes) {
    constexpr std::size_t bytes = 4096;
    const int file = memfd_create("shared", MFD_CLOEXEC);
    ASSERT_NE(file, -1);
    ASSERT_EQ(ftruncate(file, bytes), 0);

    // `file` is the same in both processes: shm_open of one name, or a memfd_create that was sent over a socket.
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    tensor<float> x = adopt(cpu, static_cast<float*>(mapped), {1024}, [](float* p) { munmap(p, bytes); });

    void* const elsewhere = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(elsewhere, MAP_FAILED);
    x = sync(fill(std::move(x), 7.f), pool);
    for (std::size_t i = 0; i < 1024; ++i) ASSERT_EQ(static_cast<const float*>(elsewhere)[i], 7.f) << i;
    x = tensor<float>();
    EXPECT_EQ(munmap(elsewhere, bytes), 0);
    EXPECT_EQ(close(file), 0);
}

}  // namespace sluice::docs::memory_of_others_tests
