// SPDX-License-Identifier: Apache-2.0
// Tensors and events between processes: this one and peers that it starts (interprocess_peer.cpp).
#include "sluice/cuda/interprocess.hpp"

#include <chrono>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/support/peer_process.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/runtime/transfer_region.hpp"

namespace sluice::conformance::interprocess_tests {
namespace {

constexpr std::size_t size = 1024;

std::vector<float> numbers(float factor = 1) {
    std::vector<float> all(size);
    for (std::size_t i = 0; i < size; ++i) all[i] = factor * static_cast<float>(i);
    return all;
}

// What the peer `sums` answers for numbers().
const std::string sum_of_numbers = "[1024] " + std::to_string(1023.0 * 1024 / 2);

class interprocess : public testing::Test {
protected:
    tensor<float> uploaded() { return sync(upload(numbers()), pool); }

    runtime owner;
    device& gpu = owner.find("cuda:0");
    round_robin pool{gpu, 2};
};

}  // namespace

TEST_F(interprocess, another_process_changes_a_tensor) {
    for (const char* task : {"doubles", "doubles_in_a_graph"}) {
        peer_process peer(task);
        auto x = uploaded();
        {
            const cuda::exported_tensor exported = cuda::export_tensor(x);
            peer.send(exported.handle());
            EXPECT_EQ(peer.answer(), "doubled") << task;
            EXPECT_EQ(peer.wait(), 0) << task;
        }
        EXPECT_EQ(sync(scale(std::move(x), 3).and_then(download), pool), numbers(6)) << task;
    }
}

TEST_F(interprocess, a_part_of_a_tensor_is_found_inside_its_allocation) {
    peer_process peer("doubles");
    auto [low, high] = split<2>(uploaded());
    const cuda::exported_tensor exported = cuda::export_tensor(high);
    peer.send(exported.handle());
    EXPECT_EQ(peer.answer(), "doubled");
    EXPECT_EQ(peer.wait(), 0);
    std::vector<float> expected = numbers();
    for (std::size_t i = size / 2; i < size; ++i) expected[i] *= 2;
    EXPECT_EQ(sync(download(join(std::move(low), std::move(high))), pool), expected);
}

TEST_F(interprocess, a_shared_tensor_is_read_by_several_processes) {
    const shared_tensor<float> x(uploaded());
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    peer_process first("sums"), second("sums");
    first.send(exported.handle());
    second.send(exported.handle());
    EXPECT_EQ(sync(download(x), pool), numbers());
    EXPECT_EQ(first.answer(), sum_of_numbers);
    EXPECT_EQ(second.answer(), sum_of_numbers);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
}

TEST_F(interprocess, export_waits_for_the_contents) {
    NEEDS_A_GATE();
    peer_process peer("sums");
    const stream home = pool.next();
    static_cast<void>(submit_to(home, scale(uploaded(), 2)));  // loads the kernel
    auto x = sync(upload(numbers(0.5f)), pool);
    gate held(home);
    x = submit_to(home, scale(std::move(x), 2));
    const std::jthread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        held.open();
    });
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    peer.send(exported.handle());
    EXPECT_EQ(peer.answer(), sum_of_numbers);
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(interprocess, the_memory_stays_while_it_is_exported) {
    peer_process peer("sums");
    const std::size_t before = gpu.device_pool().usage().in_use_bytes;
    {
        auto x = uploaded();
        const float* const place = x.device_data();
        const cuda::exported_tensor exported = cuda::export_tensor(x);
        x = tensor<float>();
        std::vector<tensor<float>> others;
        for (int i = 0; i < 8; ++i) {
            others.push_back(sync(full<float>({size}, 99), pool));
            EXPECT_NE(others.back().device_data(), place);
        }
        peer.send(exported.handle());
        EXPECT_EQ(peer.answer(), sum_of_numbers);
        EXPECT_EQ(peer.wait(), 0);
        others.clear();
        EXPECT_GT(gpu.device_pool().usage().in_use_bytes, before);
    }
    EXPECT_EQ(gpu.device_pool().usage().in_use_bytes, before);
}

TEST_F(interprocess, a_tensor_comes_from_another_process) {
    peer_process peer("offers");
    const auto handle = peer.receive<cuda::tensor_handle>();
    {
        auto x = cuda::import_tensor<float>(gpu, handle);
        EXPECT_EQ(x.shape(), (shape{2, 2}));
        EXPECT_THROW(cuda::export_tensor(x), error);  // CUDA exports only the process's own allocations
        x = sync(scale(std::move(x), 10), pool);
        EXPECT_EQ(sync(download(std::move(x)), pool), (std::vector<float>{10, 20, 30, 40}));
    }
    gpu.synchronize();
    const shared_tensor<float> again = cuda::import_tensor<const float>(gpu, handle);
    EXPECT_EQ(sync(download(again), pool), (std::vector<float>{10, 20, 30, 40}));
    peer.send('.');
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(interprocess, a_handle_whose_process_has_ended_is_refused) {
    peer_process peer("offers");
    const auto handle = peer.receive<cuda::tensor_handle>();
    peer.send('.');
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_THROW(cuda::import_tensor<float>(gpu, handle), error);
    EXPECT_EQ(sync(full<float>({3}, 2).and_then(download), pool), std::vector<float>(3, 2));  // the GPU works
}

TEST_F(interprocess, an_allocation_of_a_program_without_sluice_is_a_tensor) {
    peer_process peer("offers_an_allocation");
    const auto handle = peer.receive<cuda::allocation_handle>();
    {
        const auto read = cuda::import_allocation<const float>(gpu, handle, {size});
        EXPECT_EQ(sync(download(read), pool), numbers());
        auto first = cuda::import_allocation<float>(gpu, handle, {2});
        first = sync(upload_to(std::move(first), region{.at = {1}, .shape = {1}}, std::vector<float>{70}), pool);
        expect_refused(errc::invalid_argument, {"import_allocation", "4100 bytes"},
                       [&] { cuda::import_allocation<float>(gpu, handle, {size + 1}); });
    }
    gpu.synchronize();
    peer.send('.');
    EXPECT_EQ(peer.answer(), "1:" + std::to_string(70.0F) + " ");
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_THROW(cuda::import_allocation<float>(gpu, handle, {2}), error);  // the process has ended
}

TEST_F(interprocess, bytes_that_are_no_handle_of_cuda_are_refused) {
    cuda::allocation_handle noise;
    noise.bytes.fill(std::byte{0x5a});
    for (const cuda::allocation_handle& each : {cuda::allocation_handle(), noise})
        EXPECT_THROW(cuda::import_allocation<float>(gpu, each, {2}), error);
    EXPECT_EQ(sync(full<float>({3}, 2).and_then(download), pool), std::vector<float>(3, 2));  // the GPU works
}

TEST_F(interprocess, tensors_without_elements_cross_too) {
    peer_process peer("sums");
    const shared_tensor<float> x(sync(zeros<float>({3, 0}), pool));
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    peer.send(exported.handle());
    EXPECT_EQ(peer.answer(), "[3, 0] " + std::to_string(0.0));
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(interprocess, events_order_two_processes_on_the_gpu) {
    NEEDS_A_GATE();
    peer_process peer("answers_by_events");
    auto x = uploaded();
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    const cuda::interprocess_event written(gpu);
    peer.send(exported.handle());
    peer.send(written.handle());
    const cuda::interprocess_event doubled(gpu, peer.receive<cuda::event_handle>());

    // What happens once must not happen while the stream is held: kernels are loaded, pinned memory is taken.
    const auto tripled = [](tensor<float> y) { return scale(std::move(y), 3).and_then(download); };
    static_cast<void>(sync(value(uploaded()).and_then(tripled), pool));
    const stream home = pool.next();
    gate held(home);
    auto y =
        submit_to(home, scale(std::move(x), 5).and_then([&](auto z) { return cuda::record(written, std::move(z)); }));
    peer.send('.');
    EXPECT_EQ(peer.answer(), "submitted");
    auto result = spawn(cuda::wait_for(doubled, std::move(y)).and_then(tripled), pool);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(result.is_ready());
    held.open();
    EXPECT_EQ(std::move(result).get(), numbers(5 * 2 * 3));
    peer.send('.');
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(interprocess, the_importing_process_refuses_what_does_not_fit) {
    peer_process peer("is_refused");
    const shared_tensor<float> x(uploaded());
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    peer.send(exported.handle());
    EXPECT_NE(peer.answer().find("imported are elements of int32"), std::string::npos);
    EXPECT_NE(peer.answer().find("import it as const"), std::string::npos);
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(interprocess, the_exporting_process_cannot_import) {
    auto x = uploaded();
    const cuda::exported_tensor exported = cuda::export_tensor(x);
    expect_refused_here(errc::invalid_argument, {"import_tensor", "cuda:0", "this process made the handle itself"},
                        [&] { cuda::import_tensor<float>(gpu, exported.handle()); });
    const cuda::interprocess_event event(gpu);
    expect_refused(errc::invalid_argument, {"this process made the handle itself"},
                   [&] { cuda::interprocess_event(gpu, event.handle()); });
}

TEST_F(interprocess, events_work_within_their_own_process) {
    const cuda::interprocess_event event(gpu);
    auto x = sync(scale(uploaded(), 2).and_then([&](auto y) { return cuda::record(event, std::move(y)); }), pool);
    EXPECT_EQ(sync(cuda::wait_for(event, std::move(x)).and_then(download), pool), numbers(2));
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { sync(cuda::wait_for(event, std::move(x)), pool); });
}

TEST_F(interprocess, a_graph_has_no_events_of_several_processes) {
    const cuda::interprocess_event event(gpu);
    expect_refused(errc::graph_refused, {"wait_for_event", "several processes"}, [&] {
        compile(gpu, [&](tensor<float> x) { return cuda::wait_for(event, std::move(x)); }, device_input<float>({3}));
    });
    expect_refused(errc::graph_refused, {"record_event", "several processes"}, [&] {
        compile(gpu, [&](tensor<float> x) { return cuda::record(event, std::move(x)); }, device_input<float>({3}));
    });
}

}  // namespace sluice::conformance::interprocess_tests
