// SPDX-License-Identifier: Apache-2.0
// The fixture of the recorder's tests: three streams of a device whose commands are recorded.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::conformance {

using numbers = std::vector<unsigned>;

class recorded_test : public conformance_test {
protected:
    static runtime_options recorded_by(trace_recorder& recorder) {
        runtime_options all = GetParam().options;
        all.trace = &recorder;
        return all;
    }

    // The events of a stream, by ticket.
    static std::vector<trace_event> events_of(const trace& from, stream of) {
        std::vector<trace_event> found;
        for (const trace_event& each : from.events) {
            if (each.stream == of.index() && device_of(from, each).starts_with(of.owner().name() + " ")) {
                found.push_back(each);
            }
        }
        std::ranges::sort(found, {}, &trace_event::ticket);
        return found;
    }
    static std::string device_of(const trace& from, const trace_event& event) {
        return event.device < from.devices.size() ? from.devices[event.device] : "no such device";
    }
    static std::vector<std::string> names_of(const std::vector<trace_event>& events) {
        std::vector<std::string> names;
        for (const trace_event& each : events) names.push_back(each.name);
        return names;
    }

    // Checks properties that every trace has.
    static void expect_sound(const trace& made) {
        double first_us = made.events.empty() ? 0 : 1e9;
        for (const trace_event& each : made.events) {
            EXPECT_LT(each.device, made.devices.size());
            EXPECT_GE(each.ticket, 1u);
            EXPECT_FALSE(each.name.empty());
            EXPECT_GE(each.start_us, 0);
            EXPECT_LE(each.start_us, each.end_us) << each.name;
            first_us = std::min(first_us, each.start_us);
        }
        EXPECT_EQ(first_us, 0);  // times count from the first command
        auto sorted = made.events;
        std::ranges::sort(sorted, {}, [](const trace_event& e) { return std::tuple(e.device, e.stream, e.ticket); });
        for (std::size_t i = 1; i < sorted.size(); ++i) {
            const trace_event &before = sorted[i - 1], &after = sorted[i];
            if (before.device != after.device || before.stream != after.stream) continue;
            EXPECT_LT(before.ticket, after.ticket);
            EXPECT_LE(before.end_us, after.start_us) << before.name << ", " << after.name;
        }
    }
    trace take() {
        trace made = watch.take();
        expect_sound(made);
        EXPECT_EQ(watch.dropped(), 0u);
        return made;
    }

    static constexpr std::size_t size = 1000, bytes = size * sizeof(unsigned);
    trace_recorder watch;
    runtime watched{recorded_by(watch)};
    sluice::device& home = watched.find(GetParam().device);
    round_robin streams{home, 3};
    stream a = streams.next();
    stream b = streams.next();
    stream c = streams.next();
};

}  // namespace sluice::conformance
