// SPDX-License-Identifier: Apache-2.0
#include "nn/images/stretch.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "kernels/channels_last/image_program.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::size_t most_programs = 64;

// A copy that commands of the device read: on a CPU device host memory is its memory.
any_tensor on_device(device& on, const void* from, std::size_t bytes) {
    constexpr std::align_val_t alignment{64};
    const std::shared_ptr<void> memory(::operator new(bytes, alignment),
                                       [](void* one) { ::operator delete(one, alignment); });
    std::memcpy(memory.get(), from, bytes);
    return adopt_tensor(on, io::dtype::u8, {bytes}, memory.get(), memory);
}

void run_on_host(const void* closure) { kernels::run_image_program(*static_cast<const kernels::image_call*>(closure)); }

}  // namespace

image_stretch::image_stretch(prepared_graph body, device& on)
    : body_(std::move(body)), on_(on), recipe_(recipe_of(body_)) {
    const std::vector<float>& numbers = recipe_.numbers.all();
    numbers_ = on_device(on, numbers.data(), numbers.size() * sizeof(float));
    recipe_.numbers = {};
}

std::shared_ptr<const image_stretch::program> image_stretch::program_for(const std::filesystem::path& path,
                                                                         std::span<const any_tensor> inputs) const {
    std::vector<operators::lengths> key;
    for (const any_tensor& each : inputs) {
        if (each.type() != io::dtype::f32) return nullptr;
        key.push_back(each.shape());
    }
    {
        const std::scoped_lock lock(mutex_);
        if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
    }
    std::shared_ptr<program> made;
    if (auto layout = layout_of(body_, recipe_, path, inputs)) {
        made = std::make_shared<program>();
        made->layout = std::move(*layout);
        const std::vector<kernels::image_step>& steps = made->layout.steps;
        made->steps = on_device(on_, steps.data(), steps.size() * sizeof(kernels::image_step));
    }
    const std::scoped_lock lock(mutex_);
    if (programs_.size() >= most_programs) programs_.clear();
    return programs_.emplace(std::move(key), std::move(made)).first->second;
}

std::optional<std::vector<any_tensor>> image_stretch::submit(const std::filesystem::path& path,
                                                             execution_context& context,
                                                             std::span<const any_tensor> inputs) const {
    const auto found = program_for(path, inputs);
    if (found == nullptr) return {};
    const stream on = context.stream();
    const storage_ref scratch =
        on.workspace(kernels::most_at_once(found->layout.images) * found->layout.scratch_floats * sizeof(float));
    std::vector<memory_access> accesses{{found->steps.memory(), access_mode::read},
                                        {numbers_.memory(), access_mode::read},
                                        {scratch.get(), access_mode::write}};
    kernels::image_call call{.steps = static_cast<const kernels::image_step*>(found->steps.memory()->data()),
                             .count = found->layout.steps.size(),
                             .numbers = static_cast<const float*>(numbers_.memory()->data()),
                             .scratch = static_cast<float*>(scratch->data()),
                             .images = found->layout.images,
                             .scratch_floats = found->layout.scratch_floats};
    std::size_t next = 0;
    for (const any_tensor& each : inputs) {
        accesses.push_back({each.memory(), access_mode::read});
        call.outside[next++] = static_cast<float*>(each.memory()->data());
    }
    std::vector<any_tensor> outputs;
    for (const any_tensor& each : found->layout.outputs) {
        outputs.push_back(each.with_memory(on.allocate(each.size_bytes(), {"convolutions"})));
        accesses.push_back({outputs.back().memory(), access_mode::write});
        call.outside[next++] = static_cast<float*>(outputs.back().memory()->data());
    }
    launch_command command;
    command.host_function = &run_on_host;
    sluice::detail::set_closure(command, call);
    on.launch({"convolutions", accesses, {}}, command);
    return outputs;
}

}  // namespace sluice::nn::detail
