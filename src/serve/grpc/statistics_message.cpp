// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/statistics_message.hpp"

#include <chrono>
#include <string>

namespace sluice::serve {
namespace {

void write(inference::StatisticDuration& to, const duration_sum& from) {
    to.set_count(from.count);
    to.set_ns(static_cast<std::uint64_t>(from.total.count()));
}

}  // namespace

void write_statistics(inference::ModelStatistics& to, const served_model& model) {
    const model_statistics its = model.statistics();
    const auto last = std::chrono::duration_cast<std::chrono::milliseconds>(its.last.time_since_epoch()).count();
    to.set_name(model.name());
    to.set_version(std::to_string(model.version()));
    to.set_last_inference(static_cast<std::uint64_t>(last));
    to.set_inference_count(its.rows);
    to.set_execution_count(its.batches);
    auto& all = *to.mutable_inference_stats();
    write(*all.mutable_success(), its.success);
    write(*all.mutable_fail(), its.fail);
    write(*all.mutable_queue(), its.queue);
    write(*all.mutable_compute_input(), its.input);
    write(*all.mutable_compute_infer(), its.infer);
    write(*all.mutable_compute_output(), its.output);
    for (const auto& [rows, batch] : its.by_rows) {
        auto& row = *to.add_batch_stats();
        row.set_batch_size(rows);
        write(*row.mutable_compute_input(), batch.input);
        write(*row.mutable_compute_infer(), batch.infer);
        write(*row.mutable_compute_output(), batch.output);
    }
}

}  // namespace sluice::serve
