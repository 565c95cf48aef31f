// SPDX-License-Identifier: Apache-2.0
// `sluice serve` as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include <pwd.h>
#include <unistd.h>

#include "apps/support/subprocess.hpp"
#include "io/support/temporary_directory.hpp"
#include "serve/support/free_port.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/model_config.hpp"
#include "sluice/serve/tls.hpp"

namespace sluice::serve::serve_tool_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using app::testing::outcome;
using app::testing::run_tool;
using app::testing::tool_process;
using testing::free_port;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::post_request;
using testing::raw_client;

const std::string digits = SLUICE_SOURCE_DIR "/models/digits.safetensors";

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// The tool serves; it listens when this is constructed.
class serving {
public:
    explicit serving(const std::vector<std::string>& words, unsigned short port = free_port())
        : port_(port), tool_(with({"serve", "--device", "cpu", "--port", std::to_string(port_)}, words)) {
        while (true) {
            try {
                raw_client probe(port_);
                return;
            } catch (const std::system_error&) {
                if (tool_.has_ended()) throw std::runtime_error("the server has ended: " + tool_.wait().err);
                std::this_thread::sleep_for(5ms);
            }
        }
    }

    raw_client client() const { return raw_client(port_); }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    void send(int signal) const { tool_.send(signal); }
    pid_t id() const { return tool_.id(); }
    outcome wait() { return tool_.wait(); }

private:
    unsigned short port_;
    tool_process tool_;
};

std::string digits_request() {
    std::string row = "0.5";
    for (int i = 1; i < 64; ++i) row += ",0.5";
    return R"({"inputs":[{"name":"input","shape":[1,64],"datatype":"FP32","data":[)" + row + "]}]}";
}

TEST(serve_tool, answers_curl_and_ends_at_a_signal) {
    serving server({"digits=" + digits});
    const auto curl = [](std::vector<std::string> words) {
        words.insert(words.begin(), {"curl", "--silent", "--show-error", "--fail-with-body"});
        return tool_process(app::testing::command_line{words}).wait();
    };
    EXPECT_EQ(curl({server.url() + "/v2/health/ready"}).exit_code, 0);
    const outcome got = curl(
        {"-H", "Content-Type: application/json", "-d", digits_request(), server.url() + "/v2/models/digits/infer"});
    EXPECT_EQ(got.exit_code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr(R"({"name":"output","datatype":"FP32","shape":[1,10],"data":[)"));
    const outcome form = curl({"-d", digits_request(), server.url() + "/v2/models/digits/infer"});
    EXPECT_EQ(form.exit_code, 22);
    EXPECT_THAT(form.out, HasSubstr("accepted are application/json"));
    server.send(SIGTERM);
    const outcome end = server.wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_THAT(end.err, HasSubstr("listening on " + server.url()));
    EXPECT_THAT(end.err, HasSubstr("every request that was accepted is answered"));
    EXPECT_EQ(end.out, "");
}

// Each request that was sent whole gets an answer: 200, or 503 from the server that ends.
TEST(serve_tool, sigterm_under_load_loses_no_request) {
    for (const int signal : {SIGTERM, SIGINT}) {
        serving server({digits});
        const std::string request = post_request("/v2/models/digits/infer", digits_request());
        std::atomic<int> answered{0}, refused{0}, lost{0};
        std::vector<std::thread> clients;
        for (int i = 0; i < 8; ++i) {
            clients.emplace_back([&, client = server.client()]() mutable {
                while (true) {
                    const http_answer got = client.ask(request);
                    if (got.status != 200) {
                        ++(got.status == 503 ? refused : lost);
                        return;
                    }
                    ++answered;
                    if (got.field("Connection") == "close") return;
                }
            });
        }
        while (answered < 200) std::this_thread::yield();
        server.send(signal);
        for (std::thread& each : clients) each.join();
        const outcome end = server.wait();
        EXPECT_EQ(end.exit_code, 0) << end.err;
        EXPECT_EQ(lost, 0);
    }
}

TEST(serve_tool, memory_of_gpus_is_refused_with_the_reason_where_there_is_none) {
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    serving server({"--cuda-shared-memory", digits});
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    const std::string region = "/v2/cudasharedmemory/region/a/register";
    const http_answer got = server.client().ask(post_request(
        region, R"({"raw_handle":{"b64":")" + std::string(86, 'A') + R"(=="},"device_id":0,"byte_size":8})"));
    EXPECT_EQ(got.status, 400);
    EXPECT_THAT(got.body, HasSubstr("cannot open memory of a GPU: "));
    EXPECT_EQ(server.client().ask(get_request("/v2/systemsharedmemory/status")).status, 403);
    EXPECT_EQ(server.client().ask(post_request("/v2/models/digits/infer", digits_request())).status, 200);
    server.send(SIGTERM);
    const outcome end = server.wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_THAT(end.err, HasSubstr("--cuda-shared-memory: each register is refused: "));
}

TEST(serve_tool, log_lines_are_json_where_asked) {
    serving server({"--log", "json", digits});
    server.send(SIGTERM);
    std::istringstream lines(server.wait().err);
    std::vector<std::string> events;
    for (std::string line; std::getline(lines, line);) {
        EXPECT_EQ(line.front(), '{') << line;
        EXPECT_EQ(line.back(), '}') << line;
        const std::size_t at = line.find(R"("event":")");
        ASSERT_NE(at, std::string::npos) << line;
        events.push_back(line.substr(at + 9, line.find('"', at + 9) - at - 9));
    }
    EXPECT_THAT(events, ::testing::ElementsAre("model_loaded", "listening", "drain", "end"));
}

TEST(serve_tool, writes_spans_and_lines_of_requests) {
    const io::testing::temporary_directory folder;
    const std::string file = (folder / "spans.jsonl").string();
    serving server({"--log", "json", "--log-requests", "--otlp", file, digits});
    EXPECT_EQ(server.client()
                  .ask(post_request("/v2/models/digits/infer", digits_request(),
                                    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"))
                  .status,
              200);
    server.send(SIGTERM);
    const outcome end = server.wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_THAT(end.err, HasSubstr(R"("trace_id":"4bf92f3577b34da6a3ce929d0e0e4736")"));
    std::ifstream in(file);
    std::string line;
    ASSERT_TRUE(std::getline(in, line));
    EXPECT_THAT(line, HasSubstr(R"("traceId":"4bf92f3577b34da6a3ce929d0e0e4736")"));
    EXPECT_THAT(line, HasSubstr(R"("stringValue":"sluice")"));
    EXPECT_FALSE(std::getline(in, line));
}

TEST(serve_tool, serves_a_repository_and_reloads_it) {
    const io::testing::temporary_directory folder;
    fs::create_directories(folder / "digits/1");
    fs::copy(digits, folder / "digits/1/model.safetensors");
    serving server({"--repository", (folder / "").string()});
    raw_client client = server.client();
    EXPECT_THAT(client.ask(get_request("/v2/models/digits")).body, HasSubstr(R"("versions":["1"])"));
    fs::create_directories(folder / "digits/2");
    fs::copy(digits, folder / "digits/2/model.safetensors");
    EXPECT_EQ(client.ask(post_request("/v2/repository/models/digits/load", "{}")).status, 200);
    EXPECT_THAT(client.ask(get_request("/v2/models/digits")).body, HasSubstr(R"("versions":["2"])"));
    EXPECT_EQ(client.ask(post_request("/v2/models/digits/infer", digits_request())).status, 200);
}

TEST(serve_tool, polls_a_repository) {
    const io::testing::temporary_directory folder;
    fs::create_directories(folder / "digits/1");
    fs::copy(digits, folder / "digits/1/model.safetensors");
    serving server({"--repository", (folder / "").string(), "--poll", "1"});
    raw_client client = server.client();
    fs::create_directories(folder / "digits/2");
    fs::copy(digits, folder / "digits/2/model.safetensors");
    const auto is_loaded = [&] {
        return client.ask(get_request("/v2/models/digits")).body.find(R"("versions":["2"])") != std::string::npos;
    };
    for (int i = 0; i < 1000 && !is_loaded(); ++i) std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(is_loaded());
    server.send(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
}

TEST(serve_tool, other_machines_may_not_load_models_unless_told) {
    serving closed({"--address", "0.0.0.0", digits});
    EXPECT_EQ(closed.client().ask(post_request("/v2/repository/models/digits/load", "{}")).status, 403);
    serving open({"--address", "0.0.0.0", "--model-control", digits});
    EXPECT_EQ(open.client().ask(post_request("/v2/repository/models/digits/load", "{}")).status, 200);
}

TEST(serve_tool, tokens_come_from_a_file) {
    const io::testing::temporary_directory folder;
    std::ofstream(folder / "tokens") << "a-token-that-is-long\n\nanother-that-is-long\r\n";
    serving server({"--tokens", (folder / "tokens").string(), digits});
    EXPECT_EQ(server.client().ask(post_request("/v2/models/digits/infer", digits_request())).status, 401);
    raw_client client = server.client();
    EXPECT_EQ(client
                  .ask(post_request("/v2/models/digits/infer", digits_request(),
                                    "Authorization: Bearer another-that-is-long\r\n"))
                  .status,
              200);
}

TEST(serve_tool, tokens_change_while_it_runs) {
    const io::testing::temporary_directory folder;
    const fs::path file = folder / "tokens";
    const auto write = [&](const std::string& text) {
        std::ofstream(folder / "next") << text;
        fs::rename(folder / "next", file);
    };
    write("the-first-token-of-all name=a\n");
    serving server({"--tokens", file.string(), digits});
    const auto status_of = [&](const std::string& token) {
        return server
            .client()  // who is refused is sent away
            .ask(post_request("/v2/models/digits/infer", digits_request(), "Authorization: Bearer " + token + "\r\n"))
            .status;
    };
    const auto wait_for = [&](const std::string& token, int status) {
        for (int i = 0; i < 1000 && status_of(token) != status; ++i) std::this_thread::sleep_for(50ms);
        EXPECT_EQ(status_of(token), status) << token;
    };
    EXPECT_EQ(status_of("the-first-token-of-all"), 200);
    write("the-first-token-of-all name=a\nthe-second-token-of-all name=a\n");
    wait_for("the-second-token-of-all", 200);
    EXPECT_EQ(status_of("the-first-token-of-all"), 200);
    write("the-second-token-of-all name=a\nshort name=b\n");  // wrong: those of before hold
    std::this_thread::sleep_for(3s);
    EXPECT_EQ(status_of("the-first-token-of-all"), 200);
    write("the-second-token-of-all name=a roles=observe\n");
    wait_for("the-first-token-of-all", 401);
    EXPECT_EQ(status_of("the-second-token-of-all"), 403);
    server.send(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
}

// A server takes the place of another while clients ask. A connection that the system completes between the last accept
// and the close of the old listening socket is reset: those few microseconds are all that may be lost.
TEST(serve_tool, one_server_replaces_another_on_its_port) {
    const unsigned short port = free_port();
    auto old = std::make_unique<serving>(std::vector<std::string>{"--share-port", digits}, port);
    std::atomic<bool> stops{false};
    std::atomic<int> answered{0}, lost{0};
    std::vector<std::jthread> clients;
    for (int i = 0; i < 2; ++i) {
        clients.emplace_back([&] {
            while (!stops) {  // each on a connection of its own
                try {
                    ++(raw_client(port).ask(get_request("/v2/models/digits")).status == 200 ? answered : lost);
                } catch (const std::system_error&) {
                    ++lost;
                }
            }
        });
    }
    serving fresh({"--share-port", digits, "fresh=" + digits}, port);
    while (raw_client(port).ask(get_request("/v2/models/fresh")).status != 200) std::this_thread::sleep_for(1ms);
    old->send(SIGTERM);
    EXPECT_EQ(old->wait().exit_code, 0);
    const int after = answered;
    while (answered < after + 50) std::this_thread::yield();
    stops = true;
    clients.clear();
    EXPECT_LE(lost, 1);
}

// curl checks the server's certificate, and shows its own.
TEST(serve_tool, speaks_https_with_curl) {
    const io::testing::temporary_directory folder;
    const auto run = [](std::vector<std::string> words) {
        return tool_process(app::testing::command_line{std::move(words)}).wait();
    };
    const std::string certificate = (folder / "s.pem").string(), key = (folder / "s.key").string();
    ASSERT_EQ(
        run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate})
            .exit_code,
        0);
    const std::vector<std::string> words{"--tls-certificate", certificate, "--tls-key", key,
                                         "--tls-client-ca",   certificate, digits};
    if (!tls_supported()) {
        const outcome got = run_tool(with({"serve", "--device", "cpu"}, words));
        EXPECT_EQ(got.exit_code, 2) << got.err;
        EXPECT_THAT(got.err, HasSubstr("built without TLS: " + why_no_tls()));
        return;
    }
    serving server(words);
    const std::string url = "https" + server.url().substr(4) + "/v2/models/digits/infer";
    const std::vector<std::string> ask{"curl",
                                       "--silent",
                                       "--show-error",
                                       "--fail-with-body",
                                       "--cacert",
                                       certificate,
                                       "-H",
                                       "Content-Type: application/json",
                                       "-d",
                                       digits_request(),
                                       url};
    const outcome got = run(with(ask, {"--cert", certificate, "--key", key}));
    EXPECT_EQ(got.exit_code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr(R"({"name":"output","datatype":"FP32","shape":[1,10],"data":[)"));
    EXPECT_NE(run(ask).exit_code, 0);  // without a certificate of its own
    server.send(SIGTERM);
    const outcome end = server.wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_THAT(end.err, HasSubstr("listening on https://127.0.0.1:"));
}

TEST(serve_tool, says_what_it_was_built_with) {
    const outcome got = run_tool({"serve", "--version"});
    EXPECT_EQ(got.exit_code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr("HTTP         yes"));
    EXPECT_THAT(got.out, HasSubstr(grpc_supported() ? "gRPC         yes" : "gRPC         no: " + why_no_grpc()));
    EXPECT_THAT(got.out, HasSubstr(tls_supported() ? "TLS          yes" : "TLS          no: " + why_no_tls()));
    EXPECT_THAT(got.out, HasSubstr(yaml_supported() ? "config.yaml  yes" : "config.yaml  no: " + why_no_yaml()));
}

TEST(serve_tool, answers_grpc_where_it_is_built_with_it) {
    if (!grpc_supported()) {
        const outcome got = run_tool({"serve", "--device", "cpu", "--port", "0", "--grpc-port", "0", digits});
        EXPECT_EQ(got.exit_code, 2);
        EXPECT_THAT(got.err, HasSubstr("--grpc-port: this sluice was built without gRPC"));
        return;
    }
    {
        serving server({"--grpc-port", "0", digits});
        const std::vector<std::string> words{"curl", "--silent", "--show-error", server.url() + "/metrics"};
        const outcome metrics = tool_process(app::testing::command_line{words}).wait();
        EXPECT_THAT(metrics.out, HasSubstr("sluice_grpc_unanswered_requests 0\n")) << metrics.err;
        server.send(SIGTERM);
        const outcome end = server.wait();
        EXPECT_EQ(end.exit_code, 0) << end.err;
        EXPECT_THAT(end.err, HasSubstr("listening for gRPC on 127.0.0.1:"));
    }
    const unsigned short taken = free_port();
    const serving holder({digits}, taken);
    const outcome got =
        run_tool({"serve", "--device", "cpu", "--port", "0", "--grpc-port", std::to_string(taken), digits});
    EXPECT_EQ(got.exit_code, 1) << got.err;
    EXPECT_THAT(got.err, HasSubstr("cannot listen for gRPC on 127.0.0.1"));
}

TEST(serve_tool, a_configuration_may_be_yaml) {
    const io::testing::temporary_directory folder;
    fs::create_directories(folder / "digits");
    fs::copy(digits, folder / "digits/model.safetensors");
    std::ofstream(folder / "digits/config.yaml") << "max_batch: 1  # no batches\n";
    if (!yaml_supported()) {
        const outcome got = run_tool({"serve", "--device", "cpu", "--repository", (folder / "").string()});
        EXPECT_THAT(got.err, HasSubstr("built without YAML"));
        return;
    }
    serving server({"--repository", (folder / "").string()});
    EXPECT_THAT(server.client().ask(get_request("/v2/models/digits/stats")).body, HasSubstr(R"("max_batch":1)"));
}

// The lines of /proc/ID/status that begin with the name, without it.
std::string status_of(pid_t process, const std::string& name) {
    std::ifstream in("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
    return "no " + name;
}

TEST(serve_tool, root_gives_its_rights_up_before_it_reads_models) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root has rights to give up";
    const passwd* const other = ::getpwnam("daemon");
    ASSERT_NE(other, nullptr);
    const io::testing::temporary_directory folder;
    fs::permissions(folder / "", fs::perms::others_exec | fs::perms::owner_all);
    fs::copy(digits, folder / "digits.safetensors");
    fs::permissions(folder / "digits.safetensors", fs::perms::others_read | fs::perms::owner_all);
    std::ofstream(folder / "tokens") << "a-token-that-is-long\n";
    fs::permissions(folder / "tokens", fs::perms::owner_read);  // only root reads it
    const std::vector<std::string> words = {(folder / "digits.safetensors").string(), "--user", "daemon", "--tokens",
                                            (folder / "tokens").string()};
    const outcome refused = run_tool(with({"serve", "--device", "cpu", "--port", "0"}, words));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--user: 'daemon' must be able to read '" + (folder / "tokens").string()));
    ASSERT_EQ(::chown((folder / "tokens").c_str(), 0, other->pw_gid), 0);
    fs::permissions(folder / "tokens", fs::perms::owner_read | fs::perms::group_read);

    // A port of root's, the first that is free.
    unsigned short port = 600;
    std::unique_ptr<serving> server;
    for (; !server; ++port) {
        ASSERT_LT(port, 700);
        try {
            server = std::make_unique<serving>(words, port);
        } catch (const std::runtime_error& failure) {
            ASSERT_THAT(failure.what(), HasSubstr("cannot listen on 127.0.0.1"));
        }
    }
    const std::string user = std::to_string(other->pw_uid), group = std::to_string(other->pw_gid);
    const auto four_times = [](const std::string& x) { return x + "\t" + x + "\t" + x + "\t" + x; };
    for (const auto& each : fs::directory_iterator("/proc/" + std::to_string(server->id()) + "/task")) {
        const pid_t thread = std::stoi(each.path().filename().string());
        EXPECT_EQ(status_of(thread, "Uid"), four_times(user));
        EXPECT_EQ(status_of(thread, "Gid"), four_times(group));
        EXPECT_THAT(status_of(thread, "Groups"), ::testing::StartsWith(group));
        EXPECT_EQ(status_of(thread, "NoNewPrivs"), "1");
        EXPECT_EQ(status_of(thread, "CapEff"), "0000000000000000");
        EXPECT_EQ(status_of(thread, "CapPrm"), "0000000000000000");
    }
    EXPECT_EQ(server->client().ask(get_request("/v2/models/digits")).status, 401);
    EXPECT_EQ(server->client().ask(get_request("/v2/health/ready")).status, 200);
    server->send(SIGTERM);
    EXPECT_EQ(server->wait().exit_code, 0);

    // What the user cannot read is not read as root.
    fs::permissions(folder / "digits.safetensors", fs::perms::owner_all);
    const outcome got = run_tool(
        {"serve", "--device", "cpu", "--port", "0", "--user", "daemon", (folder / "digits.safetensors").string()});
    EXPECT_NE(got.exit_code, 0);
    EXPECT_THAT(got.err, HasSubstr("digits.safetensors"));
    EXPECT_THAT(got.err, HasSubstr("Permission denied"));
}

TEST(serve_tool, what_cannot_be_served_is_refused_at_the_start) {
    const io::testing::temporary_directory folder;
    const std::string empty = (folder / "empty.onnx").string();
    std::ofstream(empty) << "no network";
    fs::create_directories(folder / "m/1");
    fs::copy(digits, folder / "m/1/model.safetensors");
    std::ofstream(folder / "m/config.json") << R"({"max_bach": 3})";
    const auto refused = [](const std::vector<std::string>& words, const std::string& why) {
        const outcome got = run_tool(with({"serve", "--device", "cpu", "--port", "0"}, words));
        EXPECT_EQ(got.exit_code, 2) << got.err;
        EXPECT_THAT(got.err, HasSubstr(why));
    };
    refused({}, "model or --repository");
    refused({empty}, "empty.onnx");
    refused({"nowhere.onnx"}, "nowhere.onnx");
    refused({digits, digits}, "two models have the name 'digits'");
    refused({digits, "--repository", (folder / "").string()}, "excludes");
    refused({"--repository", (folder / "").string()}, "'max_bach': this key is unknown");
    refused({digits, "--poll", "1"}, "--poll requires --repository");
    refused({digits, "--address", "localhost"}, "no address to listen on");
    refused({digits, "--log", "xml"}, "text and json");
    refused({digits, "--spin-us", "1000001"}, "--spin-us: Value 1000001 not in range");
    refused({digits, "--compute-nice", "20"}, "--compute-nice: Value 20 not in range");
    refused({digits, "--write-timeout", "0"}, "--write-timeout: Value 0 not in range");
    refused({digits, "--user", "unknown-name"}, "there is no user 'unknown-name'");
    refused({digits, "--user", "root"}, "has the rights of root");
    refused({digits, "--tls-certificate", digits}, "--tls-key");
    refused({digits, "--tls-client-ca", digits}, "--tls-certificate");
    std::ofstream(folder / "tokens") << "a-token-that-is-long\nshort\n";
    refused({digits, "--tokens", (folder / "tokens").string()}, "line 2: a token has at least 16 characters");
    refused({digits, "--tokens", (folder / "no tokens").string()}, "no tokens");
}

}  // namespace
}  // namespace sluice::serve::serve_tool_tests
