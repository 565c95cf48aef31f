// SPDX-License-Identifier: Apache-2.0
// The plan of an image batch on a GPU: which way each convolution takes. Chosen by trial.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
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
          numbers(from) {}

    bool is_late() const { return seconds(finding + trying) > most_seconds_of_trials; }

    // The fastest, or a library's where there is no memory or time for a trial. The kernel for any step where no other
    // way is possible or works.
    convolution_way best_of(std::vector<convolution_way> all, const image_step& step, const convolution_trial& trials,
                            const batch_call& call) const {
        if (all.empty()) return {};
        if (call.scratch == nullptr || is_late()) {
            const auto found = std::ranges::find_if(all, [](const convolution_way& each) { return !each.tile; });
            return found != all.end() ? *found : all.front();
        }
        std::optional<convolution_way> best;
        for (convolution_way& each : all) {
            if (!trials.measure(call, step, each, call.scratch + workspace_at)) continue;
            if (!best || each.microseconds < best->microseconds) best = each;
        }
        return best.value_or(convolution_way{});
    }

    void choose() {
        const cuda::api::no_staying_kernel none_stays("try algorithms for convolutions", image_batch_context);
        const cuda::api::device_scope scope(gpu.ordinal());
        const convolution_trial trials(libraries, kernels);
        const trial_memory memory(workspace_at + cuda::fused_convolutions::most_workspace_bytes);
        const batch_call call{.steps = steps.data(),
                              .count = steps.size(),
                              .numbers = numbers,
                              .scratch = memory.data,
                              .images = images,
                              .type = type};
        std::map<step_key, convolution_way> known;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            if (steps[i].what != image_work::convolve) continue;
            const step_key key = key_of(steps[i], images, type);
            auto found = known.find(key);
            if (found == known.end()) {
                const auto begin = clock::now();
                std::vector<convolution_way> all = ways_of(key, steps[i], images, type, libraries, is_late());
                const auto between = clock::now();
                found = known.emplace(key, best_of(std::move(all), steps[i], trials, call)).first;
                finding += between - begin;
                trying += clock::now() - between;
            }
            ways[i] = found->second;
            workspace_bytes = std::max(workspace_bytes, ways[i].workspace_bytes());
        }
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
    const step_run run(call, call.scratch + state_->workspace_at, state_->libraries, state_->kernels,
                       static_cast<CUstream_st*>(on.handle));
    for (std::size_t i = 0; i < state_->steps.size(); ++i) run(state_->steps[i], state_->ways[i]);
}

std::string batch_plan::text() const {
    static constexpr const char* names[] = {"enter",    "leave",   "convolve", "convolve_channels",
                                            "maximum",  "average", "scale",    "add",
                                            "multiply", "copy",    "shuffle"};
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
