// SPDX-License-Identifier: Apache-2.0
#include "sluice/devices/collectives.hpp"

#include <span>

#include "devices/collective_call.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice {

communicator::communicator(device_set devices) : devices_(std::move(devices)) {
    if (devices_.size() > detail::most_ranks) {
        throw error(errc::unsupported,
                    "a communicator can have at most " + std::to_string(detail::most_ranks) + " devices",
                    {"communicator"});
    }
    if (devices_.kind() == device_kind::cuda) group_ = &detail::collective_group::of(devices_);
}

namespace detail {
namespace {

void carry_out(const native_stream& on, const void* closure) {
    const auto& call = *static_cast<const collective_call*>(closure);
    if (call.group != nullptr) {
        call.group->run(call, on);
    } else {
        run_collective_on_host(call);
    }
}

}  // namespace

void submit_collective(stream on, const communicator& among, const collective_form& form,
                       std::span<const collective_part> parts, const source_location& location) {
    if (&on.owner() != &among.devices()[0]) {
        throw error(errc::invalid_argument,
                    "must be submitted to a stream of rank 0's device, " + among.devices()[0].name(),
                    {form.name, on.owner().name(), location});
    }
    if (form.count == 0) return;
    collective_call call{form, among.group(), parts.size(), {}};
    clear_padding(call.form);  // what follows it are words
    std::vector<memory_access> accesses;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto [in, out] = parts[i];
        call.parts[i] = {in == nullptr ? nullptr : in->data(), out->data()};
        const bool only_reads = form.kind == collective_kind::broadcast && i == form.root;
        if (in != nullptr && (only_reads || in != out)) accesses.push_back({in, access_mode::read});
        if (!only_reads) accesses.push_back({out, access_mode::write});
    }
    // NCCL needs one order of its collectives on all GPUs, also across communicators and in graphs.
    std::vector<storage_ref> orders;
    if (among.group() != nullptr) {
        for (device* const each : among.devices().distinct()) {
            orders.push_back(each->collective_order());
            accesses.push_back({orders.back().get(), access_mode::write});
        }
    }
    command_info info{form.name, accesses, location};
    info.spans_devices = true;
    // The closure ends after the last rank's entry.
    const std::size_t bytes = sizeof(call) - (most_ranks - parts.size()) * sizeof(collective_call::ends);
    on.library_call(info, {carry_out, &call, bytes});
}

void check_parts(const communicator& among, const char* name, std::span<const shape> shapes,
                 std::span<storage* const> memory, const source_location& location) {
    const error_context context{name, "", location};
    if (shapes.size() != among.size()) {
        throw error(errc::invalid_argument,
                    std::to_string(shapes.size()) + " parts were passed for " + std::to_string(among.size()) + " ranks",
                    context);
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (shapes[i] != shapes[0]) {
            throw error(
                errc::shape_mismatch,
                "part " + std::to_string(i) + " has shape " + to_string(shapes[i]) + ", part 0 " + to_string(shapes[0]),
                context);
        }
        const device& home = among.devices()[i];
        if (memory[i] != nullptr && &memory[i]->owner() != &home) {
            throw error(errc::invalid_argument,
                        "part " + std::to_string(i) + " is on " + memory[i]->owner().name() + ", but its rank is on " +
                            home.name(),
                        context);
        }
    }
}

std::size_t rows_of_block(const shape& whole, std::size_t ranks, const source_location& location) {
    if (whole.rank() != 0 && whole[0] % ranks == 0) return whole[0] / ranks;
    throw error(
        errc::shape_mismatch,
        "the rows of " + to_string(whole) + " cannot be divided into " + std::to_string(ranks) + " equal blocks",
        {"reduce_scatter", "", location});
}

std::size_t rank_of(const communicator& among, const storage* memory, const source_location& location) {
    if (memory == nullptr) return 0;
    for (std::size_t i = 0; i < among.size(); ++i) {
        if (&among.devices()[i] == &memory->owner()) return i;
    }
    throw error(errc::invalid_argument, "the tensor is on " + memory->owner().name() + ", which belongs to no rank",
                {"broadcast", "", location});
}

}  // namespace detail
}  // namespace sluice
