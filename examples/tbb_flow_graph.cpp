// SPDX-License-Identifier: Apache-2.0
// tbb_flow_graph: device work in a flow graph of oneTBB. A node submits an operation for each message and returns; when
// the operation completes, the node's output goes to its successors. TBB has a single thread here, and four operations
// are in flight: no thread of TBB waits for a device.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <array>
#include <cstdio>
#include <exception>
#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include "sluice/kernels/softmax.hpp"
#include "sluice/senders.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;
namespace flow = oneapi::tbb::flow;

namespace {

struct scores {
    std::size_t index = 0;
    std::vector<float> values;
};
struct answer {
    std::size_t index = 0;
    std::vector<float> probabilities;
    std::exception_ptr failure;  // of this message; the others are not affected
};
using device_node = flow::async_node<scores, answer>;

// One operation in flight. It is on the heap, and deletes itself when it has given the node its output.
template <typename Operation>
class in_flight {
public:
    static void start(Operation operation, scheduling_policy& pool, std::size_t index,
                      device_node::gateway_type& node) {
        auto* self = new in_flight(std::move(operation), pool, index, node);
        node.reserve_wait();  // the graph is not idle until release_wait
        execution::start(self->state_);
    }

private:
    // On a thread of the runtime, which only hands the output to TBB; its successors run on TBB's threads.
    struct receiver {
        using receiver_concept = execution::receiver_t;
        in_flight* self;

        void set_value(std::vector<float> values) && noexcept { self->finish({self->index_, std::move(values), {}}); }
        void set_error(std::exception_ptr failure) && noexcept { self->finish({self->index_, {}, std::move(failure)}); }
        void set_stopped() && noexcept { std::terminate(); }  // nothing here requests a stop
        execution::empty_env get_env() const noexcept { return {}; }
    };
    using state = decltype(execution::connect(as_sender(std::declval<Operation>(), std::declval<scheduling_policy&>()),
                                              std::declval<receiver>()));

    in_flight(Operation operation, scheduling_policy& pool, std::size_t index, device_node::gateway_type& node)
        : index_(index),
          node_(&node),
          state_(execution::connect(as_sender(std::move(operation), pool), receiver{this})) {}

    void finish(answer made) noexcept {
        device_node::gateway_type& node = *node_;
        delete this;
        node.try_put(std::move(made));
        node.release_wait();
    }

    std::size_t index_;
    device_node::gateway_type* node_;
    state state_;
};

// After a host call that blocks a thread of the device until the latch opens: work that takes its time. While it
// blocks, a GPU cannot load kernels or get memory; so main does the same work once before.
auto probabilities(std::vector<float> values, std::shared_ptr<std::latch> door) {
    auto held_up = host_call([door = std::move(door)] { door->wait(); });
    const std::size_t columns = values.size();
    return std::move(held_up).then(upload(std::move(values), {1, columns})).and_then(softmax).and_then(download);
}

}  // namespace

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    const oneapi::tbb::global_control one_thread(oneapi::tbb::global_control::max_allowed_parallelism, 1);

    constexpr std::size_t messages = 4;
    std::vector<decltype(spawn(probabilities({}, {}), pool))> first;
    for (std::size_t i = 0; i < messages; ++i)
        first.push_back(spawn(probabilities({0, 0, 0}, std::make_shared<std::latch>(0)), pool));
    for (auto& each : first) static_cast<void>(std::move(each).get());

    const auto door = std::make_shared<std::latch>(messages);  // opens when all messages have been submitted
    std::array<answer, messages> answers;

    flow::graph graph;
    flow::broadcast_node<scores> input(graph);
    device_node classify(graph, flow::unlimited, [&](const scores& each, device_node::gateway_type& node) {
        auto operation = probabilities(each.values, door);
        in_flight<decltype(operation)>::start(std::move(operation), pool, each.index, node);
        door->count_down();
    });
    flow::function_node<answer> collect(graph, flow::serial, [&](const answer& each) { answers[each.index] = each; });
    flow::make_edge(input, classify);
    flow::make_edge(classify, collect);

    for (std::size_t i = 0; i < messages; ++i) input.try_put({i, {0, 0, static_cast<float>(i)}});
    graph.wait_for_all();

    for (const answer& each : answers) {
        if (each.failure) std::rethrow_exception(each.failure);
        std::printf("message %zu: %.3f %.3f %.3f\n", each.index, each.probabilities[0], each.probabilities[1],
                    each.probabilities[2]);
    }
} catch (const std::exception& failure) {
    std::fprintf(stderr, "tbb_flow_graph: %s\n", failure.what());
    return 1;
}
