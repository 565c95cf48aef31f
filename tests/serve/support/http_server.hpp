// SPDX-License-Identifier: Apache-2.0
// A server with one fake model "m" behind a front end of HTTP, on a free port.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/serve/http_front.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::testing {

struct http_server {
    explicit http_server(http_options options = {}, const std::string& config = "{}",
                         std::shared_ptr<fake_model> model = std::make_shared<fake_model>(),
                         const server_options& loading = {})
        : fake(std::move(model)) {
        std::filesystem::create_directories(folder / "m");
        std::ofstream(folder / "m/model.onnx") << "x";
        std::ofstream(folder / "m/config.json") << config;
        models = std::make_unique<server>(model_source::repository(folder / ""), engine, log_sink(), loading);
        models->load_all();
        options.port = 0;
        front = std::make_unique<http_front>(*models, options);
    }

    raw_client client() const { return raw_client(front->port()); }
    http_answer ask(std::string_view text) const { return client().ask(text); }

    io::testing::temporary_directory folder;
    std::shared_ptr<fake_model> fake;
    std::function<void()> on_load = [] {};
    fake_engine engine{[this](const model_version&) {
        on_load();
        return fake;
    }};
    std::unique_ptr<server> models;
    std::unique_ptr<http_front> front;
};

}  // namespace sluice::serve::testing
