// SPDX-License-Identifier: Apache-2.0
// Programs without a mistake, among them habits that look wrong and are right.
#include <thread>

#include "machine.hpp"

namespace planted {
namespace {

void captured(machine& with) {
    cudaGraph_t graph{};
    REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
    run_make(with.x, with.a);
    with.order(with.a, with.b);
    run_add(with.x, with.y, with.b);
    with.order(with.b, with.a);
    REQUIRE(cudaStreamEndCapture(with.a, &graph));
    launch_twice(graph, with.a);
}

const program all[] = {
    {"event_in_order", "clean",
     [](machine& with) {
         for (int i = 0; i < 3; ++i) {
             run_make(with.x, with.a);
             with.order(with.a, with.b);
             run_add(with.x, with.y, with.b);
             with.order(with.b, with.a);
         }
     }},
    {"default_stream_and_blocking", "clean",
     [](machine& with) {
         run_make(with.x, with.blocking);
         run_add(with.x, with.y, nullptr);
         run_make(with.x, with.blocking);
     }},
    {"free_waits", "clean",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMalloc(&z, bytes));
         run_make(z, with.a);
         REQUIRE(cudaFree(z));
     }},
    {"pageable_download_waits", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaMemcpyAsync(with.pageable.data(), with.x, bytes, cudaMemcpyDeviceToHost, with.a));
         run_make(with.x, with.b);
     }},
    {"synchronous_copies", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpy(with.x, with.pageable.data(), bytes, cudaMemcpyHostToDevice));
         run_add(with.x, with.y, nullptr);
         REQUIRE(cudaMemcpy(with.pageable.data(), with.y, bytes, cudaMemcpyDeviceToHost));
     }},
    {"query_until_done", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         while (cudaEventQuery(with.done) == cudaErrorNotReady) {
         }
         run_add(with.x, with.y, with.b);
     }},
    {"pool_in_order", "clean",
     [](machine& with) {
         for (int i = 0; i < 4; ++i) {
             float* z{};
             REQUIRE(cudaMallocAsync(&z, bytes, with.a));
             run_make(z, with.a);
             REQUIRE(cudaFreeAsync(z, with.a));
         }
     }},
    {"rows_side_by_side", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpy2DAsync(with.x, 128, with.y, 64, 64, 8, cudaMemcpyDeviceToDevice, with.a));
         REQUIRE(cudaMemcpy2DAsync(reinterpret_cast<char*>(with.x) + 64, 128, with.y, 64, 64, 8,
                                   cudaMemcpyDeviceToDevice, with.b));
     }},
    {"captured_in_order", "clean", [](machine& with) { captured(with); }},
    {"edge_between_nodes", "clean", [](machine& with) { launch_twice(build_graph(with, true), with.a); }},
    {"many_launches", "clean",
     [](machine& with) {
         for (int i = 0; i < 20'000; ++i) run_make(with.x, with.a);
     }},
    {"the_host_waits_for_the_stream", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaStreamSynchronize(with.a));
         run_add(with.x, with.y, with.b);
     }},
    {"the_host_waits_for_the_device", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         run_make(with.y, with.blocking);
         REQUIRE(cudaDeviceSynchronize());
         run_add(with.x, with.y, with.b);
     }},
    {"the_host_waits_for_an_event", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         REQUIRE(cudaEventSynchronize(with.done));
         run_add(with.x, with.y, with.b);
     }},
    {"a_wait_is_passed_on", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         with.order(with.a, with.blocking);
         with.order(with.blocking, with.b);
         run_add(with.x, with.y, with.b);
     }},
    {"two_streams_read_the_same", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.pinned, with.x, bytes, cudaMemcpyDeviceToHost, with.a));
         run_add(with.x, with.y, with.b);
     }},
    {"halves_side_by_side", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes / 2, cudaMemcpyHostToDevice, with.a));
         REQUIRE(cudaMemcpyAsync(with.x + elements / 2, with.pinned, bytes / 2, cudaMemcpyHostToDevice, with.b));
     }},
    {"two_tensors_in_one_block", "clean",
     [](machine& with) {
         run_append(with.x, with.x + 1024, with.a);
         run_append(with.x + 2048, with.x + 4096, with.b);
     }},
    {"pinned_memory_in_turn", "clean",
     [](machine& with) {
         for (int i = 0; i < 3; ++i) {
             REQUIRE(cudaEventSynchronize(with.done));
             with.pinned[0] = 1;
             REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.a));
             REQUIRE(cudaEventRecord(with.done, with.a));
         }
     }},
    {"another_thread_after_a_wait", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaStreamSynchronize(with.a));
         std::thread([&] { run_add(with.x, with.y, with.b); }).join();
     }},
    {"another_thread_waits", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         std::thread([&] { REQUIRE(cudaStreamSynchronize(with.a)); }).join();
         run_add(with.x, with.y, with.b);
     }},
    {"a_pool_across_streams", "clean",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         with.order(with.a, with.b);
         run_make(z, with.b);
         REQUIRE(cudaFreeAsync(z, with.b));
     }},
    {"managed_memory_after_a_wait", "clean",
     [](machine& with) {
         float* shared{};
         REQUIRE(cudaMallocManaged(&shared, bytes));
         run_make(shared, with.a);
         REQUIRE(cudaStreamSynchronize(with.a));
         shared[0] = 1;
         run_add(shared, with.y, with.b);
         REQUIRE(cudaStreamSynchronize(with.b));
         REQUIRE(cudaFree(shared));
     }},
    {"a_function_of_the_host_in_between", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaLaunchHostFunc(with.a, [](void*) {}, nullptr));
         with.order(with.a, with.b);
         run_add(with.x, with.y, with.b);
     }},
    {"one_graph_on_two_streams", "clean",
     [](machine& with) {
         cudaGraphExec_t exec = instantiate(build_graph(with, true));
         REQUIRE(cudaGraphLaunch(exec, with.a));
         REQUIRE(cudaGraphLaunch(exec, with.b));
     }},
    {"a_graph_in_order_of_a_kernel", "clean",
     [](machine& with) {
         cudaGraphExec_t exec = instantiate(build_graph(with, true));
         run_make(with.y, with.b);
         with.order(with.b, with.a);
         REQUIRE(cudaGraphLaunch(exec, with.a));
     }},
    {"batched_copies_in_order", "clean",
     [](machine& with) {
         batched_upload(with, with.a);
         with.order(with.a, with.b);
         run_add(with.x, with.y, with.b);
     }},
    {"launches_of_10_us", "clean",
     [](machine& with) {
         for (int i = 0; i < 20'000; ++i) run_of_10_us(with.x, with.a);
     }},
};

}  // namespace

programs clean() { return {all, sizeof(all) / sizeof(*all)}; }

}  // namespace planted
