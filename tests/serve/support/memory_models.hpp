// SPDX-License-Identifier: Apache-2.0
// A server of "memory", a network with memory from a file: state_out = (state_in + x) / 2, y = 2 * state_out +
// weights[place]; and what a session of it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::testing {

inline std::filesystem::path memory_file() {
    return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/c/networks/memory.onnx";
}

struct memory_models {
    explicit memory_models(const std::string& config = "{}") {
        std::filesystem::create_directories(folder / "memory/1");
        std::filesystem::copy_file(memory_file(), folder / "memory/1/model.onnx");
        std::ofstream(folder / "memory/config.json") << config;
        models = std::make_unique<server>(model_source::repository(folder / ""), engine);
        models->load_all();
    }

    io::testing::temporary_directory folder;
    network_engine engine{{.device = "cpu"}};
    std::unique_ptr<server> models;
};

// The steps of one sequence, and the answers of a session of its own.
struct stepped_session {
    struct step {
        float x;
        std::int64_t place;
        float y;
    };

    static std::vector<step> steps(std::uint64_t seed, std::size_t count) {
        const runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
        single_stream stream(machine.find("cpu:0"));
        nn::session session(sync(nn::make_network(nn::load_onnx(memory_file())), stream));
        std::vector<step> made;
        for (std::size_t i = 0; i < count; ++i) {
            const auto number = seed * 31 + i * 7;
            const std::vector<float> x{static_cast<float>(number % 64)};
            const std::vector<std::int64_t> place{static_cast<std::int64_t>(number % 5)};
            session.step({{x, {1}}, {place, {1}}});
            made.push_back({x[0], place[0], session.output<float>("y")[0]});
        }
        return made;
    }
};

}  // namespace sluice::serve::testing
