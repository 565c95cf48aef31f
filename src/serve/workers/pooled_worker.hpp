// SPDX-License-Identifier: Apache-2.0
// One worker process as the pool has it, and the models that are to be on all of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/workers/child_process.hpp"
#include "serve/workers/control_channel.hpp"
#include "serve/workers/hatch_memory.hpp"
#include "serve/workers/model_message.hpp"

namespace sluice::serve {

using worker_clock = std::chrono::steady_clock;

// A model that workers have. `what` and `description` change only before others see it.
struct hosted_model {
    std::uint64_t number = 0;
    load_message what;
    model_description description;
    std::atomic<bool> is_lost{false};  // no worker has it, and none will
};

// Whether a model is on a worker.
struct model_on_worker {
    enum class state { loading, loaded, failed } now = state::loading;
    std::string failure = {};  // packed_failure
};

struct pooled_hatch {
    pooled_hatch(hatch_words& words, std::span<std::byte> area) : its(words, area, hatch_side::front) {}

    hatch its;
    bool is_busy = false;
    bool is_left = false;                   // its answer comes, and no thread waits for it
    std::atomic<std::int64_t> since_ns{0};  // when the worker got the batch; 0: it works on none
};

// All members are the pool's, under its lock, but for what is atomic, and hatches that are lent.
struct pooled_worker {
    pooled_worker(std::size_t its_slot, const std::vector<std::string>& command, std::size_t hatch_count,
                  std::size_t hatch_bytes, std::pair<io::file_descriptor, io::file_descriptor> ends)
        : slot(its_slot),
          memory(hatch_count, hatch_bytes),
          channel(std::move(ends.first)),
          hatches(hatches_of(memory)),
          process(command, ends.second.get(), memory.descriptor()) {
        memory.close_descriptor();
    }

    static std::vector<std::unique_ptr<pooled_hatch>> hatches_of(const hatch_memory& memory) {
        std::vector<std::unique_ptr<pooled_hatch>> made;
        made.reserve(memory.hatches());
        for (std::size_t i = 0; i < memory.hatches(); ++i)
            made.push_back(std::make_unique<pooled_hatch>(memory.words(i), memory.area(i)));
        return made;
    }

    std::size_t busy() const noexcept {
        std::size_t count = 0;
        for (const auto& each : hatches) count += each->is_busy ? 1 : 0;
        return count;
    }

    // Whether it has to answer or to read.
    bool is_awaited() const noexcept { return owed != 0 || lacks_room; }

    const std::size_t slot;
    hatch_memory memory;
    control_channel channel;
    std::vector<std::unique_ptr<pooled_hatch>> hatches;
    std::atomic<bool> is_gone{false};
    worker_clock::time_point gone_since{};
    bool is_ready = false;
    std::map<std::uint64_t, model_on_worker> models;
    std::deque<std::pair<std::string, bool>> outbox;  // messages that wait for room, and whether they are answered
    bool lacks_room = false;                          // for the first of them, or the rest of it
    std::size_t owed = 1;                             // answers on the channel; the first one is that it is ready
    worker_clock::time_point silent_since = worker_clock::now();  // while it is awaited
    worker_clock::time_point alive_at = worker_clock::now();      // by its own word
    std::int64_t first_batch_ns = 0;               // since when it has the batch that it has had longest; 0: none
    worker_clock::time_point first_batch_since{};  // that is the first; later by the time of those that overtook it
    std::size_t overtaken = 0;                     // by how many batches the first one is
    std::string why;                               // it ends: what the pool or the worker itself knows
    std::string ended;                             // it has ended, and how
    bool tries_a_model = false;                    // it loads one that was never loaded before
    child_process process;                         // the last: nothing throws once it is started
};

}  // namespace sluice::serve
