// SPDX-License-Identifier: Apache-2.0
// A server of networks on the CPU, which are not read from files.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/support/network_on_cpu.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::testing {

struct served_networks {
    // Each under its name, with this configuration.
    explicit served_networks(const std::map<std::string, nn::model>& from, const std::string& config = "{}") {
        for (const auto& [name, model] : from) {
            std::filesystem::create_directories(folder / name);
            std::ofstream(folder / (name + "/model.onnx")) << "x";
            std::ofstream(folder / (name + "/config.json")) << config;
            networks[name] = std::make_shared<network_on_cpu>(machine.find("cpu:0"), model);
        }
        models = std::make_unique<server>(model_source::repository(folder / ""), engine);
        models->load_all();
    }

    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    std::map<std::string, std::shared_ptr<network_on_cpu>> networks;
    io::testing::temporary_directory folder;
    fake_engine engine{[this](const model_version& which) { return networks.at(which.name); }};
    std::unique_ptr<server> models;
};

}  // namespace sluice::serve::testing
