// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/worker_engine.hpp"

#include <malloc.h>

#include <utility>

#include "serve/workers/worker_model.hpp"
#include "serve/workers/worker_pool.hpp"

namespace sluice::serve {
namespace {

std::string metric(const std::string& name, const char* kind, const char* help, std::uint64_t value) {
    return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" + name + " " + std::to_string(value) +
           "\n";
}

}  // namespace

worker_engine::worker_engine(worker_engine_options options)
    : pool_(std::make_shared<worker_pool>(std::move(options))) {}

worker_engine::~worker_engine() { pool_->stop(); }

std::shared_ptr<const loaded_model> worker_engine::load(const model_version& which, const model_config& how) {
    return std::make_shared<worker_model>(pool_, pool_->load(which, how));
}

void worker_engine::give_back_memory() {
    pool_->trim();
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

worker_counts worker_engine::counts() const { return pool_->counts(); }
std::vector<int> worker_engine::process_ids() const { return pool_->process_ids(); }

std::string worker_engine::metrics() const {
    const worker_counts now = counts();
    return metric("sluice_workers", "gauge", "Worker processes that are there.", now.up) +
           metric("sluice_workers_given_up", "gauge",
                  "Worker processes that ended too often, and are not started again.", now.given_up) +
           metric("sluice_worker_restarts_total", "counter",
                  "Worker processes that were started in the place of others.", now.restarts) +
           metric("sluice_batches_run_again_total", "counter",
                  "Batches that ran again: their worker process had ended.", now.run_again);
}

}  // namespace sluice::serve
