// SPDX-License-Identifier: Apache-2.0
#include "kernels/image_batch/image_batch_run.hpp"

#include "cuda/api/commands.hpp"
#include "cuda/api/graph.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/early_starts.hpp"

namespace sluice::kernels {

CUfunc_st* kernel_handles::find(const launch_command& command) {
    const std::lock_guard lock(mutex_);
    CUfunc_st*& kernel = known_[command.device_function];
    if (kernel == nullptr) kernel = cuda::api::find_kernel(command.device_function, image_batch_context);
    return kernel;
}

void step_run::operator()(const image_step& step, const convolution_way& by) const {
    batch_closure closure;
    const bool is_first = &step == call_.steps;
    if (by.is_done) return;
    if (by.joined > 1) return launch(squeeze_command(call_, &step, by.joined, by.blocks, closure), is_first);
    if (by.tile) {
        const image_step* const gate = by.is_gated ? &step - 1 : nullptr;
        return launch(batch_convolution_command(call_, step, *by.tile, closure, gate), is_first);
    }
    if (by.product == nullptr && by.convolution == nullptr)
        return launch(batch_command(call_, step, closure), is_first);
    const std::byte* const filter = call_.numbers + step.numbers;
    const void* const bias = filter + filter_form_of(step).bias;
    const void* const addend = step.has_also ? at(step.also) : nullptr;
    if (by.product != nullptr) {
        libraries_.products.run(*by.product, {at(step.from), filter, bias, addend, at(step.to)}, workspace_, on_);
    } else {
        libraries_.convolutions.run(*by.convolution, {at(step.from), filter, bias, addend, at(step.to)}, workspace_,
                                    on_);
    }
    if (by.ends_apart) return launch(batch_end_command(call_, step, closure), is_first);
    if (step.curve || (step.has_bounds && !has_relu(step)))
        launch(batch_bounds_command(call_, step, closure), is_first);
}

// What is before the first step is not known.
void step_run::launch(const launch_command& command, bool is_first) const {
    if (command.grid.x == 0) return;
    launch_command made = command;
    made.early_start = cuda::early_starts::are_possible() && !is_first;
    cuda::api::launch(kernels_.find(command), made, on_, image_batch_context);
}

}  // namespace sluice::kernels
