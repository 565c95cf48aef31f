// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/control_message.hpp"

#include <chrono>
#include <string_view>

namespace sluice::serve {
namespace {

constexpr std::uint32_t version = 1;  // the worker is the same binary, unless it was exchanged meanwhile

std::size_t size_in(packed_reader& from) { return static_cast<std::size_t>(from.number<std::uint64_t>()); }

}  // namespace

std::string packed_setup(const worker_setup& setup) {
    packed_writer to;
    to.put(to_worker::begin);
    to.put(version);
    const network_engine_options& its = setup.engine;
    to.put(std::string_view(its.device));
    to.put(its.machine.cuda);
    for (const std::size_t each : {its.machine.cpu_devices, its.machine.cpu_workers, its.machine.cpu_memory_bytes,
                                   its.most_run_bytes, its.kept_bytes, setup.hatches, setup.hatch_bytes})
        to.put(static_cast<std::uint64_t>(each));
    to.put(its.links == nn::data_links::lead_anywhere);
    to.put(setup.compute_nice);
    to.put(static_cast<std::int64_t>(setup.spin.count()));
    return to.take();
}

worker_setup read_setup(packed_reader& from) {
    if (from.one_of(to_worker::trim) != to_worker::begin || from.number<std::uint32_t>() != version)
        throw worker_damage("the server is of another version than its worker process");
    worker_setup made;
    network_engine_options& its = made.engine;
    its.device = from.text();
    its.machine.cuda = from.number<bool>();
    for (std::size_t* const each : {&its.machine.cpu_devices, &its.machine.cpu_workers, &its.machine.cpu_memory_bytes,
                                    &its.most_run_bytes, &its.kept_bytes, &made.hatches, &made.hatch_bytes})
        *each = size_in(from);
    its.links = from.number<bool>() ? nn::data_links::lead_anywhere : nn::data_links::stay_in_folder;
    made.compute_nice = from.number<int>();
    made.spin = std::chrono::nanoseconds(from.number<std::int64_t>());
    from.require_end();
    return made;
}

}  // namespace sluice::serve
