// SPDX-License-Identifier: Apache-2.0
// convolution on a CPU by oneDNN, with the bias fused; then the activation.
#include <algorithm>
#include <compare>
#include <map>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/onednn.hpp"

namespace sluice::kernels {
namespace {

using convolution_forward = dnnl::convolution_forward;

struct plan_key {
    convolution_form form;
    bool has_bias;
    friend auto operator<=>(const plan_key&, const plan_key&) = default;
};

template <typename... Sizes>
dnnl::memory::dims dims(Sizes... sizes) {
    return {static_cast<dnnl_dim_t>(sizes)...};
}

convolution_forward::primitive_desc describe(const plan_key& key) {
    using tag = dnnl::memory::format_tag;
    const convolution_form& form = key.form;
    const auto f32 = dnnl::memory::data_type::f32;
    const std::size_t groups = form.groups, filters = form.filters / groups, channels = form.channels / groups;
    const dnnl::memory::desc source(dims(form.images, form.channels, form.height, form.width), f32, tag::nchw);
    const dnnl::memory::desc weights =
        groups == 1 ? dnnl::memory::desc(dims(filters, channels, form.filter_height, form.filter_width), f32, tag::oihw)
                    : dnnl::memory::desc(dims(groups, filters, channels, form.filter_height, form.filter_width), f32,
                                         tag::goihw);
    const dnnl::memory::desc bias(dims(form.filters), f32, tag::x);
    const dnnl::memory::desc out(dims(form.images, form.filters, form.out_height, form.out_width), f32, tag::nchw);
    const auto strides = dims(form.stride.height, form.stride.width);
    const auto padding = dims(form.padding.height, form.padding.width);
    const auto dilates = dims(form.dilation.height - 1, form.dilation.width - 1);  // 0 is none there
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto attributes = onednn::attributes();
#if DNNL_VERSION_MAJOR >= 3
    if (!key.has_bias) {
        return {onednn::engine(), forward, direct,  source,  weights,   out,
                strides,          dilates, padding, padding, attributes};
    }
    return {onednn::engine(), forward, direct,  source,  weights,   bias, out,
            strides,          dilates, padding, padding, attributes};
#else
    if (!key.has_bias) {
        return {
            {forward, direct, source, weights, out, strides, dilates, padding, padding}, attributes, onednn::engine()};
    }
    return {{forward, direct, source, weights, bias, out, strides, dilates, padding, padding},
            attributes,
            onednn::engine()};
#endif
}

}  // namespace

std::optional<std::size_t> convolution_on_cpu_workspace_bytes(const convolution_form& form) {
    thread_local std::map<plan_key, std::optional<std::size_t>> known;
    const plan_key key{form, true};
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    if (known.size() >= onednn::kept_plans) known.clear();
    std::optional<std::size_t> bytes;
    try {
        const onednn::single_threaded here;
        // With a bias or without: the caller need not know yet.
        bytes =
            std::max(describe(key).scratchpad_desc().get_size(), describe({form, false}).scratchpad_desc().get_size());
    } catch (const dnnl::error&) {  // not done by this version: im2col does it
    }
    return known.emplace(key, bytes).first->second;
}

void convolution_on_cpu(const convolution_call& call) {
    auto& mine = onednn::of_this_thread<onednn::thread_plans<plan_key, convolution_forward>>();
    const convolution_form& form = call.form;
    const error_context context{"convolution", "cpu"};
    mine.run({form, call.bias != nullptr}, &describe, context, call.x, call.filter, call.bias, call.out,
             {static_cast<std::byte*>(call.workspace), call.workspace_bytes});
    activate_on_cpu({call.out, form.images * form.filters * form.positions()}, call.after, context);
}

}  // namespace sluice::kernels
