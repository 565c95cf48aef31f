// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/resident.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "kernels/resident/resident_lanes.hpp"
#include "kernels/resident/resident_mlp.hpp"
#include "kernels/resident/resident_plan.hpp"
#include "nn/mlp_layers.hpp"
#include "runtime/completion_service.hpp"
#include "runtime/staying_work.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using clock = std::chrono::steady_clock;
using sluice::detail::spin_guard;

constexpr std::chrono::milliseconds longest_pause{1};
// A GPU that is busy starts the kernel when its multiprocessors are free.
constexpr std::chrono::seconds longest_start{10};
// Looks into memory between two looks at the clock and the device, and how often the driver is asked: it may have found
// a fault.
constexpr unsigned looks_before_check = 1u << 12;

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

bool is_same_form(const sluice::detail::fused_mlp_form& a, const sluice::detail::fused_mlp_form& b) noexcept {
    return a.layers == b.layers && std::ranges::equal(a.features, b.features) && std::ranges::equal(a.after, b.after);
}

struct start_closure {
    const kernels::resident_call* call;
    std::size_t lanes;
    std::size_t is_bfloat16;
};

}  // namespace

// What the handles share: on a GPU the boxes and the kernel, on a CPU the packed weights.
template <resident_element T>
class resident_state final : public sluice::detail::staying_work {
public:
    resident_state(device& on, const mlp_model& model, const resident_options& options, const source_location& location)
        : on_(on),
          runtime_(on),
          options_(options),
          location_(location),
          layers_(layers_of(model)),
          form_(sluice::detail::check_fused_mlp(layers_, location)) {
        check_options();
        if (is_on_gpu()) {
            if constexpr (std::same_as<T, float>) {
                fail(errc::unsupported, "on a GPU the elements are half or bfloat16, not float");
            } else {
                start();
            }
        } else {
            packed_ = std::make_shared<packed_mlp<T>>(pack(layers_));
        }
        layers_ = {};
    }
    ~resident_state() { close(); }

    const sluice::detail::fused_mlp_form& form() const noexcept { return form_; }
    const resident_options& options() const noexcept { return options_; }
    std::size_t blocks() const noexcept { return layout_.blocks; }
    const device& on() const noexcept { return on_; }

    const command_queue& queue() const noexcept override { return (*lease_)->queue(); }
    void end() noexcept override { boxes_->end(); }

    void run(std::span<const T> inputs, std::span<T> outputs) {
        const std::size_t in = form_.in_features, out = form_.out_features, rows = inputs.size() / in;
        if (inputs.size() % in != 0 || outputs.size() != rows * out) {
            fail(errc::shape_mismatch, "the network makes [rows, " + std::to_string(out) + "] of [rows, " +
                                           std::to_string(in) + "]; there are " + std::to_string(inputs.size()) +
                                           " inputs and " + std::to_string(outputs.size()) + " outputs");
        }
        on_.throw_if_refusing();
        if (rows == 0) return;
        if (!is_on_gpu()) return run_here(inputs, outputs, rows);
        if constexpr (!std::same_as<T, float>) {
            if (rows > options_.rows) {
                fail(errc::invalid_argument, std::to_string(rows) + " rows in a request; resident_options::rows says " +
                                                 std::to_string(options_.rows));
            }
            const lane_guard lane(*this);
            boxes_->ask(lane.number, reinterpret_cast<const std::uint16_t*>(inputs.data()),
                        static_cast<std::uint32_t>(rows));
            wait_for_lane(lane.number, reinterpret_cast<std::uint16_t*>(outputs.data()), options_.longest_wait);
        }
    }

    void update(const mlp_model& model) {
        const std::vector<mlp_layer> layers = layers_of(model);
        if (!is_same_form(sluice::detail::check_fused_mlp(layers, location_), form_)) {
            fail(errc::invalid_argument,
                 "the other network has other layers; only weights and biases can change without a restart");
        }
        const std::lock_guard one_at_a_time(updating_);
        if (!is_on_gpu()) {
            auto made = std::make_shared<packed_mlp<T>>(pack(layers));
            const spin_guard lock(packed_lock_);
            packed_.swap(made);
            return;
        }
        if constexpr (!std::same_as<T, float>) {
            throw_if_lost();
            tensor<std::byte> made = image_of(layers);
            // Kept, whatever happens here: the kernel may read it until the end. The first image is kept too, since a
            // command that is not complete names it: the pool's next user would wait for that command.
            later_image_.swap(replaced_image_);
            later_image_ = std::move(made);
            boxes_->set_image(later_image_->device_data());
            for (std::size_t i = 0; i < options_.lanes; ++i) {
                const lane_guard lane(*this, i);
                boxes_->ask_to_reload(i);
                wait_for_lane(i, nullptr, options_.longest_wait);
            }
            replaced_image_.reset();  // all lanes have read the new one
        }
    }

    // The last handle is dropped. In a host call of the GPU the driver must not be called: the completion thread ends
    // the kernel then.
    static void drop(resident_state* state) noexcept {
        if (state->is_started_ && state->on_.interpreter().is_own_thread())
            state->on_.service().post(state->dropped_);
        else
            delete state;
    }

private:
    struct alignas(64) lane_lock {
        std::atomic<bool> is_taken{false};
        bool take() noexcept { return !is_taken.exchange(true, std::memory_order_acquire); }
    };
    // Has a lane while it lives: any, or the one with this number.
    struct lane_guard {
        explicit lane_guard(resident_state& of) : state(of), number(of.any_lane()) {}
        lane_guard(resident_state& of, std::size_t which) : state(of), number(which) {
            for (unsigned looks = 1; !of.locks_[which].take(); ++looks) of.wait_for_lane(looks);
            of.throw_if_failed_in(which);
        }
        lane_guard(const lane_guard&) = delete;
        lane_guard& operator=(const lane_guard&) = delete;
        ~lane_guard() { state.locks_[number].is_taken.store(false, std::memory_order_release); }
        resident_state& state;
        const std::size_t number;
    };

    bool is_on_gpu() const noexcept { return on_.kind() == device_kind::cuda; }
    [[noreturn]] void fail(errc code, const std::string& why) const {
        throw error(code, why, {"resident_network", on_.name(), location_});
    }

    void check_options() const {
        if (options_.lanes == 0) fail(errc::invalid_argument, "resident_options::lanes is 0");
        if (options_.pause < options_.pause.zero() || options_.pause > longest_pause)
            fail(errc::invalid_argument, "resident_options::pause is below 0 or above a millisecond");
        if (options_.longest_wait <= options_.longest_wait.zero())
            fail(errc::invalid_argument, "resident_options::longest_wait must be above 0");
        if (!is_on_gpu()) return;
        if (options_.rows == 0 || options_.rows > kernels::most_resident_rows)
            fail(errc::invalid_argument, "resident_options::rows is " + std::to_string(options_.rows) + "; 1 to " +
                                             std::to_string(kernels::most_resident_rows) + " are possible");
        constexpr std::size_t possible[] = {0, 1, 4, 8, 16};
        if (std::ranges::find(possible, options_.blocks_of_lane) == std::end(possible))
            fail(errc::invalid_argument, "resident_options::blocks_of_lane is " +
                                             std::to_string(options_.blocks_of_lane) +
                                             "; 0, 1, 4, 8 and 16 are possible");
        if (on_.blocks_each_command())
            fail(errc::unsupported, "the runtime waits for each command (blocks_each_command), and this one stays");
        if (!options_.all_kernels_are_loaded && kernels::loads_kernels_lazily()) {
            fail(errc::unsupported,
                 "CUDA loads kernels lazily here: the first launch of a kernel would wait for this one, which stays. "
                 "Set "
                 "CUDA_MODULE_LOADING=EAGER in the environment, or launch each kernel before and set "
                 "resident_options::all_kernels_are_loaded");
        }
    }

    packed_mlp<T> pack(std::vector<mlp_layer> layers) {
        single_stream pool(on_);
        return sync(pack_mlp<T>(std::move(layers), location_), pool);  // and waits until the weights are there
    }

    void run_here(std::span<const T> inputs, std::span<T> outputs, std::size_t rows) {
        std::shared_ptr<packed_mlp<T>> packed;
        {
            const spin_guard lock(packed_lock_);
            packed = packed_;
        }
        constexpr kernels::fused_type type = kernels::fused_type_of<T>;
        kernels::fused_mlp_call call{inputs.data(), outputs.data(), packed->image().device_data(), rows, form_};
        thread_local std::vector<float> scratch;
        const std::size_t needed = kernels::fused_mlp_scratch_floats(rows, form_, type);
        if (scratch.size() < needed) scratch.resize(needed);
        call.scratch = scratch.data();
        kernels::fused_mlp_on_cpu(call, type);
    }

    kernels::resident_layout layout_that_fits() const {
        const std::uint32_t most = kernels::resident_shared_bytes(on_);
        const std::uint32_t most_blocks = kernels::most_blocks_of_lane(on_);
        std::uint32_t fewest_bytes = 0;
        for (const std::uint32_t blocks : {1u, 4u, 8u, 16u}) {
            if (blocks > most_blocks || (options_.blocks_of_lane != 0 && options_.blocks_of_lane != blocks)) continue;
            const auto made = kernels::plan_resident(layers_, blocks, static_cast<std::uint32_t>(options_.rows));
            if (made.shared_bytes <= most) return made;
            fewest_bytes = made.shared_bytes;
        }
        if (fewest_bytes == 0)
            fail(errc::unsupported,
                 "the GPU has no clusters of " + std::to_string(options_.blocks_of_lane) + " blocks");
        fail(errc::unsupported, "the network needs " + std::to_string(fewest_bytes) +
                                    " bytes of shared memory in each block of a lane; there are " +
                                    std::to_string(most));
    }

    tensor<std::byte> image_of(const std::vector<mlp_layer>& layers) {
        std::vector<std::byte> image = kernels::pack_resident<T>(layers, layout_);
        const std::size_t bytes = image.size();
        single_stream pool(on_);
        return sync(upload(std::move(image), {bytes}, location_), pool);
    }

    void start() {
        layout_ = layout_that_fits();
        const auto multiprocessors = static_cast<std::size_t>(on_.properties().compute_units);
        if (options_.lanes * layout_.blocks >= multiprocessors) {
            fail(errc::invalid_argument, std::to_string(options_.lanes) + " lanes of " +
                                             std::to_string(layout_.blocks) +
                                             " blocks take more multiprocessors than there are (" +
                                             std::to_string(multiprocessors) + ") less one for other work");
        }
        image_ = image_of(layers_);
        lease_.emplace(on_);
        memory_ = (*lease_)->allocate_host(kernels::resident_lanes::bytes(layout_, options_.lanes));
        boxes_.emplace(layout_, options_.lanes, memory_->data());
        boxes_->set_image(image_->device_data());
        locks_ = std::make_unique<lane_lock[]>(options_.lanes);
        sluice::detail::staying_works_of(on_).add(*this);
        try {
            launch();
        } catch (...) {
            sluice::detail::staying_works_of(on_).remove(*this);
            throw;
        }
        is_started_ = true;  // from here on close() ends it
        try {
            for (std::size_t i = 0; i < options_.lanes; ++i) {
                boxes_->ask_to_reload(i);
                wait_for_lane(i, nullptr, std::max<clock::duration>(longest_start, options_.longest_wait));
            }
        } catch (...) {
            close();
            throw;
        }
    }

    void launch() {
        const kernels::resident_call call = boxes_->call(static_cast<std::uint32_t>(options_.pause.count()));
        start_closure closure{&call, options_.lanes, std::same_as<T, bfloat16> ? 1U : 0U};
        const auto enqueue = [](const native_stream& on, const void* erased) {
            const auto& all = *static_cast<const start_closure*>(erased);
            kernels::start_resident(on, *all.call, all.is_bfloat16 != 0, static_cast<std::uint32_t>(all.lanes));
        };
        const memory_access accesses[] = {{image_->memory(), access_mode::read}, {memory_.get(), access_mode::write}};
        (*lease_)->library_call({"resident_network", accesses, location_},
                                sluice::detail::library_call_with(enqueue, closure));
    }

    void close() noexcept {
        if (!is_started_) return;
        is_started_ = false;
        end();
        try {
            (*lease_)->wait((*lease_)->issued(), wait_mode::spin);
        } catch (...) {  // NOLINT(bugprone-empty-catch): the device has faulted, and nothing runs there any more
        }
        sluice::detail::staying_works_of(on_).remove(*this);
        kernels::note_resident_end();
    }

    std::size_t any_lane() {
        const std::size_t lanes = options_.lanes;
        const std::size_t first = lanes == 1 ? 0 : std::hash<std::thread::id>{}(std::this_thread::get_id()) % lanes;
        for (unsigned looks = 1;; ++looks) {
            for (std::size_t i = 0; i < lanes; ++i) {
                const std::size_t which = (first + i) % lanes;
                if (!locks_[which].take()) continue;
                throw_if_failed_in(which);
                return which;
            }
            wait_for_lane(looks);
        }
    }
    void wait_for_lane(unsigned looks) {
        relax();
        if (looks % 64 == 0) std::this_thread::yield();
        if (looks % looks_before_check == 0) throw_if_lost();
    }
    void throw_if_failed_in(std::size_t lane) {
        try {
            throw_if_lost();
        } catch (...) {
            locks_[lane].is_taken.store(false, std::memory_order_release);
            throw;
        }
    }
    void throw_if_lost() {
        if (has_failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
        on_.throw_if_refusing();
    }

    // The calling thread has the lane. Not in a host call: there the driver must not be called.
    void wait_for_lane(std::size_t lane, std::uint16_t* outputs, clock::duration longest) {
        std::optional<clock::time_point> end;
        const bool may_call_driver = !on_.interpreter().is_own_thread();
        for (unsigned looks = 1; !boxes_->take(lane, outputs); ++looks) {
            relax();
            if (looks % looks_before_check != 0) continue;
            if (may_call_driver) (*lease_)->poll();  // finds a fault
            throw_if_lost();
            const clock::time_point now = clock::now();
            if (!end) end = now + longest;
            if (now < *end) continue;
            give_up(longest);
        }
    }

    // What the kernel does is not known any more, so every later call fails too.
    [[noreturn]] void give_up(clock::duration longest) {
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(longest);
        const std::lock_guard lock(failing_);
        if (!has_failed_.load(std::memory_order_relaxed)) {
            failure_ = std::make_exception_ptr(error(errc::timed_out,
                                                     "the network's kernel has not answered for " +
                                                         std::to_string(waited.count()) +
                                                         " ms; it is ended, and answers no more requests",
                                                     {"resident_network", on_.name(), location_}));
            has_failed_.store(true, std::memory_order_release);
            end();
        }
        std::rethrow_exception(failure_);
    }

    device& on_;
    const runtime_ref runtime_;
    const resident_options options_;
    const source_location location_;
    std::vector<mlp_layer> layers_;  // until they are on the device
    const sluice::detail::fused_mlp_form form_;

    std::mutex updating_;
    // On a CPU.
    sluice::detail::spin_lock packed_lock_;
    std::shared_ptr<packed_mlp<T>> packed_;
    // On a GPU.
    kernels::resident_layout layout_;
    std::optional<tensor<std::byte>> image_;           // that the kernel began with
    std::optional<tensor<std::byte>> later_image_;     // of the latest update
    std::optional<tensor<std::byte>> replaced_image_;  // of the update before, until no lane reads it
    std::optional<stream_lease> lease_;
    storage_ref memory_;
    std::optional<kernels::resident_lanes> boxes_;
    std::unique_ptr<lane_lock[]> locks_;
    bool is_started_ = false;
    std::mutex failing_;
    struct dropped_item final : work_item {
        explicit dropped_item(resident_state& whose) noexcept
            : work_item([](work_item& self) noexcept { delete &static_cast<dropped_item&>(self).of; }), of(whose) {}
        resident_state& of;
    } dropped_{*this};
    std::exception_ptr failure_;  // set before has_failed_, and not changed afterwards
    std::atomic<bool> has_failed_{false};
};

}  // namespace sluice::nn::detail

namespace sluice::nn {

template <detail::resident_element T>
resident_network<T>::resident_network(device& on, const mlp_model& model, const resident_options& options,
                                      source_location location)
    : state_(new detail::resident_state<T>(on, model, options, location), &detail::resident_state<T>::drop) {}

template <detail::resident_element T>
detail::resident_state<T>& resident_network<T>::held() const {
    if (state_ == nullptr) sluice::detail::refuse_moved_value("a resident network");
    return *state_;
}
template <detail::resident_element T>
std::size_t resident_network<T>::in_features() const noexcept {
    return state_->form().in_features;
}
template <detail::resident_element T>
std::size_t resident_network<T>::out_features() const noexcept {
    return state_->form().out_features;
}
template <detail::resident_element T>
std::size_t resident_network<T>::lanes() const noexcept {
    return state_->options().lanes;
}
template <detail::resident_element T>
std::size_t resident_network<T>::blocks_of_lane() const noexcept {
    return state_->blocks();
}
template <detail::resident_element T>
std::size_t resident_network<T>::free_multiprocessors() const noexcept {
    return static_cast<std::size_t>(state_->on().properties().compute_units) - multiprocessors();
}
template <detail::resident_element T>
void resident_network<T>::run(std::span<const T> inputs, std::span<T> outputs) const {
    held().run(inputs, outputs);
}
template <detail::resident_element T>
void resident_network<T>::update(const mlp_model& model) const {
    held().update(model);
}

template class resident_network<half>;
template class resident_network<bfloat16>;
template class resident_network<float>;

}  // namespace sluice::nn
