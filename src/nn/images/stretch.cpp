// SPDX-License-Identifier: Apache-2.0
#include "nn/images/stretch.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "kernels/channels_last/image_extents.hpp"
#include "kernels/channels_last/image_program.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

class cpu_numbers final : public number_packer {
public:
    std::size_t add_filters(const std::vector<float>& filters, const std::vector<float>& addends, std::size_t& groups,
                            std::size_t channels_of_group, const size_2d& window, std::size_t) override {
        return to_.add_filters(filters.data(), addends.data(), addends.size(), groups, channels_of_group, window);
    }
    // No recipe for a CPU has such convolutions.
    std::size_t add_transposed_filters(const std::vector<float>&, const std::vector<float>&, const size_2d&,
                                       const size_2d&) override {
        throw error(errc::unsupported, "transposed convolutions are no part of a stretch on a CPU", {"convolutions"});
    }
    std::size_t add_channel_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                    const size_2d& window) override {
        return to_.add_channel_filters(filters.data(), addends.data(), addends.size(), window);
    }
    std::size_t add_factors(const std::vector<float>& factors, const std::vector<float>& addends) override {
        return to_.add_factors(factors, addends);
    }

    bool can_shuffle(std::size_t, std::size_t, std::size_t) const override { return false; }

    const std::vector<float>& all() const noexcept { return to_.all(); }

private:
    kernels::image_numbers to_;
};

void run_on_host(const void* closure) { kernels::run_image_program(*static_cast<const kernels::image_call*>(closure)); }

}  // namespace

any_tensor bytes_on_device(device& on, const void* from, std::size_t bytes) {
    constexpr std::align_val_t alignment{64};
    const std::size_t most = std::max<std::size_t>(bytes, 1);
    const std::shared_ptr<void> memory(::operator new(most, alignment),
                                       [](void* one) { ::operator delete(one, alignment); });
    if (bytes != 0) std::memcpy(memory.get(), from, bytes);
    return adopt_tensor(on, io::dtype::u8, {most}, memory.get(), memory);
}

cpu_image_stretch::cpu_image_stretch(prepared_graph steps, device& on) : image_stretch(std::move(steps)), on_(on) {
    cpu_numbers numbers;
    recipe_ = recipe_of(body(), numbers, image_style::one_by_one);
    numbers_ = bytes_on_device(on, numbers.all().data(), numbers.all().size() * sizeof(float));
}

auto cpu_image_stretch::make_program(const std::filesystem::path& path, std::span<const any_tensor> inputs) const
    -> std::shared_ptr<const program> {
    auto layout = layout_of(body(), recipe_, path, inputs);
    if (!layout) return nullptr;
    auto made = std::make_shared<program>();
    made->layout = std::move(*layout);
    const std::vector<kernels::image_step>& steps = made->layout.steps;
    made->steps = bytes_on_device(on_, steps.data(), steps.size() * sizeof(kernels::image_step));
    if (made->layout.images > 1) made->tail = kernels::tail_of(steps);
    if (!kernels::stays_within(steps, made->tail, made->layout.scratch_elements)) {
        throw error(
            errc::unsupported,
            "the layout of this stretch of convolutions exceeds its memory: a defect of Sluice, please report it "
            "with the network",
            {.operation = "convolutions"});
    }
    return made;
}

std::optional<std::vector<any_tensor>> cpu_image_stretch::submit(const std::filesystem::path& path,
                                                                 execution_context& context,
                                                                 std::span<const any_tensor> inputs) const {
    if (!are_f32(inputs)) return {};
    const auto found = programs_.find(inputs, [&] { return make_program(path, inputs); });
    if (found == nullptr) return {};
    const stream on = context.stream();
    const storage_ref scratch =
        on.workspace(kernels::most_at_once(found->layout.images) * found->layout.scratch_elements * sizeof(float));
    std::vector<memory_access> accesses{{found->steps.memory(), access_mode::read},
                                        {numbers_.memory(), access_mode::read},
                                        {scratch.get(), access_mode::write}};
    kernels::image_call call{.steps = static_cast<const kernels::image_step*>(found->steps.memory()->data()),
                             .count = found->layout.steps.size(),
                             .numbers = static_cast<const float*>(numbers_.memory()->data()),
                             .scratch = static_cast<float*>(scratch->data()),
                             .images = found->layout.images,
                             .scratch_floats = found->layout.scratch_elements,
                             .tail = found->tail};
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
