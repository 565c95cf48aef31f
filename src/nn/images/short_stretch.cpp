// SPDX-License-Identifier: Apache-2.0
#include "nn/images/short_stretch.hpp"

#include <utility>

#include "sluice/base/half.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

class short_numbers final : public number_packer {
public:
    explicit short_numbers(kernels::short_type type) : to_(type) {}

    std::size_t add_filters(const std::vector<float>& filters, const std::vector<float>& addends, std::size_t& groups,
                            std::size_t channels_of_group, const size_2d& window,
                            std::size_t shuffled_groups) override {
        const std::size_t place = to_.add_filters(filters, addends, groups, channels_of_group, window, shuffled_groups);
        if (kernels::joins_groups(groups, addends.size(), channels_of_group)) groups = 1;
        return place;
    }
    std::size_t add_transposed_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                       const size_2d& window, const size_2d& stride) override {
        return to_.add_transposed_filters(filters, addends, window, stride);
    }
    std::size_t add_channel_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                    const size_2d& window) override {
        return to_.add_channel_filters(filters, addends, window);
    }
    std::size_t add_factors(const std::vector<float>& factors, const std::vector<float>& addends) override {
        return to_.add_factors(factors, addends);
    }

    bool can_shuffle(std::size_t groups, std::size_t filters, std::size_t channels_of_group) const override {
        return groups == 1 || kernels::joins_groups(groups, filters, channels_of_group);
    }

    const kernels::batch_numbers& packed() const noexcept { return to_; }

private:
    kernels::batch_numbers to_;
};

}  // namespace

struct short_image_stretch::closure {
    const program* what;
    std::byte* scratch;
    float* outside[kernels::most_outside_images];
};

short_image_stretch::short_image_stretch(prepared_graph steps, precision what, execution_context& context)
    : image_stretch(std::move(steps)),
      on_(context.device()),
      type_(what == precision::bf16 ? kernels::short_type::bf16 : kernels::short_type::f16) {
    short_numbers numbers(type_);
    recipe_ = recipe_of(body(), numbers, image_style::together);
    is_possible_ = numbers.packed().are_finite();
    if (!is_possible_) return;
    std::vector<std::byte> bytes = numbers.packed().all();
    const std::size_t count = bytes.size();
    numbers_.emplace(upload(std::move(bytes), {count}).submit(context));
}

auto short_image_stretch::find(const std::filesystem::path& path, std::span<const any_tensor> inputs) const
    -> std::shared_ptr<const kept_program> {
    return are_f32(inputs) ? programs_.find(inputs, [&] { return make_program(path, inputs); }) : nullptr;
}

auto short_image_stretch::make_program(const std::filesystem::path& path, std::span<const any_tensor> inputs) const
    -> std::shared_ptr<const kept_program> {
    auto layout = layout_of(body(), recipe_, path, inputs, image_style::together);
    if (!layout) return nullptr;
    auto made = std::make_shared<program>(program{std::move(*layout), *numbers_, nullptr, 0, type_});
    const void* const numbers = made->numbers->memory()->data();
    if (on_.kind() == device_kind::cuda) {
        made->plan = std::make_unique<kernels::batch_plan>(on_, made->layout.steps, made->layout.images,
                                                           made->layout.scratch_elements, type_,
                                                           static_cast<const std::byte*>(numbers));
        made->scratch_bytes = made->plan->scratch_bytes();
    } else {
        made->scratch_bytes = made->layout.scratch_elements * sizeof(half);
    }
    any_tensor name = adopt_tensor(on_, io::dtype::u8, {made->numbers->size()}, numbers, made);
    return std::make_shared<kept_program>(kept_program{std::move(made), std::move(name)});
}

void short_image_stretch::run(const native_stream& on, const void* erased) {
    const auto& given = *static_cast<const closure*>(erased);
    const program& what = *given.what;
    kernels::batch_call call{.steps = what.layout.steps.data(),
                             .count = what.layout.steps.size(),
                             .numbers = static_cast<const std::byte*>(what.numbers->memory()->data()),
                             .scratch = given.scratch,
                             .images = what.layout.images,
                             .type = what.type};
    for (std::size_t i = 0; i < kernels::most_outside_images; ++i) call.outside[i] = given.outside[i];
    if (what.plan != nullptr) return what.plan->run(call, on);
    kernels::run_image_batch_on_host(call);
}

std::optional<std::vector<any_tensor>> short_image_stretch::submit(const std::filesystem::path& path,
                                                                   execution_context& context,
                                                                   std::span<const any_tensor> inputs) const {
    const auto found = find(path, inputs);
    if (found == nullptr) return {};
    const stream on = context.stream();
    const storage_ref scratch = on.workspace(found->what->scratch_bytes);
    // (The name keeps the program; the numbers are named too, since a command has written them.)
    std::vector<memory_access> accesses{{found->name.memory(), access_mode::read},
                                        {found->what->numbers->memory(), access_mode::read},
                                        {scratch.get(), access_mode::write}};
    closure call{.what = found->what.get(), .scratch = static_cast<std::byte*>(scratch->data()), .outside = {}};
    std::size_t next = 0;
    for (const any_tensor& each : inputs) {
        accesses.push_back({each.memory(), access_mode::read});
        call.outside[next++] = static_cast<float*>(each.memory()->data());
    }
    std::vector<any_tensor> outputs;
    for (const any_tensor& each : found->what->layout.outputs) {
        outputs.push_back(each.with_memory(on.allocate(each.size_bytes(), {"convolutions"})));
        accesses.push_back({outputs.back().memory(), access_mode::write});
        call.outside[next++] = static_cast<float*>(outputs.back().memory()->data());
    }
    on.library_call({"convolutions", accesses, {}}, sluice::detail::library_call_with(&run, call));
    return outputs;
}

std::string short_image_stretch::text(const std::filesystem::path& path, std::span<const any_tensor> inputs) const {
    const auto found = find(path, inputs);
    return found != nullptr && found->what->plan != nullptr ? found->what->plan->text() : std::string();
}

}  // namespace sluice::nn::detail
