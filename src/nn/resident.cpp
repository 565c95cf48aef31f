// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/resident.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "kernels/resident/resident_lanes.hpp"
#include "kernels/resident/resident_mlp.hpp"
#include "kernels/resident/resident_plan.hpp"
#include "kernels/resident/staying_kernel.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/nn/to_layers.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using sluice::detail::spin_guard;

bool is_same_form(const sluice::detail::fused_mlp_form& a, const sluice::detail::fused_mlp_form& b) noexcept {
    return a.layers == b.layers && std::ranges::equal(a.features, b.features) && std::ranges::equal(a.after, b.after);
}

}  // namespace

// What the handles share: on a GPU the boxes and the kernel, on a CPU the packed weights.
template <resident_element T>
class resident_state final {
public:
    resident_state(device& on, const model& from, const resident_options& options, const source_location& location)
        : on_(on),
          options_(options),
          location_(location),
          layers_(to_layers(from)),
          form_(sluice::detail::check_fused_mlp(layers_, location)),
          kernel_(on,
                  {"resident_network", "resident_options", options.lanes, options.pause, options.all_kernels_are_loaded,
                   options.longest_wait},
                  location) {
        check_options();
        if (is_on_gpu())
            start();
        else
            packed_ = std::make_shared<packed_mlp<T>>(pack(layers_));
        layers_ = {};
    }
    ~resident_state() { kernel_.close(); }
    resident_state(const resident_state&) = delete;  // what it dropped points to it
    resident_state& operator=(const resident_state&) = delete;

    const sluice::detail::fused_mlp_form& form() const noexcept { return form_; }
    const resident_options& options() const noexcept { return options_; }
    std::size_t blocks() const noexcept { return layout_.blocks; }
    const device& on() const noexcept { return on_; }

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
        if (rows > options_.rows) {
            fail(errc::invalid_argument, std::to_string(rows) + " rows in a request; resident_options::rows says " +
                                             std::to_string(options_.rows));
        }
        const lane_guard lane(*this);
        // (The boxes only copy: a float counts as two elements of 16 bits.)
        boxes_->ask(lane.number, reinterpret_cast<const std::uint16_t*>(inputs.data()),
                    static_cast<std::uint32_t>(rows));
        wait_for_lane(lane.number, reinterpret_cast<std::uint16_t*>(outputs.data()), options_.longest_wait);
    }

    void update(const model& from) {
        const std::vector<mlp_layer> layers = to_layers(from);
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
        kernel_.throw_if_lost();
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

    // The last handle is dropped.
    static void drop(resident_state* state) noexcept { state->drop_.drop(state->kernel_); }

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

    bool is_on_gpu() const noexcept { return kernel_.is_on_gpu(); }
    [[noreturn]] void fail(errc code, const std::string& why) const { kernel_.fail(code, why); }

    void check_options() const {
        if (!is_on_gpu()) return;
        if (options_.rows == 0 || options_.rows > kernels::most_resident_rows)
            fail(errc::invalid_argument, "resident_options::rows is " + std::to_string(options_.rows) + "; 1 to " +
                                             std::to_string(kernels::most_resident_rows) + " are possible");
        constexpr std::size_t possible[] = {0, 1, 4, 8, 16};
        if (std::ranges::find(possible, options_.blocks_of_lane) == std::end(possible))
            fail(errc::invalid_argument, "resident_options::blocks_of_lane is " +
                                             std::to_string(options_.blocks_of_lane) +
                                             "; 0, 1, 4, 8 and 16 are possible");
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
        const std::uint32_t most_blocks = std::same_as<T, float> ? 1 : kernels::most_blocks_of_lane(on_);
        std::uint32_t fewest_bytes = 0;
        for (const std::uint32_t blocks : {1u, 4u, 8u, 16u}) {
            // 16 answer sooner than 8 (bench/notes/resident.md).
            if (blocks > most_blocks ||
                (options_.blocks_of_lane == 0 ? blocks == 8 : options_.blocks_of_lane != blocks))
                continue;
            const auto rows = static_cast<std::uint32_t>(options_.rows);
            const auto made = std::same_as<T, float> ? kernels::plan_resident_f32(layers_, rows)
                                                     : kernels::plan_resident(layers_, blocks, rows);
            if (made.shared_bytes <= most) return made;
            fewest_bytes = made.shared_bytes;
        }
        if (fewest_bytes == 0)
            fail(errc::unsupported,
                 (std::same_as<T, float> ? "a lane of f32 has one block, not " : "the GPU has no clusters of ") +
                     std::to_string(options_.blocks_of_lane) + (std::same_as<T, float> ? "" : " blocks"));
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
        kernel_.require_multiprocessors(layout_.blocks, 0);
        image_ = image_of(layers_);
        boxes_.emplace(layout_, options_.lanes,
                       kernel_.allocate(kernels::resident_lanes::bytes(layout_, options_.lanes)));
        boxes_->set_image(image_->device_data());
        locks_ = std::make_unique<lane_lock[]>(options_.lanes);
        const kernels::resident_call call =
            boxes_->call(static_cast<std::uint32_t>(options_.pause.count()), kernel_.stop_word());
        const auto launch = [&](const native_stream& on) {
            kernels::start_resident(on, call, kernels::fused_type_of<T>, static_cast<std::uint32_t>(options_.lanes));
        };
        kernel_.start(launch, image_->memory(), [&] {
            for (std::size_t i = 0; i < options_.lanes; ++i) {
                boxes_->ask_to_reload(i);
                wait_for_lane(i, nullptr, kernel_.first_wait());
            }
        });
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
        kernels::relax();
        if (looks % 64 == 0) std::this_thread::yield();
        if (looks % kernels::staying_kernel::looks_before_check == 0) kernel_.throw_if_lost();
    }
    void throw_if_failed_in(std::size_t lane) {
        try {
            kernel_.throw_if_lost();
        } catch (...) {
            locks_[lane].is_taken.store(false, std::memory_order_release);
            throw;
        }
    }
    // The calling thread has the lane.
    void wait_for_lane(std::size_t lane, std::uint16_t* outputs, kernels::staying_kernel::clock::duration longest) {
        kernel_.wait_until([&] { return boxes_->take(lane, outputs); }, longest);
    }

    device& on_;
    const resident_options options_;
    const source_location location_;
    std::vector<mlp_layer> layers_;  // until they are on the device
    const sluice::detail::fused_mlp_form form_;
    kernels::staying_kernel kernel_;

    std::mutex updating_;
    // On a CPU.
    sluice::detail::spin_lock packed_lock_;
    std::shared_ptr<packed_mlp<T>> packed_;
    // On a GPU.
    kernels::resident_layout layout_;
    std::optional<tensor<std::byte>> image_;           // that the kernel began with
    std::optional<tensor<std::byte>> later_image_;     // of the latest update
    std::optional<tensor<std::byte>> replaced_image_;  // of the update before, until no lane reads it
    std::optional<kernels::resident_lanes> boxes_;
    std::unique_ptr<lane_lock[]> locks_;
    kernels::staying_owner_drop<resident_state> drop_{*this};
};

}  // namespace sluice::nn::detail

namespace sluice::nn {

template <detail::resident_element T>
resident_network<T>::resident_network(device& on, const model& from, const resident_options& options,
                                      source_location location)
    : state_(new detail::resident_state<T>(on, from, options, location), &detail::resident_state<T>::drop) {}

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
void resident_network<T>::update(const model& from) const {
    held().update(from);
}

template class resident_network<half>;
template class resident_network<bfloat16>;
template class resident_network<float>;

}  // namespace sluice::nn
