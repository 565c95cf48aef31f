// SPDX-License-Identifier: Apache-2.0
// worker_engine: the engine whose models are computed by other processes, so that a fault of a device, a crash or a run
// that never ends takes none of the server with it.
//
//     serve::worker_engine engine({.workers = 2, .engine = {.device = "cpu"}});
//     serve::server models(serve::model_source::repository("models"), engine);
//
// Each worker process loads all models. Batches and answers pass through memory that it shares with this process. A
// worker that ends, is killed or does not answer in time is replaced; the batches that it had run again on another one,
// once. One that ends too often is given up. This process makes no device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/serve/engine.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/network_engine.hpp"

namespace sluice::serve {

class worker_pool;

// How many processes compute, and how.
struct worker_engine_options {
    std::size_t workers = 1;  // that compute
    // More, with the models loaded, so that one takes the place of a worker that ends at once. 0: requests wait until
    // another process has started and has loaded the models.
    std::size_t spares = 1;
    // Of each worker. Of `machine` the trace, the log and the list of GPUs are not taken.
    network_engine_options engine = {};
    // A worker that works on one batch for longer is killed; the time of up to hatches - 1 other batches that it
    // computes before one that it got earlier does not count for that one. A batch whose model has been on no worker
    // for longer is refused.
    std::chrono::milliseconds timeout{60'000};
    // The same of a start, and of the load of a model.
    std::chrono::milliseconds load_timeout{600'000};
    // A worker that ends so often within a minute is given up.
    std::size_t most_ends = 5;
    // Before the second start within a minute; then twice that, and so on, up to a second.
    std::chrono::milliseconds restart_delay{100};
    std::size_t hatches = 16;  // batches that one worker computes at a time
    // Of the shared memory of each. A batch that is longer takes several turns.
    std::size_t hatch_bytes = std::size_t{256} << 10;
    // How long both sides look for the other's answer before they sleep.
    std::chrono::microseconds spin{20};
    // The program, which calls serve_as_worker(), and its arguments.
    std::vector<std::string> command = {"/proc/self/exe", "serve-worker"};
    log_sink log = {};  // starts, ends and replacements of workers
};

// What the workers do.
struct worker_counts {
    std::size_t up = 0;           // are there, and have made their engine
    std::size_t given_up = 0;     // are not started again
    std::uint64_t restarts = 0;   // in the place of one that has ended
    std::uint64_t run_again = 0;  // batches, on another worker
};

class worker_engine final : public engine {
public:
    // Starts the workers, and blocks until they are ready. Throws errc::invalid_argument for options that are not
    // valid, errc::io_failed for a program that cannot be started, and what making a network_engine throws. Costs a
    // thread, and two descriptors for each worker.
    explicit worker_engine(worker_engine_options options);
    // Ends the workers. Models that are still there answer no more.
    ~worker_engine() override;
    worker_engine(const worker_engine&) = delete;  // it owns processes
    worker_engine& operator=(const worker_engine&) = delete;

    // One worker loads the model first. Where that one ends meanwhile, this throws errc::io_failed, and the others
    // never see the model. Throws what network_engine::load throws in a worker, with the same text; errc::unsupported
    // for a model that is to stay on a GPU (model_config::resident). Costs what network_engine::load costs, in each
    // worker.
    std::shared_ptr<const loaded_model> load(const model_version& which, const model_config& how) override;
    // Asks the workers to.
    void give_back_memory() override;

    worker_counts counts() const;  // at this moment; costs O(workers)
    std::string metrics() const;   // the same as text for Prometheus
    // The processes that are there, for tests and for people. Costs O(workers).
    std::vector<int> process_ids() const;

private:
    const std::shared_ptr<worker_pool> pool_;
};

}  // namespace sluice::serve
