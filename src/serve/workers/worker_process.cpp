// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/worker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/workers/batch_message.hpp"
#include "serve/workers/control_channel.hpp"
#include "serve/workers/control_message.hpp"
#include "serve/workers/failure_message.hpp"
#include "serve/workers/given_descriptors.hpp"
#include "serve/workers/hatch_memory.hpp"
#include "serve/workers/model_message.hpp"
#include "serve/workers/read_files.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/serve/compute_nice.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::milliseconds between_looks{250};
constexpr int status_of_misuse = 2, status_of_fault = 3, status_of_damage = 4;

// Without a look at what other threads do: the process has nothing that must be kept.
[[noreturn]] void end_process(int status) { std::_Exit(status); }

bool is_started_by_front() {
    int type = 0;
    socklen_t bytes = sizeof(type);
    return ::getsockopt(given_control, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET &&
           ::fcntl(given_memory, F_GET_SEALS) > 0;
}

// What libraries of the front have opened without close-on-exec. Here nothing was opened yet.
void close_other_descriptors() {
    if (::syscall(SYS_close_range, given_memory + 1, ~0U, 0) == 0) return;
    for (long each = given_memory + 1, end = std::min(::sysconf(_SC_OPEN_MAX), 65536L); each < end; ++each)
        ::close(static_cast<int>(each));
}

// The process that computes. It has no orderly end: its members live as long as it does.
class worker {
public:
    worker(control_channel channel, worker_setup setup, std::unique_ptr<engine> engine)
        : channel_(std::move(channel)),
          setup_(std::move(setup)),
          engine_(std::move(engine)),
          memory_(io::file_descriptor(given_memory), setup_.hatches, setup_.hatch_bytes) {}

    [[noreturn]] void run() {
        for (std::size_t i = 0; i < setup_.hatches; ++i) std::thread([this, i] { serve_hatch(i); }).detach();
        std::thread([this] { show_life(); }).detach();
        std::thread([this] { watch_devices(); }).detach();
        packed_writer ready;
        ready.put(to_front::ready);
        send(ready.bytes());
        try {
            while (const auto message = channel_.receive(true)) obey(*message);
        } catch (const std::exception&) {
            end_process(status_of_damage);
        }
        end_process(EXIT_SUCCESS);  // the front is gone
    }

private:
    void obey(const std::string& message);
    void load(std::uint64_t number, const load_message& what);
    void trim();
    void serve_hatch(std::size_t index) noexcept;
    [[noreturn]] void show_life() noexcept;
    [[noreturn]] void watch_devices() noexcept;
    std::vector<std::shared_ptr<const loaded_model>> models() const;
    void answer(hatch& on, hatch_piece first, const hatch_wait& wait);
    std::shared_ptr<const loaded_model> find(std::uint64_t number) const;
    void end_of_fault(const std::string& why);

    void send(const std::string& message) const {
        const std::lock_guard lock(sending_);
        if (!channel_.send_all(message)) end_process(EXIT_SUCCESS);
    }

    control_channel channel_;
    const worker_setup setup_;
    const std::unique_ptr<engine> engine_;
    const hatch_memory memory_;
    mutable std::mutex sending_;
    mutable std::shared_mutex mutex_;  // of the models
    std::map<std::uint64_t, std::shared_ptr<const loaded_model>> models_;
};

void worker::obey(const std::string& message) {
    packed_reader from(message);
    switch (from.one_of(to_worker::trim)) {
        case to_worker::load: {
            const auto number = from.number<std::uint64_t>();
            load(number, read_load_message(from));
            break;
        }
        case to_worker::unload: {
            std::shared_ptr<const loaded_model> last;  // it ends without the lock
            const std::unique_lock lock(mutex_);
            const auto found = models_.find(from.number<std::uint64_t>());
            if (found == models_.end()) break;
            last = std::move(found->second);
            models_.erase(found);
            break;
        }
        case to_worker::trim: trim(); break;
        case to_worker::begin: throw worker_damage("a worker process begins once");
    }
}

// The server is quiet.
void worker::trim() {
    const std::vector<std::shared_ptr<const loaded_model>> all = models();
    if (all.size() > most_warm_models)
        for (const auto& each : all) each->give_back_memory();
    engine_->give_back_memory();
}

void worker::load(std::uint64_t number, const load_message& what) {
    packed_writer to;
    try {
        files_as_read files = what.files.empty() ? files_of(what.which) : what.files;
        require_as_read(files);
        const auto made = engine_->load(what.which, what.config);
        require_as_read(files);
        to.put(to_front::loaded);
        to.put(number);
        put(to, files);
        put(to, description_of(*made));
        if (to.bytes().size() > control_channel::longest_message)
            throw error(errc::unsupported, "the texts and names of the model take more than 1 GiB");
        const std::unique_lock lock(mutex_);
        models_[number] = made;
    } catch (const std::exception& failure) {
        to = {};
        to.put(to_front::load_failed);
        to.put(number);
        to.put(std::string_view(packed_failure(failure)));
    }
    send(to.bytes());
}

std::shared_ptr<const loaded_model> worker::find(std::uint64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto found = models_.find(number);
    if (found == models_.end()) throw worker_damage("a worker process does not have the model");
    return found->second;
}

std::vector<std::shared_ptr<const loaded_model>> worker::models() const {
    std::vector<std::shared_ptr<const loaded_model>> all;
    const std::shared_lock lock(mutex_);
    all.reserve(models_.size());
    for (const auto& [number, each] : models_) all.push_back(each);
    return all;
}

// A worker that is stopped, or whose device fails, while it has no batch is replaced before it gets one, which would
// run twice in vain. Two threads: a driver may take its time.
void worker::show_life() noexcept {
    packed_writer alive;
    alive.put(to_front::alive);
    while (true) {
        std::this_thread::sleep_for(between_looks);
        send(alive.bytes());
    }
}

void worker::watch_devices() noexcept {
    while (true) {
        std::this_thread::sleep_for(between_looks);
        try {
            engine_->look_at_devices();
            for (const auto& each : models()) {
                if (!each->is_lost()) continue;
                end_of_fault(each->device_name() + " has failed");
            }
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory; the next look may have more
        }
    }
}

// The front computes the batch on another worker.
void worker::end_of_fault(const std::string& why) {
    packed_writer to;
    to.put(to_front::fault);
    to.put(std::string_view(why));
    send(to.bytes());
    end_process(status_of_fault);
}

void worker::answer(hatch& on, hatch_piece first, const hatch_wait& wait) {
    std::shared_ptr<const loaded_model> model;
    try {
        batch_request request = read_request(on, first, wait);
        model = find(request.model);
        const run_guard guard([&on] {
            if (on.is_unwanted()) throw error(errc::canceled, "no client waits for this batch");
        });
        const std::vector<nn::any_tensor> outputs = model->run(std::move(request.inputs));
        write_answer(on, wait, outputs);
    } catch (const worker_damage&) {
        throw;
    } catch (const std::exception& failure) {
        const auto* const known = dynamic_cast<const error*>(&failure);
        const bool is_of_device = known != nullptr && known->code() == errc::device_failed;
        if (model && (is_of_device || model->is_lost())) end_of_fault(failure.what());
        write_failure(on, wait, packed_failure(failure));
    }
}

void worker::serve_hatch(std::size_t index) noexcept {
    try {
        become_less_urgent();
        hatch on(memory_.words(index), memory_.area(index), hatch_side::worker);
        const hatch_wait wait{.spin = setup_.spin, .look = [] {}};
        while (true) answer(on, on.take(wait.spin, wait.look), wait);
    } catch (const std::exception&) {  // the front gives another worker its batches
        end_process(status_of_damage);
    }
}

std::unique_ptr<engine> engine_of(const worker_setup& setup, const worker_engine_maker& make_engine) {
    const auto make = [&]() -> std::unique_ptr<engine> {
        become_less_urgent();  // for the devices' workers, which this thread makes
        if (make_engine) return make_engine(setup.engine);
        return std::make_unique<network_engine>(setup.engine);
    };
    return std::async(std::launch::async, make).get();
}

}  // namespace

int serve_as_worker(const worker_engine_maker& make_engine) {
    if (!is_started_by_front()) {
        std::fputs("sluice: error: a worker process is started by `sluice serve --workers`\n", stderr);
        return status_of_misuse;
    }
    close_other_descriptors();
    // It ends with the thread that has started it. One that ended before this call has closed its end of the channel.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    for (const int each : {given_control, given_memory}) ::fcntl(each, F_SETFD, FD_CLOEXEC);
    control_channel channel{io::file_descriptor(given_control)};
    try {
        const auto first = channel.receive(true);
        if (!first) return EXIT_SUCCESS;
        packed_reader from(*first);
        worker_setup setup = read_setup(from);
        set_compute_nice(setup.compute_nice);
        auto engine = engine_of(setup, make_engine);
        (new worker(std::move(channel), std::move(setup), std::move(engine)))->run();  // never ended
    } catch (const std::exception& failure) {
        packed_writer to;
        to.put(to_front::refused);
        to.put(std::string_view(packed_failure(failure)));
        channel.send_all(to.bytes());
        return status_of_fault;
    }
}

}  // namespace sluice::serve
