// SPDX-License-Identifier: Apache-2.0
// Programs of CUDA with one mistake, and programs without any, for `sluice check`:
//
//   check_planted NAME      runs one
//   check_planted --list    prints each name, and what is wrong with it: the kinds of findings, "clean", or "unseen"
//   and
//                           why the recorder cannot see it
//
// They use the runtime only, as a program that does not know Sluice does.
#include <cstring>
#include <thread>

#include "machine.hpp"

namespace planted {
namespace {

void captured(machine& with) {
    cudaGraph_t graph{};
    REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
    with.order(with.a, with.b);
    run_make(with.x, with.a);
    run_add(with.x, with.y, with.b);
    with.order(with.b, with.a);
    REQUIRE(cudaStreamEndCapture(with.a, &graph));
    launch_twice(graph, with.a);
}

const program all[] = {
    {"kernel_and_kernel", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         run_add(with.x, with.y, with.b);
     }},
    {"upload_and_kernel", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.a));
         run_add(with.x, with.y, with.b);
     }},
    {"kernel_and_download", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaMemcpyAsync(with.pinned, with.x, bytes, cudaMemcpyDeviceToHost, with.b));
     }},
    {"fill_and_untyped_kernel", "race",
     [](machine& with) {
         REQUIRE(cudaMemsetAsync(with.x, 0, bytes, with.a));
         run_untyped(with.x, with.b);
     }},
    {"default_stream_and_non_blocking", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         run_add(with.x, with.y, nullptr);
     }},
    {"fill_returns_early", "race",
     [](machine& with) {
         REQUIRE(cudaMemset(with.x, 0, bytes));
         run_add(with.x, with.y, with.a);
     }},
    {"record_too_early", "race",
     [](machine& with) {
         REQUIRE(cudaEventRecord(with.done, with.a));
         run_make(with.x, with.a);
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         run_add(with.x, with.y, with.b);
     }},
    {"rows_that_overlap", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpy2DAsync(with.x, 128, with.y, 65, 65, 8, cudaMemcpyDeviceToDevice, with.a));
         REQUIRE(cudaMemcpy2DAsync(reinterpret_cast<char*>(with.x) + 64, 128, with.y, 64, 64, 8,
                                   cudaMemcpyDeviceToDevice, with.b));
     }},
    {"event_again_elsewhere", "event recorded again",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         REQUIRE(cudaEventRecord(with.done, with.blocking));
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         run_add(with.x, with.y, with.b);
     }},
    {"wait_before_record", "wait without record",
     [](machine& with) {
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         REQUIRE(cudaEventRecord(with.done, with.a));
     }},
    {"free_on_another_stream", "use after free",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         with.order(with.a, with.b);
         run_make(z, with.b);
         REQUIRE(cudaFreeAsync(z, with.a));
     }},
    {"use_before_allocation", "race",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         run_make(z, with.b);
         REQUIRE(cudaDeviceSynchronize());
         REQUIRE(cudaFreeAsync(z, with.a));
     }},
    {"fork_without_join", "dropped by capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         with.order(with.a, with.b);
         run_make(with.x, with.b);
         static_cast<void>(cudaStreamEndCapture(with.a, &graph));
         static_cast<void>(cudaGetLastError());
     }},
    {"outside_the_capture", "outside capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         run_make(with.x, with.a);
         run_make(with.y, with.b);
         REQUIRE(cudaStreamEndCapture(with.a, &graph));
         launch_twice(graph, with.a);
     }},
    {"branches_of_a_capture", "race", [](machine& with) { captured(with); }},
    {"nodes_without_an_edge", "race", [](machine& with) { launch_twice(build_graph(with, false), with.a); }},
    // --- orders that look as if they were there
    {"wait_after_the_use", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         run_add(with.x, with.y, with.b);
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
     }},
    {"the_wrong_stream_is_synchronised", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaStreamSynchronize(with.b));
         run_add(with.x, with.y, with.b);
     }},
    {"an_event_of_the_wrong_stream", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         with.order(with.blocking, with.b);
         run_add(with.x, with.y, with.b);
     }},
    {"only_the_first_of_two_streams_is_waited_for", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         run_make(with.y, with.blocking);
         with.order(with.a, with.b);
         run_add(with.x, with.y, with.b);
     }},
    {"another_thread_launches_at_once", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         std::thread([&] { run_add(with.x, with.y, with.b); }).join();
     }},
    // --- copies and fills
    {"download_and_overwrite", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.pinned, with.x, bytes, cudaMemcpyDeviceToHost, with.a));
         run_make(with.x, with.b);
     }},
    {"two_uploads_into_one", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.a));
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.b));
     }},
    {"halves_that_overlap", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes / 2 + 4, cudaMemcpyHostToDevice, with.a));
         REQUIRE(cudaMemcpyAsync(with.x + elements / 2, with.pinned, bytes / 2, cudaMemcpyHostToDevice, with.b));
     }},
    {"a_synchronous_copy_on_the_device", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpy(with.x, with.y, bytes, cudaMemcpyDeviceToDevice));  // does not wait
         run_make(with.x, with.a);
     }},
    {"a_synchronous_upload_of_pageable_memory", "race",
     [](machine& with) {
         // Staged: the last part may not have arrived.
         REQUIRE(cudaMemcpy(with.x, with.pageable.data(), 32 << 10, cudaMemcpyHostToDevice));
         run_make(with.x, with.a);
     }},
    {"managed_memory_of_two_streams", "race",
     [](machine& with) {
         float* shared{};
         REQUIRE(cudaMallocManaged(&shared, bytes));
         run_make(shared, with.a);
         run_add(shared, with.y, with.b);
         REQUIRE(cudaDeviceSynchronize());
         REQUIRE(cudaFree(shared));
     }},
    {"batched_copies_and_a_kernel", "race",
     [](machine& with) {
         batched_upload(with, with.a);
         run_add(with.x, with.y, with.b);
     }},
    // --- events and the default streams
    {"default_stream_of_the_thread", "race",
     [](machine& with) {
         run_make(with.x, cudaStreamPerThread);
         run_add(with.x, with.y, with.b);
     }},
    {"the_host_waits_for_what_was_not_recorded", "wait without record",
     [](machine& with) { REQUIRE(cudaEventSynchronize(with.done)); }},
    // --- memory that is allocated in the order of a stream
    {"reused_while_it_is_read", "use after free,reuse",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         with.order(with.a, with.b);
         run_add(z, with.y, with.b);
         REQUIRE(cudaFreeAsync(z, with.a));
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         REQUIRE(cudaDeviceSynchronize());
         REQUIRE(cudaFree(z));
     }},
    {"a_kernel_after_the_free", "use after free",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         run_make(z, with.a);
         REQUIRE(cudaFreeAsync(z, with.a));
         run_add(z, with.y, with.a);
     }},
    // --- graphs
    {"a_graph_and_a_kernel", "race",
     [](machine& with) {
         cudaGraphExec_t exec = instantiate(build_graph(with, true));
         REQUIRE(cudaGraphLaunch(exec, with.a));
         run_make(with.y, with.b);
     }},
    {"two_graphs", "races",
     [](machine& with) {
         cudaGraphExec_t one = instantiate(build_graph(with, true)), other = instantiate(build_graph(with, true));
         REQUIRE(cudaGraphLaunch(one, with.a));
         REQUIRE(cudaGraphLaunch(other, with.b));
     }},
    {"a_captured_upload_and_a_kernel", "race",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         with.order(with.a, with.b);
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.b));
         run_add(with.x, with.y, with.a);
         with.order(with.b, with.a);
         REQUIRE(cudaStreamEndCapture(with.a, &graph));
         launch_twice(graph, with.a);
     }},
    {"nodes_that_copy_and_fill", "race",
     [](machine& with) {
         cudaGraph_t graph{};
         cudaGraphNode_t first{}, second{};
         REQUIRE(cudaGraphCreate(&graph, 0));
         cudaMemsetParams fill{};
         fill.dst = with.x;
         fill.elementSize = 1;
         fill.width = bytes;
         fill.height = 1;
         REQUIRE(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &fill));
         REQUIRE(cudaGraphAddMemcpyNode1D(&second, graph, nullptr, 0, with.y, with.x, bytes, cudaMemcpyDeviceToDevice));
         launch_twice(graph, with.a);
     }},
    {"a_capture_that_fails", "dropped by capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         run_make(with.x, with.a);
         static_cast<void>(cudaStreamSynchronize(with.a));  // not permitted
         static_cast<void>(cudaStreamEndCapture(with.a, &graph));
         static_cast<void>(cudaGetLastError());
     }},
    {"a_copy_outside_the_capture", "outside capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeRelaxed));
         run_make(with.x, with.a);
         REQUIRE(cudaMemcpyAsync(with.y, with.pinned, bytes, cudaMemcpyHostToDevice, with.b));
         REQUIRE(cudaStreamEndCapture(with.a, &graph));
         launch_twice(graph, with.a);
     }},
    // --- what the recorder does not see
    {"a_pointer_in_a_struct", "unseen: structs among the arguments",
     [](machine& with) {
         run_make(with.x, with.a);
         run_in_struct(with.x, with.b);
     }},
};

}  // namespace

programs mistakes() { return {all, sizeof(all) / sizeof(*all)}; }

}  // namespace planted

int main(int count, char** words) {
    using namespace planted;
    if (count != 2) return 2;
    if (std::strcmp(words[1], "--list") == 0) {
        for (const programs& some : {mistakes(), clean()})
            for (std::size_t i = 0; i < some.count; ++i)
                std::printf("%s\t%s\n", some.first[i].name, some.first[i].kinds);
        list_random();
        return 0;
    }
    for (const programs& some : {mistakes(), clean()}) {
        for (std::size_t i = 0; i < some.count; ++i) {
            if (std::strcmp(some.first[i].name, words[1]) != 0) continue;
            machine with;
            some.first[i].run(with);
            REQUIRE(cudaDeviceSynchronize());
            return 0;
        }
    }
    return run_random(words[1]) ? 0 : 2;
}
