// SPDX-License-Identifier: Apache-2.0
#include "serve_command.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>
#include <thread>
#include <utility>

#include "exit_status.hpp"
#include "json_line.hpp"
#include "process_guard.hpp"
#include "process_user.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::app {
namespace {

constexpr std::chrono::milliseconds poll_time{20};
constexpr std::size_t shortest_token = 16;

std::string time_text() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[40];
    const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    std::string made(text, length);
    const std::string digits = std::to_string(milliseconds + 1000);
    return made + "." + digits.substr(1) + "Z";
}

serve::log_sink lines_to(std::ostream& log, bool as_json) {
    auto one_at_a_time = std::make_shared<std::mutex>();
    return [&log, as_json, one_at_a_time](const serve::log_line& line) {
        std::string text;
        if (as_json) {
            nlohmann::json made{{"time", time_text()},
                                {"level", to_string(line.level)},
                                {"event", line.event},
                                {"message", line.message}};
            if (!line.model.empty()) made["model"] = line.model;
            if (!line.trace_id.empty()) made["trace_id"] = line.trace_id;
            if (!line.span_id.empty()) made["span_id"] = line.span_id;
            text = json_line(made);
        } else {
            text = time_text() + " " + std::string(to_string(line.level)) + " " + printable(line.message);
            if (!line.trace_id.empty()) text += " trace " + line.trace_id;
        }
        const std::lock_guard lock(*one_at_a_time);
        log << text << '\n' << std::flush;
    };
}

// One a line.
std::vector<std::string> read_tokens(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::vector<std::string> tokens;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) continue;
        const bool is_right = line.size() >= shortest_token &&
                              std::ranges::all_of(line, [](char each) { return each > ' ' && each < 127; });
        if (!is_right) {  // the token itself is not for a log
            throw file_error(
                path, file_error::no_offset, "line " + std::to_string(tokens.size() + 1),
                "a token has at least " + std::to_string(shortest_token) + " characters of ASCII, and no spaces");
        }
        tokens.push_back(std::move(line));
    }
    if (in.bad() || tokens.empty())
        throw file_error(path, file_error::no_offset, "", "the file has no tokens, or cannot be read");
    return tokens;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

serve::model_source source_of(const serve_options& options) {
    return options.models.empty() ? serve::model_source::repository(options.repository)
                                  : serve::model_source::files(options.models);
}

std::string authority_of(const std::string& address, unsigned short port) {
    const bool is_v6 = address.find(':') != std::string::npos;
    return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::string url_of(const serve::http_options& http, unsigned short port) {
    const std::string scheme = http.tls.is_wanted() ? "https://" : "http://";
    return scheme + authority_of(http.address, port);
}

std::unique_ptr<serve::grpc_front> grpc_front_of(const serve_options& options, const serve::http_options& http,
                                                 serve::server& models, const serve::log_sink& sink) {
    if (!options.grpc_port) return nullptr;
    serve::grpc_options grpc;
    grpc.address = http.address;
    grpc.port = *options.grpc_port;
    grpc.message_bytes = http.body_bytes;
    grpc.handshake_time = http.header_time;
    grpc.write_time = http.write_time;
    grpc.threads = http.threads;
    grpc.budget = http.budget;
    grpc.tokens = http.tokens;
    grpc.tls = http.tls;
    grpc.log_requests = http.log_requests;
    grpc.spans = http.spans;
    grpc.shared_memory = http.shared_memory;
    grpc.shares_port = http.shares_port;
    grpc.repository_control = http.repository_control;
    grpc.version = http.version;
    return std::make_unique<serve::grpc_front>(models, grpc, sink);
}

}  // namespace

void serve_models(const serve_options& options, std::ostream& log) {
    if (!serve::http_supported()) {
        throw error(errc::unsupported,
                    "this sluice was built without HTTP: " + serve::why_no_http() + " was not found when it was built");
    }
    if (options.grpc_port && !serve::grpc_supported()) {
        throw error(errc::invalid_argument, "--grpc-port: this sluice was built without gRPC: " + serve::why_no_grpc() +
                                                " was not found when it was built");
    }
    if (options.http.tls.is_wanted() && !serve::tls_supported()) {
        throw error(errc::invalid_argument, "--tls-certificate: this sluice was built without TLS: " +
                                                serve::why_no_tls() + " was not found when it was built");
    }
    // gRPC would write lines of its own between those of the log, one for each handshake that fails.
    ::setenv("GRPC_VERBOSITY", "NONE", 0);
    serve::http_options http = options.http;
    http.version = SLUICE_VERSION;
    if (!options.tokens.empty()) http.tokens = read_tokens(options.tokens);
    http.repository_control = options.lets_load || is_loopback(http.address);
    serve::http_port port(http);
    if (!options.user.empty()) become_user(options.user);  // before anything is read that others have written

    const serve::log_sink sink = lines_to(log, options.log_as_json);
    serve::network_engine engine({.device = options.device, .machine = {.cuda = !options.device.starts_with("cpu")}});
    serve::server models(source_of(options), engine, sink);
    models.load_all();
    const signal_guard guard;  // until now a signal ends the process

    if (options.shares_memory) http.shared_memory = std::make_shared<serve::shared_regions>();
    http.budget = std::make_shared<serve::request_budget>(http.all_bodies_bytes);
    if (!http.otlp.empty()) http.spans = std::make_shared<serve::span_file>(http.otlp, http.version, sink);
    const std::unique_ptr<serve::grpc_front> grpc = grpc_front_of(options, http, models, sink);
    if (grpc) http.more_metrics = [&grpc] { return grpc->metrics(); };
    serve::http_front front(models, std::move(port), http, sink);  // it ends before gRPC's
    sink({log_level::info, "listening", "listening on " + url_of(http, front.port()), {}});
    if (grpc) {
        const std::string where = authority_of(http.address, grpc->port());
        sink({log_level::info, "listening_grpc", "listening for gRPC on " + where, {}});
    }
    while (!guard.requested()) std::this_thread::sleep_for(poll_time);

    const std::chrono::seconds time(options.drain_seconds);
    auto cut_of_grpc = std::async(std::launch::async, [&] { return grpc ? grpc->drain(time) : 0; });
    const std::size_t cut = front.drain(time) + cut_of_grpc.get();
    if (http.spans) http.spans->end();  // the file is whole now
    if (cut == 0) {
        sink({log_level::info, "end", "every request that was accepted is answered", {}});
        return;
    }
    sink({log_level::error, "end", std::to_string(cut) + " requests were cut off: the time to end was over", {}});
    std::_Exit(failed);  // a model that is computing cannot be stopped
}

}  // namespace sluice::app
