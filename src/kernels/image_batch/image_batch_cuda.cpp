// SPDX-License-Identifier: Apache-2.0
// Image batches on a GPU: for each convolution the candidates of cuBLASLt and cuDNN, each timed inside a graph, so that
// the host's time does not count.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cuda/api/graph.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "cuda/fused_convolutions.hpp"
#include "cuda/pixel_products.hpp"
#include "kernels/image_batch/image_batch.hpp"
#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/base/error.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

namespace api = cuda::api;
using cuda::fused_convolution;
using cuda::fused_convolutions;
using cuda::pixel_product;
using cuda::pixel_products;

constexpr std::size_t most_products = 8, most_convolutions = 10;
// Of one plan: then the libraries' first proposals are taken for what is left.
constexpr double most_seconds_of_trials = 20;
const error_context context{"convolutions"};

using clock = std::chrono::steady_clock;
double seconds(clock::duration of) { return std::chrono::duration<double>(of).count(); }

// --- kernels -----------------------------------------------------------------------------------------------------

// The kernels' handles, as the driver knows them.
class kernel_handles {
public:
    explicit kernel_handles(cuda::device_context&) {}

    CUfunc_st* find(const launch_command& command) {
        const std::lock_guard lock(mutex_);
        CUfunc_st*& kernel = known_[command.device_function];
        if (kernel == nullptr) kernel = api::find_kernel(command.device_function, context);
        return kernel;
    }

private:
    std::mutex mutex_;
    std::map<const void*, CUfunc_st*> known_;
};

// --- ways --------------------------------------------------------------------------------------------------------

// How a step is carried out.
struct way {
    std::shared_ptr<const pixel_products::plan> product = {};
    std::shared_ptr<const fused_convolutions::plan> convolution = {};
    std::optional<convolution_tile> tile = {};
    bool ends_apart = false;  // bias, addend and bounds by a kernel of ours
    double microseconds = 0;  // as measured; 0 where nothing was

    std::string text() const {
        std::string made = "kernel";
        if (tile) made = "tiles of " + std::to_string(tile->pixels) + " x " + std::to_string(tile->filters);
        if (product != nullptr) made = "cuBLASLt";
        if (convolution != nullptr) made = fused_convolutions::text(*convolution);
        if (ends_apart) made += ", then a kernel";
        return made;
    }
};

bool has_relu(const image_step& step) {
    return step.has_bounds && step.least == 0 && step.most == std::numeric_limits<float>::infinity();
}

// The bytes at multiples of which all the elements of a value's pixels begin.
std::size_t alignment_of(const image_step& step) {
    std::size_t common = 8;
    const auto note = [&](const image_place& place) {
        for (const std::size_t each : {place.first, place.image, place.row, place.pixel})
            while (each % common != 0) common /= 2;
    };
    note(step.from);
    note(step.to);
    if (step.has_also) note(step.also);
    return common * short_bytes;
}

bool is_by_pixel(const image_step& step) {
    const image_window& window = step.window;
    const size_2d one{1, 1}, no{0, 0};
    return window.size == one && window.stride == one && window.before == no && window.after == no && step.groups == 1;
}
// Whether the rows of all images follow each other.
bool is_dense(const image_place& place, const image_size& size, std::size_t images) {
    return place.row == size.width * place.pixel && (images == 1 || place.image == size.height * place.row);
}

std::optional<pixel_product> product_of(const image_step& step, std::size_t images, short_type type) {
    const filter_form filter = filter_form_of(step);
    if (!is_by_pixel(step) || filter.channels != step.in.channels || filter.filters != step.out.channels) return {};
    if (!is_dense(step.from, step.in, images) || !is_dense(step.to, step.out, images)) return {};
    if (step.has_also && !is_dense(step.also, step.out, images)) return {};
    return pixel_product{.is_bf16 = type == short_type::bf16,
                         .rows = images * step.out.height * step.out.width,
                         .inner = step.in.channels,
                         .columns = step.out.channels,
                         .x_pixel = step.from.pixel,
                         .addend_pixel = step.has_also ? step.also.pixel : 0,
                         .out_pixel = step.to.pixel,
                         .alignment = alignment_of(step),
                         .has_addend = step.has_also,
                         .has_relu = has_relu(step)};
}

std::optional<fused_convolution> convolution_of(const image_step& step, std::size_t images, short_type type,
                                                bool has_end) {
    const filter_form filter = filter_form_of(step);
    if (filter.channels * step.groups != step.in.channels || filter.filters != step.out.channels) return {};
    const auto count = [](std::size_t each) { return static_cast<std::int64_t>(each); };
    const auto steps = [&](const image_place& place) {
        return cuda::image_steps{count(place.image), count(place.row), count(place.pixel)};
    };
    const image_window& window = step.window;
    fused_convolution made;
    made.is_bf16 = type == short_type::bf16;
    made.images = count(images);
    made.channels = count(step.in.channels);
    made.height = count(step.in.height);
    made.width = count(step.in.width);
    made.filters = count(step.out.channels);
    made.filter_channels = count(filter.channels);
    made.filter_height = count(window.size.height);
    made.filter_width = count(window.size.width);
    made.out_height = count(step.out.height);
    made.out_width = count(step.out.width);
    const auto pair = [&](std::int64_t(&to)[2], const size_2d& from) {
        to[0] = count(from.height);
        to[1] = count(from.width);
    };
    pair(made.stride, window.stride);
    pair(made.dilation, window.dilation);
    pair(made.before, window.before);
    pair(made.after, window.after);
    made.x = steps(step.from);
    made.out = steps(step.to);
    made.alignment = count(alignment_of(step));
    if (!has_end) return made;
    made.has_bias = true;
    made.has_addend = step.has_also;
    if (step.has_also) made.addend = steps(step.also);
    made.has_relu = has_relu(step);
    return made;
}

// What of two steps must be the same, so that they are carried out in the same way.
using step_key = std::pair<std::optional<pixel_product>, std::optional<fused_convolution>>;

// A GPU's libraries for image batches.
struct batch_libraries {
    explicit batch_libraries(cuda::device_context& of) : products(of), convolutions(of) {}

    pixel_products products;
    fused_convolutions convolutions;
};

// --- running -----------------------------------------------------------------------------------------------------

class step_run {
public:
    step_run(const batch_call& call, void* workspace, batch_libraries& libraries, kernel_handles& kernels,
             CUstream_st* on)
        : call_(call), workspace_(workspace), libraries_(libraries), kernels_(kernels), on_(on) {}

    void operator()(const image_step& step, const way& by) const {
        batch_closure closure;
        if (by.tile) return launch(batch_convolution_command(call_, step, *by.tile, closure));
        if (by.product == nullptr && by.convolution == nullptr) return launch(batch_command(call_, step, closure));
        const std::byte* const filter = call_.numbers + step.numbers;
        const void *const bias = filter + filter_form_of(step).bias, *const addend =
                                                                         step.has_also ? at(step.also) : nullptr;
        if (by.product != nullptr) {
            libraries_.products.run(*by.product, {at(step.from), filter, bias, addend, at(step.to)}, workspace_, on_);
        } else {
            libraries_.convolutions.run(*by.convolution, {at(step.from), filter, bias, addend, at(step.to)}, workspace_,
                                        on_);
        }
        if (by.ends_apart) return launch(batch_end_command(call_, step, closure));
        if (step.has_bounds && !has_relu(step)) launch(batch_bounds_command(call_, step, closure));
    }

private:
    std::byte* at(const image_place& place) const { return call_.scratch + place.first * short_bytes; }

    void launch(const launch_command& command) const {
        if (command.grid.x != 0) api::launch(kernels_.find(command), command, on_, context);
    }

    const batch_call& call_;
    void* const workspace_;
    batch_libraries& libraries_;
    kernel_handles& kernels_;
    CUstream_st* const on_;
};

// --- choosing ----------------------------------------------------------------------------------------------------

// Memory of the device for trials; null when there is not enough.
struct trial_memory {
    std::byte* data;

    explicit trial_memory(std::size_t bytes) : data(static_cast<std::byte*>(api::allocate_device(bytes))) {}
    trial_memory(const trial_memory&) = delete;  // it owns memory
    trial_memory& operator=(const trial_memory&) = delete;
    ~trial_memory() {
        if (data != nullptr) api::free_device(data);
    }
};

class trial {
public:
    trial(batch_libraries& libraries, kernel_handles& kernels)
        : libraries_(libraries),
          kernels_(kernels),
          stream_(api::create_stream(0)),
          from_(api::create_event(api::event_use::timing)),
          to_(api::create_event(api::event_use::timing)) {}

    // Sets the time of the step; false where the way does not work.
    bool measure(const batch_call& call, const image_step& step, way& by, void* workspace) const {
        constexpr int calls = 8, rounds = 3;
        try {
            const step_run run(call, workspace, libraries_, kernels_, stream_.get());
            run(step, by);  // loads what has to be loaded
            api::synchronize(stream_.get());
            const api::graph_handle graph = api::create_graph();
            static_cast<void>(api::capture(
                graph.get(), {}, stream_.get(),
                [&] {
                    for (int i = 0; i < calls; ++i) run(step, by);
                },
                context));
            const api::graph_exec_handle exec = api::instantiate(graph.get(), false, context);
            api::launch(exec.get(), stream_.get(), context);
            by.microseconds = std::numeric_limits<double>::infinity();
            for (int i = 0; i < rounds; ++i) {
                api::record(from_.get(), stream_.get());
                api::launch(exec.get(), stream_.get(), context);
                api::record(to_.get(), stream_.get());
                api::synchronize(to_.get());
                const double took = 1e3 * static_cast<double>(api::elapsed_milliseconds(from_.get(), to_.get()));
                by.microseconds = std::min(by.microseconds, took / calls);
            }
            return true;
        } catch (const device_error&) {
            return false;
        }
    }

private:
    batch_libraries& libraries_;
    kernel_handles& kernels_;
    api::stream_handle stream_;
    api::event_handle from_, to_;
};

}  // namespace

struct batch_plan::state {
    cuda::device_context& gpu;
    batch_libraries& libraries;
    kernel_handles& kernels;
    std::vector<image_step> steps;
    std::vector<way> ways;  // of the steps
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

    std::vector<way> candidates(const step_key& key, const image_step& step) const {
        const std::size_t products = is_late() ? 1 : most_products, convolutions = is_late() ? 1 : most_convolutions;
        std::vector<way> found;
        // More work than this is better done by the libraries.
        constexpr double most_tiled = 4e9;
        const double work = 2.0 * static_cast<double>(images * step.out.elements() * step.window.size.height *
                                                      step.window.size.width * step.in.channels);
        if (work < most_tiled && !is_late()) {
            for (const convolution_tile& each : convolution_tiles_for(step)) {
                found.emplace_back();
                found.back().tile = each;
            }
        }
        if (key.first) {
            for (auto& each : libraries.products.plans(*key.first, products)) {
                found.emplace_back();
                found.back().product = std::move(each);
            }
        }
        if (!key.second || (is_late() && !found.empty())) return found;
        const std::size_t others = found.size();
        for (auto& each : libraries.convolutions.plans(*key.second, convolutions)) {
            found.emplace_back();
            found.back().convolution = std::move(each);
        }
        if (found.size() != others || key.first) return found;
        for (auto& each : libraries.convolutions.plans(*convolution_of(step, images, type, false), convolutions)) {
            found.emplace_back();
            found.back().convolution = std::move(each);
            found.back().ends_apart = true;
        }
        return found;
    }

    std::size_t workspace_of(const way& by) const {
        if (by.product != nullptr) return pixel_products::workspace_bytes;
        return by.convolution != nullptr ? fused_convolutions::workspace_bytes(*by.convolution) : 0;
    }

    // The fastest, or a library's where there is no memory or time for a trial.
    way best_of(std::vector<way> all, const image_step& step, const trial& trials, const batch_call& call) const {
        if (all.empty()) return {};
        if (call.scratch == nullptr || is_late()) {
            const auto found = std::ranges::find_if(all, [](const way& each) { return !each.tile; });
            return found != all.end() ? *found : all.front();
        }
        std::optional<way> best;
        for (way& each : all) {
            if (!trials.measure(call, step, each, call.scratch + workspace_at)) continue;
            if (!best || each.microseconds < best->microseconds) best = each;
        }
        return best.value_or(way{});
    }

    void choose() {
        const api::no_staying_kernel none_stays("try algorithms for convolutions", context);
        const api::device_scope scope(gpu.ordinal());
        const trial trials(libraries, kernels);
        const trial_memory memory(workspace_at + fused_convolutions::most_workspace_bytes);
        const batch_call call{.steps = steps.data(),
                              .count = steps.size(),
                              .numbers = numbers,
                              .scratch = memory.data,
                              .images = images,
                              .type = type};
        std::map<step_key, way> known;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            if (steps[i].what != image_work::convolve) continue;
            const step_key key{product_of(steps[i], images, type), convolution_of(steps[i], images, type, true)};
            auto found = known.find(key);
            if (found == known.end()) {
                const auto begin = clock::now();
                std::vector<way> all = candidates(key, steps[i]);
                const auto between = clock::now();
                found = known.emplace(key, best_of(std::move(all), steps[i], trials, call)).first;
                finding += between - begin;
                trying += clock::now() - between;
            }
            ways[i] = found->second;
            workspace_bytes = std::max(workspace_bytes, workspace_of(ways[i]));
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
    static constexpr const char* names[] = {
        "enter", "leave", "convolve", "convolve_channels", "maximum", "average", "scale", "add", "copy", "shuffle"};
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
