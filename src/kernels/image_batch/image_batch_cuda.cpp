// SPDX-License-Identifier: Apache-2.0
// The plan of an image batch on a GPU: which way each convolution takes. Chosen
// by trial.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "cuda/early_starts.hpp"
#include "kernels/image_batch/image_batch.hpp"
#include "kernels/image_batch/image_batch_run.hpp"
#include "kernels/image_batch/image_batch_trial.hpp"
#include "kernels/image_batch/image_batch_ways.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

// Of one plan: then the libraries' first proposals are taken for what is left.
constexpr double most_seconds_of_trials = 20;

using clock = std::chrono::steady_clock;
double seconds(clock::duration of) { return std::chrono::duration<double>(of).count(); }

}  // namespace

struct batch_plan::state {
    cuda::device_context& gpu;
    batch_libraries& libraries;
    kernel_handles& kernels;
    std::vector<image_step> steps;
    std::vector<convolution_way> ways;  // of the steps
    std::size_t images, workspace_at, workspace_bytes = 0;
    short_type type;
    bool starts_early;
    const std::byte* numbers;
    clock::duration finding{}, trying{};

    state(device& on, std::vector<image_step> of, std::size_t count, std::size_t scratch_elements, short_type what,
          const std::byte* from)
        : gpu(cuda::device_context::of(on)),
          libraries(gpu.kept<batch_libraries>()),
          kernels(gpu.kept<kernel_handles>()),
          steps(std::move(of)),
          ways(steps.size()),
          images(count),
          workspace_at((scratch_elements * short_bytes + 255) / 256 * 256),
          type(what),
          starts_early(cuda::can_start_early(on)),
          numbers(from) {}

    bool is_late() const { return seconds(finding + trying) > most_seconds_of_trials; }

    // The fastest, or a library's where there is no memory or time for a trial.
    // The kernel for any step where no other way is possible or works. `apart`:
    // the time of the multiplication before the step, where it is not carried out
    // with it.
    convolution_way best_of(std::vector<convolution_way> all, const image_step& step, const convolution_trial& trials,
                            const batch_call& call, double apart) const {
        if (all.empty()) return {};
        if (call.scratch == nullptr || is_late()) {
            const auto found = std::ranges::find_if(all, [](const convolution_way& each) { return !each.tile; });
            return found != all.end() ? *found : all.front();
        }
        std::optional<convolution_way> best;
        for (convolution_way& each : all) {
            if (!trials.measure(call, step, each, call.scratch + workspace_at)) continue;
            if (!each.is_gated) each.microseconds += apart;
            if (!best || each.microseconds < best->microseconds) best = each;
        }
        return best.value_or(convolution_way{});
    }

    void choose() {
        const cuda::api::no_staying_kernel none_stays("try algorithms for convolutions", image_batch_context);
        const cuda::api::device_scope scope(gpu.ordinal());
        const convolution_trial trials(libraries, kernels, starts_early);
        const trial_memory memory(workspace_at + cuda::fused_convolutions::most_workspace_bytes);
        const batch_call call{.steps = steps.data(),
                              .count = steps.size(),
                              .numbers = numbers,
                              .scratch = memory.data,
                              .images = images,
                              .type = type};
        std::map<step_key, convolution_way> known;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            if (join(i, trials, call)) continue;
            const bool is_transposed = steps[i].what == image_work::convolve_transposed;
            if (steps[i].what != image_work::convolve && !is_transposed) continue;
            const bool has_gate = i > 0 && !ways[i - 1].is_done && can_be_gated(steps[i - 1], steps[i]);
            const step_key key = key_of(steps[i], images, type, has_gate);
            // Keys are of what libraries do, which transposed convolutions are not: these share nothing.
            const auto found = known.find(key);
            if (!is_transposed && found != known.end()) {
                ways[i] = found->second;
            } else {
                const auto begin = clock::now();
                std::vector<convolution_way> all = ways_of(key, steps[i], images, type, libraries, is_late());
                const auto between = clock::now();
                const double apart = has_gate ? time_of_gate(i - 1, trials, call) : 0;
                ways[i] = best_of(std::move(all), steps[i], trials, call, apart);
                if (!is_transposed) known.emplace(key, ways[i]);
                finding += between - begin;
                trying += clock::now() - between;
            }
            if (ways[i].is_gated) ways[i - 1].is_done = true;
            workspace_bytes = std::max(workspace_bytes, ways[i].workspace_bytes());
        }
    }

    // The times of the steps for which there was no choice: for text().
    void measure_others() {
        const cuda::api::no_staying_kernel none_stays("measure steps", image_batch_context);
        const cuda::api::device_scope scope(gpu.ordinal());
        const convolution_trial trials(libraries, kernels, starts_early);
        const trial_memory memory(workspace_at + std::max<std::size_t>(workspace_bytes, 1));
        const batch_call call{.steps = steps.data(),
                              .count = steps.size(),
                              .numbers = numbers,
                              .scratch = memory.data,
                              .images = images,
                              .type = type};
        for (std::size_t i = 0; i < steps.size() && memory.data != nullptr; ++i) {
            // (No outside tensor is known here.)
            const bool is_outside = steps[i].what == image_work::enter || steps[i].what == image_work::leave;
            if (ways[i].microseconds == 0 && !ways[i].is_done && !is_outside)
                static_cast<void>(trials.measure(call, steps[i], ways[i], call.scratch + workspace_at));
        }
    }
    // Whether a kernel carries out this step with others. With how many blocks is tried.
    bool join(std::size_t at, const convolution_trial& trials, const batch_call& call) {
        if (ways[at].is_done) return true;
        const std::size_t joined = squeezed_steps(&steps[at], steps.size() - at);
        if (joined == 0) return false;
        convolution_way by;
        by.joined = joined;
        if (starts_early && call.scratch != nullptr && !is_late()) {  // (the same GPUs have clusters)
            convolution_way cluster = by;
            cluster.blocks = blocks_of_cluster;
            const bool works = trials.measure(call, steps[at], by, call.scratch + workspace_at);
            if (trials.measure(call, steps[at], cluster, call.scratch + workspace_at) &&
                (!works || cluster.microseconds < by.microseconds))
                by = cluster;
        }
        ways[at] = by;
        for (std::size_t i = 1; i < joined; ++i) ways[at + i].is_done = true;
        return true;
    }
    // Of a multiplication by a kernel of its own; 0 where there is no trial.
    double time_of_gate(std::size_t at, const convolution_trial& trials, const batch_call& call) const {
        convolution_way alone;
        if (call.scratch == nullptr || is_late()) return 0;
        return trials.measure(call, steps[at], alone, call.scratch + workspace_at) ? alone.microseconds : 0;
    }
};

batch_plan::batch_plan(device& on, std::vector<image_step> steps, std::size_t images, std::size_t scratch_elements,
                       short_type type, const std::byte* numbers)
    : state_(std::make_unique<state>(on, std::move(steps), images, scratch_elements, type, numbers)) {
    state_->choose();
}

batch_plan::~batch_plan() = default;

std::size_t batch_plan::scratch_bytes() const noexcept {
    return state_->workspace_at + std::max<std::size_t>(state_->workspace_bytes, 1);
}

void batch_plan::run(const batch_call& call, const native_stream& on) const {
    batch_call own = call;
    own.steps = state_->steps.data();  // ways are of these
    const step_run run(own, call.scratch + state_->workspace_at, state_->libraries, state_->kernels,
                       static_cast<CUstream_st*>(on.handle));
    for (std::size_t i = 0; i < state_->steps.size(); ++i) run(state_->steps[i], state_->ways[i]);
}

std::string batch_plan::text() const {
    state_->measure_others();
    static constexpr const char* names[] = {"enter",
                                            "leave",
                                            "convolve",
                                            "convolve_channels",
                                            "convolve_transposed",
                                            "maximum",
                                            "average",
                                            "scale",
                                            "add",
                                            "multiply",
                                            "copy",
                                            "shuffle",
                                            "resample"};
    std::string made = "algorithms found in " + std::to_string(seconds(state_->finding)) + " s, tried in " +
                       std::to_string(seconds(state_->trying)) + " s\n";
    for (std::size_t i = 0; i < state_->steps.size(); ++i) {
        const image_step& step = state_->steps[i];
        const auto size = [](const image_size& of) {
            return std::to_string(of.channels) + " x " + std::to_string(of.height) + " x " + std::to_string(of.width);
        };
        made += std::string(names[static_cast<std::size_t>(step.what)]) + " " + size(step.in) + " to " +
                size(step.out) + ", window " + std::to_string(step.window.size.height) + " x " +
                std::to_string(step.window.size.width) + ": " + state_->ways[i].text();
        if (state_->ways[i].microseconds != 0) made += ", " + std::to_string(state_->ways[i].microseconds) + " us";
        made += '\n';
    }
    return made;
}

bool has_image_batches(device& on) {
    if (on.kind() != device_kind::cuda || on.properties().compute_capability < 80) return false;
    return cuda::device_context::of(on).kept<batch_libraries>().convolutions.is_installed();
}

}  // namespace sluice::kernels
