// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/worker_model.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/workers/batch_message.hpp"
#include "serve/workers/failure_message.hpp"
#include "serve/workers/hatch_lease.hpp"
#include "serve/workers/packed.hpp"
#include "sluice/base/run_guard.hpp"

namespace sluice::serve {
namespace {

// Of an answer that a worker may give: its runs have a limit, which inputs and constants that are outputs do not count
// for.
std::size_t most_answer_bytes(const worker_engine_options& options, const std::vector<nn::any_tensor>& inputs) {
    std::size_t most = options.engine.most_run_bytes;
    if (most == 0 || most > std::numeric_limits<std::size_t>::max() / 8) return std::numeric_limits<std::size_t>::max();
    most *= 4;
    for (const nn::any_tensor& each : inputs) most += each.size_bytes();
    return most;
}

// As many tensors, of such types, as the model has outputs: what comes after trusts their number and types.
void require_outputs(const std::vector<nn::value_info>& model, const std::vector<nn::any_tensor>& outputs) {
    const bool fits = std::ranges::equal(outputs, model, [](const nn::any_tensor& its, const nn::value_info& output) {
        return its && its.type() == output.type;
    });
    if (!fits) throw worker_damage("an answer has other outputs than the model");
}

}  // namespace

worker_model::worker_model(std::shared_ptr<worker_pool> pool, std::shared_ptr<hosted_model> model)
    : pool_(std::move(pool)), model_(std::move(model)), texts_(model_->description.texts) {}

std::vector<nn::any_tensor> worker_model::run(std::vector<nn::any_tensor> inputs) const {
    try {
        return run_once(inputs, false);
    } catch (const process_ended&) {
        return run_once(inputs, true);
    }
}

std::vector<nn::any_tensor> worker_model::run_once(const std::vector<nn::any_tensor>& inputs, bool is_again) const {
    if (is_again) pool_->count_run_again();
    hatch_lease lent = pool_->take(*model_);
    try {
        return run_on(lent, inputs);
    } catch (const worker_gone&) {
        throw process_ended();
    }
}

std::vector<nn::any_tensor> worker_model::run_on(hatch_lease& lent, const std::vector<nn::any_tensor>& inputs) const {
    const auto& options = pool_->options();
    const hatch_wait within{.spin = options.spin, .look = [&lent] { lent.require_worker(); }};
    batch_answer answer;
    try {
        lent.begin();
        write_request(lent.its(), within, model_->number, inputs);
        const hatch_piece first = lent.its().take(options.spin, [&lent] {
            lent.require_worker();
            try {
                run_guard::check();
            } catch (...) {
                lent.leave();
                throw;
            }
        });
        answer = read_answer(lent.its(), first, within, most_answer_bytes(options, inputs));
        if (const auto* const computed = std::get_if<std::vector<nn::any_tensor>>(&answer))
            require_outputs(outputs(), *computed);
    } catch (const worker_damage& damage) {
        lent.give_up_worker(damage.what());
    }
    if (const auto* const failure = std::get_if<std::string>(&answer)) throw_failure(*failure);
    return std::get<std::vector<nn::any_tensor>>(std::move(answer));
}

}  // namespace sluice::serve
