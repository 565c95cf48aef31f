// SPDX-License-Identifier: Apache-2.0
#include "c/device_run.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "c/status.hpp"
#include "c/types.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/cuda/lending.hpp"
#include "sluice/runtime/detail/completion_notice.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::c {
namespace {

// Calls the caller's function when a submission is complete. Destroys itself then.
class release_notice {
public:
    release_notice(detail::submission_ref of, sluice_release release, void* context)
        : release_(release), context_(context) {
        notice_ = detail::completion_notice::make(
            std::move(of), nullptr,
            [](void* whom) noexcept {
                const std::unique_ptr<release_notice> self(static_cast<release_notice*>(whom));
                self->release_(self->context_);
            },
            this);
    }
    release_notice(const release_notice&) = delete;  // the notice points to it
    release_notice& operator=(const release_notice&) = delete;

    void start() noexcept { notice_.get()->start(); }

private:
    const sluice_release release_;
    void* const context_;
    detail::completion_notice::handle notice_;
};

// The tensor in device memory that no other tensor has: constants, inputs and other outputs may be an output too.
nn::any_tensor unshared(stream on, const nn::any_tensor& each) {
    storage* const has = each.memory();
    const bool is_alone = has != nullptr && has->use_count() == 1 && !has->is_foreign() && has->whole() == nullptr;
    if (is_alone) return each;
    const command_info info{"output"};
    const std::size_t bytes = each.size_bytes();
    storage_ref made = on.allocate(bytes, info);
    if (bytes != 0 && has != nullptr) {
        detail::copy_bytes(on, info, *made, *has, bytes, copy_direction::device_to_device);
    } else if (bytes != 0) {
        const storage_ref staged = on.allocate_host(bytes, info);
        std::memcpy(staged->data(), each.bytes().data(), bytes);
        detail::copy_bytes(on, info, *made, *staged, bytes, copy_direction::host_to_device);
    }
    return nn::any_tensor(each.type(), each.shape(), std::move(made));
}

std::vector<nn::any_tensor> submit(const loaded_network& network, execution_context& context,
                                   std::vector<nn::any_tensor> inputs) {
    std::vector<nn::any_tensor> outputs = network.network.forward(std::move(inputs)).submit(context);
    for (nn::any_tensor& each : outputs) {
        const nn::any_tensor made = unshared(context.stream(), each);
        each = made;
    }
    return outputs;
}

}  // namespace

std::unique_ptr<sluice_result> submit_on_device(const std::shared_ptr<const loaded_network>& network,
                                                std::vector<nn::any_tensor> inputs, sluice_release release,
                                                void* context) {
    auto made = std::make_unique<sluice_result>(std::vector<nn::any_tensor>());
    execution_context submitting(*network->of_device_inputs);
    try {
        made->take_device_outputs(network, submit(*network, submitting, std::move(inputs)));
        // Last: once it has begun, the run has not failed.
        if (release != nullptr) {
            auto notice = std::make_unique<release_notice>(submitting.submission(), release, context);
            notice.release()->start();  // it destroys itself
        }
        return made;
    } catch (...) {
        submitting.submission()->await_completion({});  // a part of it may use the inputs
        throw;
    }
}

lent_memory::lent_memory(std::shared_ptr<const loaded_network> of, const std::vector<nn::any_tensor>& outputs)
    : network_(std::move(of)) {
    for (const nn::any_tensor& each : outputs) {
        memory_.push_back(each.shared_memory());
        all_.push_back(memory_.back().get());
    }
}

lent_memory::~lent_memory() {
    for (void* const each : streams_) {
        try {
            cuda::take_back_from(network_->of_lent->next(), static_cast<CUstream_st*>(each), all_);
        } catch (...) {  // NOLINT(bugprone-empty-catch): the device has failed: its memory is not used again
        }
    }
}

void lent_memory::lend_to(void* cuda_stream) {
    const std::lock_guard lock(mutex_);
    const bool is_known = std::ranges::find(streams_, cuda_stream) != streams_.end();
    if (!is_known) streams_.reserve(streams_.size() + 1);
    cuda::lend_to(network_->of_lent->next(), static_cast<CUstream_st*>(cuda_stream), all_);
    if (!is_known) streams_.push_back(cuda_stream);
}

}  // namespace sluice::c

using namespace sluice;
using namespace sluice::c;

sluice_status sluice_network_forward(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                     sluice_release release, void* context, sluice_result** result) {
    return guarded([&] {
        const std::string_view here = "sluice_network_forward";
        const std::shared_ptr<const loaded_network>& what = require(network, here, "network").held;
        require(result, here, "result");
        if (!what->of_device_inputs) {
            *result = new sluice_result(compute(*what, inputs, count, here));
            if (release != nullptr) release(context);
            return;
        }
        *result = submit_on_device(what, inputs_from(*what, inputs, count, here), release, context).release();
    });
}

sluice_status sluice_network_wait_for_stream(const sluice_network* network, void* cuda_stream) {
    return guarded([&] {
        const std::string_view here = "sluice_network_wait_for_stream";
        const loaded_network& of = *require(network, here, "network").held;
        if (!of.of_device_inputs)
            refuse(here, "the network is on " + of.on.name() + ", which has no CUDA streams", errc::unsupported);
        cuda::event_operation::submit_to(of.of_device_inputs->next(), cuda::event_operation::kind::wait_for_stream,
                                         cuda_stream, nullptr, source_location::current());
    });
}

sluice_status sluice_result_memory(const sluice_result* result, sluice_memory* memory) {
    return guarded([&] {
        const std::string_view here = "sluice_result_memory";
        const sluice_result& of = require(result, here, "result");
        require(memory, here, "memory") = of.lent ? SLUICE_DEVICE : SLUICE_HOST;
    });
}

sluice_status sluice_result_lend(const sluice_result* result, void* cuda_stream) {
    return guarded([&] {
        const std::string_view here = "sluice_result_lend";
        const sluice_result& of = require(result, here, "result");
        if (!of.lent) refuse(here, "the outputs are in host memory, which needs no stream", errc::unsupported);
        of.origin.require(here, "result");
        of.lent->lend_to(cuda_stream);
    });
}
