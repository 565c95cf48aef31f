// SPDX-License-Identifier: Apache-2.0
// The other process of interprocess_tests.cpp: does one task with what the test sends it, answers, and ends.
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "conformance/support/interprocess_channel.hpp"
#include "cuda/api/commands.hpp"
#include "cuda/api/interprocess.hpp"
#include "cuda/api/memory.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/cuda/interprocess.hpp"
#include "sluice/sluice.hpp"

namespace {

using namespace sluice;
using namespace sluice::conformance;

template <typename T>
T receive() {
    return receive_from<T>(peer_descriptor);
}
template <typename T>
void send(const T& value) {
    send_to(peer_descriptor, value);
}
void answer(const std::string& text) { send(short_text(text)); }

std::string sum_of(const shared_tensor<float>& x, scheduling_policy& pool) {
    const std::vector<float> values = sync(download(x), pool);
    return to_string(x->shape()) + " " + std::to_string(std::accumulate(values.begin(), values.end(), 0.0));
}

// Changes the test's tensor.
void doubles(device& gpu, scheduling_policy& pool) {
    auto x = cuda::import_tensor<float>(gpu, receive<cuda::tensor_handle>());
    x = sync(scale(std::move(x), 2), pool);
    answer("doubled");
}

void doubles_in_a_graph(device& gpu, scheduling_policy& pool) {
    auto x = cuda::import_tensor<float>(gpu, receive<cuda::tensor_handle>());
    auto graph =
        compile(pool, [](tensor<float> each) { return scale(std::move(each), 2); }, device_input<float>(x.shape()));
    x = sync(graph(std::move(x)), pool);
    answer("doubled");
}

// Reads what the test shares, twice at a time, and closes one of the two first.
void sums(device& gpu, scheduling_policy& pool) {
    const auto handle = receive<cuda::tensor_handle>();
    const auto x = cuda::import_tensor<const float>(gpu, handle);
    {
        const auto again = cuda::import_tensor<const float>(gpu, handle);
        if (sum_of(again, pool) != sum_of(x, pool)) return answer("two imports differ");
    }
    gpu.synchronize();
    answer(sum_of(x, pool));
}

// Exports a tensor of its own, and ends when the test says so.
void offers(device&, scheduling_policy& pool) {
    const auto x = sync(upload(std::vector<float>{1, 2, 3, 4}, {2, 2}), pool);
    const cuda::exported_tensor shared = cuda::export_tensor(x);
    send(shared.handle());
    receive<char>();
}

// Exports what cudaMalloc allocated by CUDA's own handle, as a program without Sluice does. When the test has used it,
// answers with what is there then, as far as it has changed, and ends.
void offers_an_allocation(device&, scheduling_policy&) {
    namespace api = cuda::api;
    const api::device_scope scope(0);
    const api::stream_handle mine = api::create_stream(0);
    std::vector<float> values(1024);
    std::iota(values.begin(), values.end(), 0.0F);
    const std::size_t bytes = values.size() * sizeof(float);
    const auto free = [&here = *api::device_scope::innermost()](void* freed) { api::free_device(here, freed); };
    const std::unique_ptr<void, decltype(free)> data(api::allocate_device(bytes), free);
    api::copy(data.get(), values.data(), bytes, copy_direction::host_to_device, mine.get(), {});
    api::synchronize(mine.get());
    send(api::memory_handle(data.get(), {}));
    receive<char>();
    std::vector<float> now(values.size());
    api::copy(now.data(), data.get(), bytes, copy_direction::device_to_host, mine.get(), {});
    api::synchronize(mine.get());
    std::string changes;
    for (std::size_t i = 0; i < now.size() && changes.size() < 900; ++i)
        if (now[i] != values[i]) changes += std::to_string(i) + ":" + std::to_string(now[i]) + " ";
    answer(changes);
}

// Waits for the test's event on the device, works, and records an event of its own, all without waiting on the host.
void answers_by_events(device& gpu, scheduling_policy& pool) {
    auto x = cuda::import_tensor<float>(gpu, receive<cuda::tensor_handle>());
    const cuda::interprocess_event before(gpu, receive<cuda::event_handle>());
    const cuda::interprocess_event after(gpu);
    send(after.handle());
    try {
        before.handle();
        return answer("the handle of another process's event was exported");
    } catch (const error& refusal) {
        if (refusal.code() != errc::invalid_argument) throw;
    }
    // What happens once must not happen while the device waits: kernels are loaded.
    sync(full<float>({3}, 1).and_then([](auto y) { return scale(std::move(y), 2); }), pool);
    receive<char>();  // the test has submitted its record
    auto running = spawn(cuda::wait_for(before, std::move(x))
                             .and_then([](auto y) { return scale(std::move(y), 2); })
                             .and_then([&](auto y) { return cuda::record(after, std::move(y)); }),
                         pool);
    answer("submitted");
    receive<char>();  // the test has waited
    std::move(running).get();
}

// What an import is refused with.
void is_refused(device& gpu, scheduling_policy&) {
    const auto handle = receive<cuda::tensor_handle>();
    const auto refusal = [&](const std::function<void()>& attempt) {
        try {
            attempt();
            answer("nothing was thrown");
        } catch (const error& said) {
            answer(said.what());
        }
    };
    refusal([&] { cuda::import_tensor<int>(gpu, handle); });
    refusal([&] { cuda::import_tensor<float>(gpu, handle); });
}

}  // namespace

int main(int count, char** arguments) {
    const std::map<std::string, void (*)(device&, scheduling_policy&)> tasks{
        {"doubles", doubles},
        {"doubles_in_a_graph", doubles_in_a_graph},
        {"sums", sums},
        {"offers", offers},
        {"answers_by_events", answers_by_events},
        {"is_refused", is_refused},
        {"offers_an_allocation", offers_an_allocation},
    };
    try {
        runtime machine;
        device& gpu = machine.find("cuda:0");
        round_robin pool(gpu, 2);
        tasks.at(count > 1 ? arguments[1] : "")(gpu, pool);
        return 0;
    } catch (const std::exception& failure) {
        try {
            answer(std::string("failed: ") + failure.what());
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the test has ended
        }
        return 1;
    }
}
