// SPDX-License-Identifier: Apache-2.0
// The worker process of the tests: it computes networks, and models that do on request what processes do on bad days. A
// file NAME.trouble says what its load does: "fine", "crash", "refuse"; "deadly": each run is SIGKILL; "many": the
// outputs are those of many_tensors().
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
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
    trouble_model(std::filesystem::path file, const std::string& word)
        : file_(std::move(file)), is_deadly_(word == "deadly") {
        if (word != "many") return;
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
    // As a GPU's driver says it: only to who asks.
    void look() const { is_lost_ = is_lost_ || fails_soon_; }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        if (is_deadly_) ::raise(SIGKILL);
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
        if (number == in_line_number) be_in_line();
        if (number == held_number) be_held();
        if (number == lost_number) {
            is_lost_ = true;
            throw error(errc::device_failed, "the device is lost");
        }
        if (number == lost_later_number) fails_soon_ = true;
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
    static void be_in_line() {
        static std::mutex line;
        const std::lock_guard lock(line);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    // The end of a process that another one traces is seen by that one first: it traces until the file is gone.
    void be_held() const {
        const std::string held = file_.string() + ".held";
        std::ofstream(held.c_str()) << "x";
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw error(errc::io_failed, "pipe2");
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        const pid_t its = ::getpid();
        if (::fork() == 0) {
            const char answer = ::ptrace(PTRACE_SEIZE, its, nullptr, nullptr) == 0 ? 'y' : 'n';
            if (::write(ends[1], &answer, 1) != 1 || answer != 'y') ::_exit(1);
            ::syscall(SYS_close_range, 0, ~0U, 0);  // the worker's channel must end with the worker
            for (int i = 0; i < 12'000 && ::access(held.c_str(), F_OK) == 0; ++i) ::usleep(10'000);
            ::_exit(0);
        }
        ::close(ends[1]);
        char answer = 'n';
        const bool is_held = ::read(ends[0], &answer, 1) == 1 && answer == 'y';
        ::close(ends[0]);
        if (!is_held) throw error(errc::unsupported, "a process may not trace another one here");
    }

    const std::filesystem::path file_;
    const bool is_deadly_;
    const std::vector<nn::value_info> inputs_{
        {"x", io::dtype::f32, std::vector<nn::dimension>{{.length = {}, .name = "batch"}, {.length = 2, .name = ""}}}};
    std::vector<nn::value_info> outputs_ = inputs_;
    const nn::text_codes texts_{std::vector<std::string>{"red", "green"}};
    const nn::row_independence rows_{.is_proven = true, .input_axes = {0}, .output_axes = {0}};
    mutable std::atomic<bool> is_lost_{false}, fails_soon_{false};
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
        auto made = std::make_shared<trouble_model>(which.file, word);
        const std::lock_guard lock(mutex_);
        models_.push_back(made);
        return made;
    }
    void look_at_devices() override {
        const std::lock_guard lock(mutex_);
        for (const auto& each : models_) each->look();
    }

private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<const trouble_model>> models_;
    network_engine networks_;
};

}  // namespace
}  // namespace sluice::serve::testing

int main() {
    return sluice::serve::serve_as_worker([](const sluice::serve::network_engine_options& options) {
        return std::make_unique<sluice::serve::testing::trouble_engine>(options);
    });
}
