// SPDX-License-Identifier: Apache-2.0
#include "c/handles.hpp"
#include "c/options.hpp"
#include "c/types.hpp"
#include "sluice/profiling/record_runs.hpp"

using namespace sluice;
using namespace sluice::c;

constexpr std::size_t most_runs = 1'000'000;

struct sluice_profile {
    profiling::network_profile of;
};

sluice_status sluice_network_profile(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                     size_t runs, sluice_profile** profile) {
    return guarded([&] {
        const std::string_view here = "sluice_network_profile";
        const loaded_network& what = *require(network, here, "network").held;
        require(profile, here, "profile");
        if (runs == 0) refuse(here, "a profile needs at least one run");
        require_at_most(runs, most_runs, here, "runs");
        const auto given = inputs_from(what, inputs, count, here);
        for (const nn::any_tensor& each : given)
            if (each && !each.is_on_host()) refuse(here, "a profile takes inputs in host memory");
        *profile = new sluice_profile{profiling::profile_model(what.read_again(), {.precision = what.precision},
                                                               what.machine_options, what.on.name(), given, runs)};
    });
}

sluice_status sluice_profile_total(const sluice_profile* profile, sluice_profile_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_profile_total";
        const profiling::network_profile& its = require(profile, here, "profile").of;
        require(info, here, "info");
        const sluice_profile_info filled{sizeof(sluice_profile_info), its.rows.size(), its.microseconds,
                                         its.span_microseconds,       its.on_host,     its.without_commands};
        write_info(*info, filled, sizeof(sluice_profile_info), here);
    });
}

sluice_status sluice_profile_row(const sluice_profile* profile, size_t index, sluice_profile_row_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_profile_row";
        const auto& rows = require(profile, here, "profile").of.rows;
        require(info, here, "info");
        if (index >= rows.size())
            refuse(here, "there is no row " + std::to_string(index) + "; there are " + std::to_string(rows.size()));
        const profiling::profile_row& its = rows[index];
        const sluice_profile_row_info filled{sizeof(sluice_profile_row_info),
                                             its.operators.c_str(),
                                             its.node.c_str(),
                                             its.commands.c_str(),
                                             its.microseconds,
                                             its.share};
        write_info(*info, filled, sizeof(sluice_profile_row_info), here);
    });
}

void sluice_profile_destroy(sluice_profile* profile) { delete profile; }
