// SPDX-License-Identifier: Apache-2.0
// Other code of the process captures streams while Sluice works, in each of CUDA's modes: neither notices the other.
#include <array>
#include <atomic>
#include <mutex>
#include <thread>

#include "cuda/other_code.hpp"
#include "sluice/cuda/foreign_streams.hpp"

namespace sluice::other_captures_tests {
namespace {

using namespace other_code;
using namespace std::chrono_literals;

__global__ void add_on_device(float* x, float added) { x[threadIdx.x] += added; }

struct capture_count {
    int good = 0, lost = 0;
    std::string first_failure;
};

// Captures five kernels, with time between them for others to disturb.
void capture_once(cudaStream_t on, float* data, cudaStreamCaptureMode mode, capture_count& count) {
    cudaGraph_t graph = nullptr;
    cudaError_t code = cudaStreamBeginCapture(on, mode);
    for (int i = 0; i < 5 && code == cudaSuccess; ++i) {
        add_on_device<<<1, 32, 0, on>>>(data, 1);
        std::this_thread::sleep_for(200us);
    }
    std::size_t nodes = 0;
    if (code == cudaSuccess) code = cudaStreamEndCapture(on, &graph);
    if (code == cudaSuccess) code = cudaGraphGetNodes(graph, nullptr, &nodes);
    if (code == cudaSuccess && nodes == 5) {
        ++count.good;
    } else if (count.lost++ == 0) {
        count.first_failure = cudaGetErrorName(code);
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    static_cast<void>(cudaGetLastError());
}

// Work of Sluice on a thread of its own, until it is stopped.
class worker {
public:
    template <typename Function>
    explicit worker(Function work)
        : thread_([this, work = std::move(work)] {
              for (int i = 0; !stops_; ++i) {
                  const std::string failure = failure_of([&] { work(i); });
                  if (failure.empty()) {
                      ++good_;
                  } else {
                      failure_ = failure;
                      return;
                  }
              }
          }) {}
    worker(const worker&) = delete;  // the thread points to it
    worker& operator=(const worker&) = delete;
    void end() {
        stops_ = true;
        thread_.join();
        EXPECT_EQ(failure_, "");
        EXPECT_GT(good_, 0);
    }

private:
    std::atomic<bool> stops_{false};
    int good_ = 0;
    std::string failure_;
    std::thread thread_;  // last: it uses all of the above
};

class other_captures : public testing::TestWithParam<cudaStreamCaptureMode> {
protected:
    gpu_machine with;
    their_stream theirs;
    their_memory data{4096};

    void warm_up() {
        require_right(with.pool);
        capture_count none;
        capture_once(theirs.get(), data.get(), cudaStreamCaptureModeRelaxed, none);
    }
};
std::string name_of(const testing::TestParamInfo<cudaStreamCaptureMode>& of) {
    return std::array{"global", "thread_local", "relaxed"}.at(static_cast<std::size_t>(of.param));
}
INSTANTIATE_TEST_SUITE_P(, other_captures,
                         testing::Values(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                         cudaStreamCaptureModeRelaxed),
                         name_of);

}  // namespace

TEST_P(other_captures, of_another_thread_go_on_next_to_waits_polls_and_coroutines) {
    warm_up();
    worker waits([&](int) { require_right(with.pool); });
    worker polls([&](int) {
        auto future = spawn(doubled(1000, 3), with.pool);
        while (!future.wait_for(0s)) std::this_thread::yield();
        if (std::move(future).get()[0] != 6) throw std::runtime_error("a wrong result");
    });
    worker awaits([&](int) {
        if (sync_wait(awaited(with.pool, 3)) != 6) throw std::runtime_error("a wrong result");
    });
    capture_count count;
    for (int i = 0; i < 200; ++i) capture_once(theirs.get(), data.get(), GetParam(), count);
    for (worker* const each : {&waits, &polls, &awaits}) each->end();
    EXPECT_EQ(count.lost, 0) << count.first_failure;
    EXPECT_FALSE(with.gpu.is_poisoned());
}

TEST_P(other_captures, of_another_thread_go_on_next_to_growing_pools_and_compilations) {
    warm_up();
    worker grows([&](int i) {
        require_right(with.pool, 100'000 + 300'000 * static_cast<std::size_t>(i % 40));
        if (i % 10 == 9) with.gpu.trim();
    });
    worker compiles([&](int) {
        auto graph = compile(
            with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); },
            host_input<float>({64}));
        if (sync(graph(numbers(64, 3)), with.pool)[5] != 6) throw std::runtime_error("a wrong result");
    });
    capture_count count;
    for (int i = 0; i < 200; ++i) capture_once(theirs.get(), data.get(), GetParam(), count);
    for (worker* const each : {&grows, &compiles}) each->end();
    EXPECT_EQ(count.lost, 0) << count.first_failure;
    EXPECT_FALSE(with.gpu.is_poisoned());
}

TEST_P(other_captures, of_the_same_thread_go_on_next_to_all_that_it_asks_of_sluice) {
    warm_up();
    ASSERT_CUDA(cudaStreamBeginCapture(theirs.get(), GetParam()));
    add_on_device<<<1, 32, 0, theirs.get()>>>(data.get(), 1);
    require_right(with.pool);
    require_right(with.pool, 3'000'000);
    auto future = spawn(busy(5ms), with.pool);
    with.gpu.poll();
    const event mark = event::record(with.pool.next());
    static_cast<void>(mark.has_passed());
    static_cast<void>(std::move(future).get());
    with.gpu.trim();
    with.gpu.synchronize();
    {
        round_robin more(with.gpu, 8);  // new streams
        require_right(more);
    }
    EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);  // the thread's, which is not its stream's
    add_on_device<<<1, 32, 0, theirs.get()>>>(data.get(), 1);
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA(cudaStreamEndCapture(theirs.get(), &graph));
    std::size_t nodes = 0;
    EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 2u);
    EXPECT_CUDA(cudaGraphDestroy(graph));
    EXPECT_FALSE(with.gpu.is_poisoned());
}

// A capture of the stream that the caller has given to Sluice.
TEST(a_captured_foreign_stream, refuses_work_and_the_capture_and_the_device_go_on) {
    gpu_machine with;
    their_stream theirs;
    require_right(with.pool);
    cuda::foreign_stream on(with.gpu, theirs.get());
    require_right(on);
    ASSERT_CUDA(cudaStreamBeginCapture(theirs.get(), cudaStreamCaptureModeThreadLocal));
    EXPECT_NE(failure_of([&] { require_right(on); }), "");
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(theirs.get(), &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    static_cast<void>(cudaGetLastError());
    EXPECT_FALSE(with.gpu.is_poisoned());
    require_right(on);
    require_right(with.pool);
}

// Code of others inside a compiled graph does what a capture does not allow.
TEST(foreign_code_in_a_graph, that_waits_or_allocates_is_refused_or_right) {
    gpu_machine with;
    require_right(with.pool);
    const auto attempt = [&](auto function) {
        const std::string failure = failure_of([&] {
            auto graph = compile(
                with.pool,
                [function](tensor<float> x) {
                    return scaled(std::move(x), 2)
                        .and_then([function](auto y) { return native_call(function, std::move(y)); })
                        .and_then(download);
                },
                host_input<float>({64}));
            EXPECT_EQ(sync(graph(numbers(64, 3)), with.pool)[0], 6);
        });
        EXPECT_FALSE(with.gpu.is_poisoned());
        require_right(with.pool, 50'000);
        return failure;
    };
    EXPECT_NE(attempt([](const native_stream& on, float*) {
                  if (cudaStreamSynchronize(stream_of(on)) != cudaSuccess) throw std::runtime_error("refused");
              }),
              "");
    EXPECT_NE(attempt([](const native_stream&, float*) { throw std::runtime_error("theirs"); }), "");
    attempt([](const native_stream& on, float*) { static_cast<void>(cudaStreamSynchronize(stream_of(on))); });
    attempt([](const native_stream&, float*) { static_cast<void>(cudaDeviceSynchronize()); });
    attempt([](const native_stream&, float*) {
        void* data = nullptr;
        static_cast<void>(cudaMalloc(&data, 1 << 20));
        static_cast<void>(cudaFree(data));
    });
    attempt([](const native_stream&, float* x) {
        float first = 0;
        static_cast<void>(cudaMemcpy(&first, x, sizeof(first), cudaMemcpyDeviceToHost));
    });
    attempt([](const native_stream& on, float* x) {
        add_on_device<<<1, 5000, 0, stream_of(on)>>>(x, 0);  // more threads than a block may have
        if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("refused");
    });
    static_cast<void>(cudaGetLastError());
}

TEST(foreign_code_in_a_graph, that_loses_the_capture_of_a_conditional_body_gets_an_error) {
    gpu_machine with;
    require_right(with.pool);
    const auto attempt = [&](auto function) {
        const std::string failure = failure_of([&] {
            auto graph = compile(
                with.pool,
                [function](tensor<int> flag, tensor<float> x) {
                    return if_(
                               std::move(flag),
                               [function](tensor<float> y) { return native_call(function, std::move(y)); },
                               std::move(x))
                        .and_then(download);
                },
                host_input<int>({1}), host_input<float>({64}));
            sync(graph(std::vector<int>{1}, numbers(64, 1)), with.pool);
        });
        EXPECT_FALSE(with.gpu.is_poisoned());
        require_right(with.pool);
        return failure;
    };
    EXPECT_NE(attempt([](const native_stream& on, float*) { static_cast<void>(cudaStreamSynchronize(stream_of(on))); }),
              "");
    EXPECT_NE(attempt([](const native_stream&, float*) { static_cast<void>(cudaDeviceSynchronize()); }), "");
    EXPECT_NE(attempt([](const native_stream&, float*) { throw std::runtime_error("theirs"); }), "");
    static_cast<void>(cudaGetLastError());
}

TEST(foreign_code_in_a_graph, runs_in_a_conditional_body) {
    gpu_machine with;
    auto graph = compile(
        with.pool,
        [](tensor<int> flag, tensor<float> x) {
            return if_(
                       std::move(flag),
                       [](tensor<float> y) {
                           return native_call(
                               [](const native_stream& on, float* data) {
                                   add_on_device<<<1, 64, 0, stream_of(on)>>>(data, 1);
                                   add_on_device<<<1, 64, 0, stream_of(on)>>>(data, 2);
                               },
                               std::move(y));
                       },
                       std::move(x))
                .and_then(download);
        },
        host_input<int>({1}), host_input<float>({64}));
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(sync(graph(std::vector<int>{1}, numbers(64, 3)), with.pool), numbers(64, 6));
        EXPECT_EQ(sync(graph(std::vector<int>{0}, numbers(64, 3)), with.pool), numbers(64, 3));
    }
}

}  // namespace sluice::other_captures_tests
