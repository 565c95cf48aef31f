// SPDX-License-Identifier: Apache-2.0
#include "cuda/fault.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/access.hpp"
#include "cuda/api/error.hpp"
#include "cuda/api/gpu_context.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/cuda_stream.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::cuda {
namespace {

constexpr std::size_t most_named = 4;

struct suspect {
    command_in_flight command;
    const command_queue* on;
};

// The access out of range with which a kernel has ended, on the device or a peer; null for none.
struct reported_access {
    const sluice::detail::access_record* record = nullptr;
    const device* on = nullptr;

    std::string_view kernel() const { return {record->kernel, record->kernel_length}; }
};
reported_access find_access(device& gpu) {
    const auto of = [](device& each) {
        const auto& interpreter = static_cast<const cuda_device&>(each.interpreter().undecorated());
        return reported_access{interpreter.reported_access(), &each};
    };
    if (const reported_access found = of(gpu); found.record != nullptr) return found;
    for (device* const each : gpu.peers()) {
        if (const reported_access found = of(*each); found.record != nullptr) return found;
    }
    return {};
}

std::string describe(const reported_access& access) {
    const sluice::detail::access_record& record = *access.record;
    return "the kernel '" + std::string(access.kernel()) + "' on " + access.on->name() + ": " +
           sluice::detail::text_of_access(record.what, record.index, record.size, record.file, record.line);
}

std::string describe(const suspect& each) {
    std::string text = "'" + std::string(each.command.name) + "' (" + each.on->owner().name() + ", stream " +
                       std::to_string(each.on->index()) + ", command " + std::to_string(each.command.number);
    if (each.command.location.line() != 0) {
        text += ", asked for at " + std::string(each.command.location.file_name()) + ":" +
                std::to_string(each.command.location.line());
    }
    return text + ")";
}

}  // namespace

std::exception_ptr describe_fault(device& gpu, command_queue& noticed_on, int code, std::string_view call) {
    if (gpu.interpreter().fails_alone())  // no command is the cause
        return std::make_exception_ptr(
            device_error({code, api::category()}, api::words_for_lost(code), {{}, gpu.name()}));
    // A fault of one GPU shows on all GPUs of the process.
    std::vector<command_queue*> queues = gpu.all_queues();
    for (const device* const each : gpu.peers()) {
        const std::vector<command_queue*> theirs = each->all_queues();
        queues.insert(queues.end(), theirs.begin(), theirs.end());
    }
    // The stream that noticed the fault comes first: if only one stream was at work, it is the cause.
    std::stable_partition(queues.begin(), queues.end(), [&](command_queue* each) { return each == &noticed_on; });
    std::vector<suspect> suspects;
    for (command_queue* each : queues) {
        auto& stream = static_cast<cuda_stream&>(each->interpreter().undecorated());
        for (const command_in_flight& command : stream.in_flight().after(stream.last_flag(), each->issued())) {
            suspects.push_back({command, each});
        }
    }
    // Other streams may only have waited for the one that faulted, so commands that can fault come first.
    std::stable_partition(suspects.begin(), suspects.end(),
                          [](const suspect& each) { return each.command.runs_kernels; });
    std::string message = std::string(call) + " reports that the device has faulted";
    if (const reported_access access = find_access(gpu); access.record != nullptr) {
        message += ": " + describe(access);
        std::stable_partition(suspects.begin(), suspects.end(), [&](const suspect& each) {
            return each.command.name == access.kernel() && &each.on->owner() == access.on;
        });
    }
    if (!suspects.empty()) {
        message += "; commands that were not complete: ";
        for (std::size_t i = 0; i < std::min(most_named, suspects.size()); ++i)
            message += (i == 0 ? "" : ", ") + describe(suspects[i]);
        if (suspects.size() > most_named) message += " and " + std::to_string(suspects.size() - most_named) + " more";
    }
    error_context context{{}, gpu.name()};
    if (!suspects.empty()) {
        context.device = suspects.front().on->owner().name();
        context.operation = suspects.front().command.name;
        context.location = suspects.front().command.location;
    }
    return std::make_exception_ptr(device_error({code, api::category()}, message, context));
}

}  // namespace sluice::cuda
