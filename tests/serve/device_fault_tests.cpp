// SPDX-License-Identifier: Apache-2.0
// A device fails while `sluice serve` runs. Here it runs in this process, on two fake devices that the test breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "faults/faulty_backend.hpp"
#include "io/support/temporary_directory.hpp"
#include "serve/network_replicas.hpp"
#include "serve/support/free_port.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve_command.hpp"

namespace sluice::serve::device_fault_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::post_request;
using testing::raw_client;

// A network whose commands go to a stream of a fake device.
class network_on_fake final : public loaded_model {
public:
    network_on_fake(device& on, nn::model from)
        : device_(on),
          pool_(on),
          rows_(nn::find_row_independence(from)),
          network_(sync(nn::make_network(std::move(from)), pool_)) {}

    const std::vector<nn::value_info>& inputs() const noexcept override { return network_.inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return network_.outputs(); }
    const nn::row_independence& rows() const noexcept override { return rows_; }
    std::string platform() const override { return "fake"; }
    std::string device_name() const override { return device_.name(); }
    bool is_lost() const noexcept override { return device_.is_poisoned(); }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        return sync(network_.run(std::move(inputs)), pool_);
    }

private:
    device& device_;
    mutable single_stream pool_;
    nn::row_independence rows_;
    nn::network network_;
};

class fake_devices final : public engine {
public:
    explicit fake_devices(faults::faulty_runtime& fakes) : fakes_(fakes) {}
    std::shared_ptr<const loaded_model> load(const model_version& which, const model_config& how) override {
        const nn::model from = nn::load_safetensors(which.file);
        std::vector<std::shared_ptr<const loaded_model>> made;
        for (const std::string& each : how.devices.empty() ? std::vector{how.device} : how.devices)
            made.push_back(std::make_shared<network_on_fake>(each == "fake:1" ? fakes_.other : fakes_.on, from));
        if (made.size() == 1) return made.front();
        return std::make_shared<network_replicas>(std::move(made));
    }

private:
    faults::faulty_runtime& fakes_;
};

// A log that the test reads while it is written.
class shared_log final : public std::streambuf {
public:
    std::string text() const {
        const std::lock_guard lock(mutex_);
        return text_;
    }

protected:
    std::streamsize xsputn(const char* text, std::streamsize length) override {
        const std::lock_guard lock(mutex_);
        text_.append(text, static_cast<std::size_t>(length));
        return length;
    }
    int_type overflow(int_type c) override {
        const std::lock_guard lock(mutex_);
        text_ += traits_type::to_char_type(c);
        return c;
    }

private:
    mutable std::mutex mutex_;
    std::string text_;
};

class served_on_fakes : public ::testing::Test {
protected:
    void SetUp() override {
        for (const auto& [name, device] : {std::pair<std::string, std::string>{"a", "fake:0"}, {"b", "fake:1"}}) {
            fs::create_directories(folder / name);
            fs::copy(SLUICE_SOURCE_DIR "/models/digits.safetensors", folder / (name + "/model.safetensors"));
            // Each request is a command of its own, on a thread of the model.
            std::ofstream(folder / (name + "/config.json"))
                << R"({"device": ")" << device << R"(", "max_batch": 1, "instances": 2, "caller_thread_us": 0})";
        }
        options.repository = folder / "";
        options.http.port = port;
        options.log_as_json = true;
        ended = std::async(std::launch::async, [this] {
            app::serve_models(options, log, [this](const auto&) { return std::make_unique<fake_devices>(fakes); });
        });
        until([this] { return status_of(get_request("/v2/health/ready")) == 200; });
    }

    // Waits for it at most 20 seconds.
    template <typename Condition>
    void until(const Condition& holds) {
        const auto limit = std::chrono::steady_clock::now() + 20s;
        while (!holds()) {
            ASSERT_LT(std::chrono::steady_clock::now(), limit);
            std::this_thread::sleep_for(2ms);
        }
    }
    int status_of(const std::string& request) const {
        try {
            return raw_client(port).ask(request).status;
        } catch (const std::system_error&) {
            return 0;  // it does not listen
        }
    }
    int infer(const std::string& model) const { return status_of(request_to(model)); }
    static std::string request_to(const std::string& model) {
        std::string row = "0.5";
        for (int i = 1; i < 64; ++i) row += ",0.5";
        return post_request("/v2/models/" + model + "/infer",
                            R"({"inputs":[{"name":"input","shape":[1,64],"datatype":"FP32","data":[)" + row + "]}]}");
    }
    // How many lines of the log say that the device is lost.
    std::size_t said_lost(const std::string& device) const {
        std::istringstream log_lines(lines.text());
        std::size_t count = 0;
        for (std::string line; std::getline(log_lines, line);) {
            const auto its = nlohmann::json::parse(line);
            if (its["event"] != "device_lost") continue;
            EXPECT_EQ(its["level"], "error");
            const std::string message = its["message"];
            count += message.starts_with(device + " has failed. Models that are on no other device") ? 1 : 0;
        }
        return count;
    }
    // Ends the server by the loss of its last devices.
    void break_the_rest() {
        fakes.first.works.fault("broken");
        fakes.second.works.fault("broken");
        for (const char* const each : {"a", "b"}) infer(each);  // the fault is found by the next command
        try {
            ended.get();
            ADD_FAILURE() << "the server ended as if all were well";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::device_failed);
            EXPECT_THAT(failure.what(), HasSubstr("the devices of all models have failed"));
        }
    }

    faults::faulty_runtime fakes;
    io::testing::temporary_directory folder;
    app::serve_options options;
    const unsigned short port = testing::free_port();
    shared_log lines;
    std::ostream log{&lines};
    std::future<void> ended;
};

TEST_F(served_on_fakes, models_of_other_devices_go_on_and_the_server_is_not_ready) {
    EXPECT_EQ(infer("a"), 200);
    EXPECT_EQ(infer("b"), 200);
    fakes.first.works.hold();
    raw_client waits(port), queued(port);
    waits.send(request_to("a"));
    queued.send(request_to("a"));
    std::this_thread::sleep_for(20ms);  // they are probably on the device by now
    fakes.first.works.fault("broken");
    // Requests that the device has taken fail, and say why; those after them are refused at once.
    const http_answer lost = waits.receive();
    EXPECT_TRUE(lost.status == 500 || lost.status == 503) << lost.status;
    EXPECT_THAT(lost.body, HasSubstr("broken"));
    EXPECT_GE(queued.receive().status, 500);
    EXPECT_EQ(infer("a"), 503);
    EXPECT_EQ(status_of(get_request("/v2/health/ready")), 503);
    EXPECT_EQ(status_of(get_request("/v2/models/a/ready")), 503);
    EXPECT_EQ(status_of(get_request("/v2/models/b/ready")), 200);
    EXPECT_EQ(status_of(get_request("/v2/health/live")), 200);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(infer("b"), 200);
    // Loading it again on the lost device fails, and changes nothing.
    EXPECT_EQ(status_of(post_request("/v2/repository/models/a/load", "{}")), 500);
    EXPECT_EQ(infer("a"), 503);
    until([this] { return said_lost("fake:0") != 0; });
    // On another device it answers again.
    std::ofstream(folder / "a/config.json") << R"({"device": "fake:1"})";
    EXPECT_EQ(status_of(post_request("/v2/repository/models/a/load", "{}")), 200);
    EXPECT_EQ(infer("a"), 200);
    EXPECT_EQ(status_of(get_request("/v2/health/ready")), 200);
    EXPECT_EQ(ended.wait_for(100ms), std::future_status::timeout);
    break_the_rest();
    EXPECT_EQ(said_lost("fake:0"), 1U);  // once
    EXPECT_EQ(said_lost("fake:1"), 1U);
}

TEST_F(served_on_fakes, a_model_on_two_devices_goes_on_with_one) {
    std::ofstream(folder / "a/config.json") << R"({"devices": ["fake:0", "fake:1"], "max_batch": 1})";
    ASSERT_EQ(status_of(post_request("/v2/repository/models/a/load", "{}")), 200);
    EXPECT_EQ(infer("a"), 200);
    fakes.first.works.hold();
    raw_client waits(port);
    waits.send(request_to("a"));
    std::this_thread::sleep_for(20ms);  // it is probably on the first device by now
    fakes.first.works.fault("broken");
    EXPECT_EQ(waits.receive().status, 200);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(infer("a"), 200);
    EXPECT_EQ(status_of(get_request("/v2/health/ready")), 200);
    until([this] { return lines.text().find("fake:0 has failed") != std::string::npos; });
    EXPECT_EQ(ended.wait_for(100ms), std::future_status::timeout);
    break_the_rest();
}

// A service manager starts it again; only a new process can use the devices again.
TEST_F(served_on_fakes, without_a_device_the_server_answers_what_it_has_and_ends) {
    raw_client waits(port);
    fakes.second.works.hold();
    waits.send(request_to("b"));
    std::this_thread::sleep_for(20ms);
    break_the_rest();
    const http_answer lost = waits.receive();
    EXPECT_TRUE(lost.status == 500 || lost.status == 503) << lost.status;
    EXPECT_EQ(infer("a"), 0);
    EXPECT_THAT(lines.text(), HasSubstr("every request that was accepted is answered"));
}

}  // namespace
}  // namespace sluice::serve::device_fault_tests
