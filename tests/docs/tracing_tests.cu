// SPDX-License-Identifier: Apache-2.0
// The code in docs/tracing.md.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "sluice/sluice.hpp"

namespace sluice::docs::tracing_tests {
namespace {

auto forward(std::vector<float> input) { return upload(std::move(input)).and_then(download); }
void warm_up(scheduling_policy& pool) { sync(forward({1}), pool); }

}  // namespace

TEST(tracing, a_program_is_recorded) {
    const std::filesystem::path home = std::filesystem::current_path();
    std::string name = (std::filesystem::temp_directory_path() / "sluice_docs_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    std::filesystem::current_path(name);
    const std::vector<float> input{1, 2};

    sluice::trace_recorder recorder;                // 1. make a recorder
    sluice::runtime machine({.trace = &recorder});  // 2. hand it to the runtime
    sluice::round_robin pool(machine.default_device(), 4);

    warm_up(pool);                                         //    what happens only once: kernels loaded, memory taken
    static_cast<void>(recorder.take());                    //    is thrown away
    sync(sluice::named("layer 1", forward(input)), pool);  // 3. work; names are up to you

    const sluice::trace seen = recorder.take();  // 4. waits for the work, and empties the recorder
    sluice::save_timeline(seen, "run.svg");
    sluice::save_chrome_trace(seen, "run.json");

    EXPECT_FALSE(seen.events.empty());
    EXPECT_GT(std::filesystem::file_size("run.svg"), 0u);
    EXPECT_GT(std::filesystem::file_size("run.json"), 0u);
    std::filesystem::current_path(home);
    std::filesystem::remove_all(name);
}

TEST(tracing, a_logger_is_told_about_rare_events) {
    std::ostringstream text;
    {
        sluice::runtime machine({.log = [&](const sluice::log_entry& entry) {
            if (entry.level < sluice::log_level::info) return;  // the program decides what it wants
            text << to_string(entry.level) << ' ' << to_string(entry.event) << ' ' << entry.message << '\n';
        }});
    }
    EXPECT_NE(text.str().find("info device_found found cpu:0: "), std::string::npos) << text.str();
}

}  // namespace sluice::docs::tracing_tests
