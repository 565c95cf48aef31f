// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/convolution.hpp"

#include <array>
#include <span>
#include <string>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

using kernels::convolution_call;
using kernels::convolution_form;
using kernels::convolution_kind;

void run_convolution(const native_stream& on, const void* closure) {
    const auto& call = *static_cast<const convolution_call*>(closure);
    if (on.kind == device_kind::cuda) {
        kernels::convolution_on_cuda(call, on);
    } else {
        kernels::convolution_on_cpu(call);
    }
}

std::string to_string(const size_2d& size) { return std::to_string(size.height) + " x " + std::to_string(size.width); }

void check_step(const size_2d& step, std::size_t least, const char* name, const error_context& context) {
    for (const std::size_t each : {step.height, step.width}) {
        if (each >= least && each <= largest_window_step) continue;
        throw error(errc::invalid_argument,
                    std::string("a ") + name + " of " + to_string(step) + "; " + std::to_string(least) + " to " +
                        std::to_string(largest_window_step) + " is possible",
                    context);
    }
}

void check_options(const convolution_options& options, const error_context& context) {
    check_step(options.stride, 1, "stride", context);
    check_step(options.padding, 0, "padding", context);
    check_step(options.dilation, 1, "dilation", context);
    if (options.groups == 0) throw error(errc::invalid_argument, "0 groups", context);
    if (options.after == activation::softmax) {
        throw error(errc::invalid_argument, "a softmax along the rows of images is no activation of theirs", context);
    }
}

void check_groups(const shape& x, const shape& filter, std::size_t groups, const error_context& context) {
    const auto refuse = [&](const std::string& why) { throw error(errc::shape_mismatch, why, context); };
    for (const std::size_t dimension : {2, 3}) {
        if (x[dimension] == 0 || filter[dimension] == 0) {
            refuse("images " + to_string(x) + " and filters " + to_string(filter) + " need pixels");
        }
    }
    if (x[1] % groups != 0 || filter[0] % groups != 0) {
        refuse(std::to_string(x[1]) + " channels and " + std::to_string(filter[0]) + " filters do not split into " +
               std::to_string(groups) + " groups");
    }
    if (x[1] / groups != filter[1]) {
        refuse("filters " + to_string(filter) + " take " + std::to_string(filter[1]) + " channels; images " +
               to_string(x) + " in " + std::to_string(groups) + " groups have " + std::to_string(x[1] / groups));
    }
}

convolution_form form_of(const shape& x, const shape& filter, const convolution_options& options,
                         const error_context& context) {
    if (x.rank() != 4 || filter.rank() != 4) {
        throw error(errc::shape_mismatch,
                    "convolves [images, channels, height, width] with [filters, channels, height, width], not " +
                        to_string(x) + " with " + to_string(filter),
                    context);
    }
    check_options(options, context);
    check_groups(x, filter, options.groups, context);
    const auto outputs = [&](std::size_t dimension, std::size_t stride, std::size_t padding, std::size_t dilation) {
        return detail::window_outputs(x[dimension], filter[dimension], stride, padding, dilation);
    };
    const convolution_form form{x[0],
                                x[1],
                                x[2],
                                x[3],
                                filter[0],
                                filter[2],
                                filter[3],
                                outputs(2, options.stride.height, options.padding.height, options.dilation.height),
                                outputs(3, options.stride.width, options.padding.width, options.dilation.width),
                                options.stride,
                                options.padding,
                                options.dilation,
                                options.groups,
                                convolution_kind::plain};
    if (form.positions() == 0) {
        throw error(errc::shape_mismatch,
                    "filters " + to_string(filter) + ", dilated by " + to_string(options.dilation) +
                        ", do not fit into images " + to_string(x) + " padded by " + to_string(options.padding),
                    context);
    }
    return form;
}

shape out_shape(const convolution_form& form) { return {form.images, form.filters, form.out_height, form.out_width}; }

std::optional<std::size_t> library_workspace_bytes(const convolution_form& form, const convolution_options& options,
                                                   device& on) {
    if (!options.use_library) return std::nullopt;
    return on.kind() == device_kind::cuda ? kernels::convolution_on_cuda_workspace_bytes(form, on)
                                          : kernels::convolution_on_cpu_workspace_bytes(form);
}

// A GPU's library does neither bias nor activation.
void convolve_by_library(stream on, convolution_call call, const tensor<float>& x, const tensor<float>& filter,
                         const tensor<float>* bias, tensor<float>& out, const source_location& location) {
    std::array<memory_access, 5> accesses{memory_access{x.memory(), access_mode::read},
                                          memory_access{filter.memory(), access_mode::read},
                                          memory_access{out.memory(), access_mode::write}};
    std::size_t count = 3;
    if (bias != nullptr) accesses[count++] = {bias->memory(), access_mode::read};
    storage_ref workspace;
    if (call.workspace_bytes != 0) {
        workspace = on.workspace(call.workspace_bytes);
        call.workspace = workspace->data();
        accesses[count++] = {workspace.get(), access_mode::write};
    }
    on.library_call({"convolution", std::span(accesses.data(), count), location},
                    detail::library_call_with(&run_convolution, call));
}

}  // namespace

shape convolved(const shape& x, const shape& filter, const convolution_options& options, source_location location) {
    return out_shape(form_of(x, filter, options, {"convolution", {}, location}));
}

std::size_t convolution_workspace_bytes(device& on, const shape& x, const shape& filter,
                                        const convolution_options& options, source_location location) {
    const convolution_form form = form_of(x, filter, options, {"convolution", on.name(), location});
    if (out_shape(form).size() == 0 || form.products() == 0) return 0;
    const auto library = library_workspace_bytes(form, options, on);
    return library ? *library : kernels::im2col_workspace_bytes(form, on.kind());
}

void convolution(stream on, const tensor<float>& x, const tensor<float>& filter, const tensor<float>* bias,
                 tensor<float>& out, const convolution_options& options, source_location location) {
    const error_context context{"convolution", on.owner().name(), location};
    const convolution_form form = form_of(x.shape(), filter.shape(), options, context);
    const shape expected = out_shape(form);
    if (bias != nullptr && bias->size() != form.filters) {
        throw error(errc::shape_mismatch,
                    "a bias of shape " + to_string(bias->shape()) + " does not fit " + std::to_string(form.filters) +
                        " filters",
                    context);
    }
    if (out.shape() != expected) {
        throw error(errc::shape_mismatch,
                    "the result is " + to_string(expected) + ", the output " + to_string(out.shape()), context);
    }
    if (out.size() == 0) return;
    if (out.memory() == x.memory() || out.memory() == filter.memory() ||
        (bias != nullptr && out.memory() == bias->memory())) {
        throw error(errc::invalid_argument, "the output is also an operand", context);
    }

    const bool has_relu = options.after == activation::relu;
    if (form.products() == 0) {  // no channels: what is left is the bias
        const float zero = 0;
        fill_elements(on, *out.memory(), out.size(), &zero, sizeof(zero), location);
        kernels::add_bias(on, form, bias, out, has_relu, location);
        if (!has_relu) activate(on, out, options.after, location);
        return;
    }
    const auto workspace_bytes = library_workspace_bytes(form, options, on.owner());
    if (!workspace_bytes) {
        kernels::convolve_by_im2col(on, form, x, filter, bias, out, has_relu, location);
    } else if (on.owner().kind() == device_kind::cpu) {
        convolve_by_library(on,
                            {x.device_data(), filter.device_data(), bias != nullptr ? bias->device_data() : nullptr,
                             out.device_data(), nullptr, *workspace_bytes, form, options.after},
                            x, filter, bias, out, location);
        return;
    } else {
        convolve_by_library(on,
                            {x.device_data(), filter.device_data(), nullptr, out.device_data(), nullptr,
                             *workspace_bytes, form, activation::none},
                            x, filter, nullptr, out, location);
        if (bias != nullptr || has_relu) kernels::add_bias(on, form, bias, out, has_relu, location);
    }
    if (!has_relu) activate(on, out, options.after, location);
}

namespace kernels {

std::optional<std::size_t> transposed_workspace_bytes(device& on, const convolution_form& form) {
    return on.kind() == device_kind::cpu ? convolution_on_cpu_workspace_bytes(form) : std::nullopt;
}

void convolve_transposed(stream on, const convolution_form& form, std::size_t workspace_bytes, const tensor<float>& x,
                         const tensor<float>& filter, const tensor<float>* bias, tensor<float>& out,
                         const source_location& location) {
    convolve_by_library(on,
                        {x.device_data(), filter.device_data(), bias != nullptr ? bias->device_data() : nullptr,
                         out.device_data(), nullptr, workspace_bytes, form, activation::none},
                        x, filter, bias, out, location);
}

}  // namespace kernels

}  // namespace sluice
