// SPDX-License-Identifier: Apache-2.0
// The worker process of the tests: it computes networks, and models that do on request what processes do on bad days. A
// file NAME.trouble says what its load does: "fine", "crash", "refuse"; "many": the outputs are those of
// many_tensors().
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/workers/trouble.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/worker_process.hpp"

namespace sluice::serve::testing {
namespace {

// Gives its inputs back. The first number of the first one, if that is of f32, may be trouble.
class trouble_model final : public loaded_model {
public:
    trouble_model(std::filesystem::path file, bool has_many) : file_(std::move(file)) {
        if (!has_many) return;
        outputs_.clear();
        for (const nn::any_tensor& each : many_tensors())
            outputs_.push_back({.name = "y", .type = each.type(), .shape = {}, .is_text = false});
    }

    const std::vector<nn::value_info>& inputs() const noexcept override { return inputs_; }
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    const nn::text_codes& texts() const noexcept override { return texts_; }
    const nn::row_independence& rows() const noexcept override { return rows_; }
    std::string platform() const override { return "trouble"; }
    std::string device_name() const override { return "trouble:0"; }
    std::string how() const override { return "with trouble"; }
    bool is_lost() const noexcept override { return is_lost_; }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::erase_if(inputs, [](const nn::any_tensor& each) { return !each; });
        if (inputs.empty() || outputs_.size() != 1 || inputs.front().type() != io::dtype::f32 ||
            inputs.front().elements() == 0)
            return inputs;
        const float number = inputs.front().values<float>()[0];
        if (number == refused_number) throw error(errc::out_of_range, "13 is out of range", {.operation = "trouble"});
        if (number == no_memory_number) throw std::bad_alloc();
        if (number == wrong_number) inputs.push_back(inputs.front());
        if (number == killed_number) ::raise(SIGKILL);
        if (number == exit_number) ::_exit(7);
        if (number == hung_number) hang();
        if (number == slow_number) be_slow();
        if (number == lost_number) {
            is_lost_ = true;
            throw error(errc::device_failed, "the device is lost");
        }
        if (number == killed_once_number && !std::filesystem::exists(file_.string() + ".once")) {
            std::ofstream(file_.string() + ".once") << "x";
            ::raise(SIGKILL);
        }
        return inputs;
    }

private:
    [[noreturn]] static void hang() {
        while (true) ::pause();
    }
    static void be_slow() {
        for (int i = 0; i < 200; ++i) {
            run_guard::check();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }

    const std::filesystem::path file_;
    const std::vector<nn::value_info> inputs_{
        {"x", io::dtype::f32, std::vector<nn::dimension>{{.length = {}, .name = "batch"}, {.length = 2, .name = ""}}}};
    std::vector<nn::value_info> outputs_ = inputs_;
    const nn::text_codes texts_{std::vector<std::string>{"red", "green"}};
    const nn::row_independence rows_{.is_proven = true, .input_axes = {0}, .output_axes = {0}};
    mutable std::atomic<bool> is_lost_{false};
};

class trouble_engine final : public engine {
public:
    explicit trouble_engine(const network_engine_options& options) : networks_(options) {}

    std::shared_ptr<const loaded_model> load(const model_version& which, const model_config& how) override {
        if (which.file.extension() != ".trouble") return networks_.load(which, how);
        std::string word;
        std::ifstream(which.file) >> word;
        if (word == "crash") ::raise(SIGKILL);
        if (word == "refuse") throw file_error(which.file, 3, "word", "it is refused");
        return std::make_shared<trouble_model>(which.file, word == "many");
    }

private:
    network_engine networks_;
};

}  // namespace
}  // namespace sluice::serve::testing

int main() {
    return sluice::serve::serve_as_worker([](const sluice::serve::network_engine_options& options) {
        return std::make_unique<sluice::serve::testing::trouble_engine>(options);
    });
}
