// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn_library.hpp"

#include <array>
#include <map>
#include <mutex>

#include "cuda/api/cudnn.hpp"
#include "cuda/api/handles.hpp"
#include "cuda/api/runtime.hpp"

namespace sluice::cuda {
namespace {

using api::check_cudnn;
using api::cudnn_functions;

// A descriptor and the function that destroys it.
template <typename Descriptor, auto Destroy>
struct destroy_descriptor {
    using pointer = Descriptor;
    void operator()(Descriptor d) const noexcept { static_cast<void>((cudnn_functions::get().*Destroy)(d)); }
};
template <typename Descriptor, auto Destroy>
using descriptor = std::unique_ptr<Descriptor, destroy_descriptor<Descriptor, Destroy>>;

using tensor_descriptor = descriptor<cudnnTensorDescriptor_t, &cudnn_functions::destroy_tensor>;
using filter_descriptor = descriptor<cudnnFilterDescriptor_t, &cudnn_functions::destroy_filter>;
using convolution_descriptor = descriptor<cudnnConvolutionDescriptor_t, &cudnn_functions::destroy_convolution>;
using pooling_descriptor = descriptor<cudnnPoolingDescriptor_t, &cudnn_functions::destroy_pooling>;

template <typename Owned, typename Create>
Owned make(Create create, const char* call) {
    typename Owned::pointer made = nullptr;
    check_cudnn(create(&made), call);
    return Owned(made);
}

tensor_descriptor make_tensor(int images, int channels, int height, int width) {
    const auto& cudnn = cudnn_functions::get();
    auto made = make<tensor_descriptor>(cudnn.create_tensor, "cudnnCreateTensorDescriptor");
    check_cudnn(cudnn.set_tensor(made.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, channels, height, width),
                "cudnnSetTensor4dDescriptor");
    return made;
}

filter_descriptor make_filter(const cudnn_convolution& form) {
    const auto& cudnn = cudnn_functions::get();
    auto made = make<filter_descriptor>(cudnn.create_filter, "cudnnCreateFilterDescriptor");
    check_cudnn(cudnn.set_filter(made.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, form.filters, form.filter_channels,
                                 form.filter_height, form.filter_width),
                "cudnnSetFilter4dDescriptor");
    return made;
}

convolution_descriptor make_convolution(const cudnn_convolution& form) {
    const auto& cudnn = cudnn_functions::get();
    auto made = make<convolution_descriptor>(cudnn.create_convolution, "cudnnCreateConvolutionDescriptor");
    check_cudnn(
        cudnn.set_convolution(made.get(), form.padding_down, form.padding_across, form.stride_down, form.stride_across,
                              form.dilation_down, form.dilation_across, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
    check_cudnn(cudnn.set_groups(made.get(), form.groups), "cudnnSetConvolutionGroupCount");
    // Plain f32 arithmetic: by default it would be tf32.
    check_cudnn(cudnn.set_math(made.get(), CUDNN_FMA_MATH), "cudnnSetConvolutionMathType");
    return made;
}

struct convolution_plan {
    tensor_descriptor x;
    filter_descriptor filter;
    convolution_descriptor convolution;
    tensor_descriptor out;
    cudnnConvolutionFwdAlgo_t algorithm{};
    std::size_t workspace_bytes = 0;
};

struct pooling_plan {
    tensor_descriptor x;
    pooling_descriptor pooling;
    tensor_descriptor out;
};

// Algorithms whose outputs depend only on their own windows, exact to the last few bits: a NaN or an infinity does not
// leave its windows.
bool keeps_windows_apart(cudnnConvolutionFwdAlgo_t algorithm) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
}

constexpr std::size_t largest_workspace_bytes = std::size_t{64} << 20;

// Null when there is no suitable algorithm.
std::unique_ptr<convolution_plan> plan_convolution(cudnnHandle_t handle, const cudnn_convolution& form) {
    const auto& cudnn = cudnn_functions::get();
    auto made = std::make_unique<convolution_plan>();
    made->x = make_tensor(form.images, form.channels, form.height, form.width);
    made->filter = make_filter(form);
    made->convolution = make_convolution(form);
    made->out = make_tensor(form.images, form.filters, form.out_height, form.out_width);

    // cuDNN's order, best first by its heuristics, without trial runs.
    std::array<cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> known{};
    int count = 0;
    check_cudnn(cudnn.find_algorithms(handle, made->x.get(), made->filter.get(), made->convolution.get(),
                                      made->out.get(), static_cast<int>(known.size()), &count, known.data()),
                "cudnnGetConvolutionForwardAlgorithm_v7");
    for (int i = 0; i < count; ++i) {
        const auto& each = known[static_cast<std::size_t>(i)];
        if (each.status != CUDNN_STATUS_SUCCESS || !keeps_windows_apart(each.algo)) continue;
        std::size_t bytes = 0;
        const auto status = cudnn.workspace_size(handle, made->x.get(), made->filter.get(), made->convolution.get(),
                                                 made->out.get(), each.algo, &bytes);
        if (status != CUDNN_STATUS_SUCCESS || bytes > largest_workspace_bytes) continue;
        made->algorithm = each.algo;
        made->workspace_bytes = bytes;
        return made;
    }
    return nullptr;
}

std::unique_ptr<pooling_plan> plan_pooling(const cudnn_pooling& form) {
    const auto& cudnn = cudnn_functions::get();
    auto made = std::make_unique<pooling_plan>();
    made->x = make_tensor(form.images, form.channels, form.height, form.width);
    made->pooling = make<pooling_descriptor>(cudnn.create_pooling, "cudnnCreatePoolingDescriptor");
    const cudnnPoolingMode_t mode =
        form.counts_padding ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    check_cudnn(cudnn.set_pooling(made->pooling.get(), mode, CUDNN_PROPAGATE_NAN, form.window_down, form.window_across,
                                  form.padding_down, form.padding_across, form.stride_down, form.stride_across),
                "cudnnSetPooling2dDescriptor");
    made->out = make_tensor(form.images, form.channels, form.out_height, form.out_width);
    return made;
}

}  // namespace

struct cudnn_library::state {
    int ordinal;
    api::cudnn_handle handle;
    std::mutex mutex;                                                             // guards the handle and the plans
    std::map<cudnn_convolution, std::unique_ptr<convolution_plan>> convolutions;  // null: not supported
    std::map<cudnn_pooling, std::unique_ptr<pooling_plan>> poolings;

    // A form that cuDNN refuses to plan (device_error) counts as unsupported; other implementations run it.
    template <typename Plans, typename Form, typename MakePlan>
    static auto* plan_for(Plans& plans, const Form& form, MakePlan make_plan) {
        const auto known = plans.find(form);
        if (known != plans.end()) return known->second.get();
        typename Plans::mapped_type made;
        try {
            made = make_plan();
        } catch (const device_error&) {
        }
        return plans.emplace(form, std::move(made)).first->second.get();
    }
    convolution_plan* plan_of(const cudnn_convolution& form) {
        return plan_for(convolutions, form, [&] { return plan_convolution(handle.get(), form); });
    }
    pooling_plan* plan_of(const cudnn_pooling& form) {
        return plan_for(poolings, form, [&] { return plan_pooling(form); });
    }
};

cudnn_library::cudnn_library(int ordinal) try {
    static_cast<void>(cudnn_functions::get());
    const api::device_scope scope(ordinal);
    auto made = std::make_unique<state>();
    made->ordinal = ordinal;
    made->handle = api::create_cudnn(nullptr);
    state_ = std::move(made);
} catch (const error& refusal) {
    if (refusal.code() != errc::unsupported) throw;
}

cudnn_library::~cudnn_library() = default;

std::optional<std::size_t> cudnn_library::workspace_bytes(const cudnn_convolution& form) {
    if (!state_) return std::nullopt;
    const std::lock_guard lock(state_->mutex);
    const api::device_scope scope(state_->ordinal);
    const convolution_plan* const plan = state_->plan_of(form);
    if (plan == nullptr) return std::nullopt;
    return plan->workspace_bytes;
}

bool cudnn_library::can_pool(const cudnn_pooling& form) {
    if (!state_) return false;
    const std::lock_guard lock(state_->mutex);
    return state_->plan_of(form) != nullptr;
}

void cudnn_library::convolve(const cudnn_convolution& form, const float* x, const float* filter, float* out,
                             void* workspace, std::size_t workspace_bytes, CUstream_st* stream) {
    const std::lock_guard lock(state_->mutex);
    const convolution_plan& plan = *state_->plan_of(form);
    api::bind(state_->handle.get(), stream);
    const float one = 1;
    const float zero = 0;
    check_cudnn(cudnn_functions::get().convolve(state_->handle.get(), &one, plan.x.get(), x, plan.filter.get(), filter,
                                                plan.convolution.get(), plan.algorithm, workspace, workspace_bytes,
                                                &zero, plan.out.get(), out),
                "cudnnConvolutionForward", {"convolution"});
}

void cudnn_library::pool(const cudnn_pooling& form, const float* x, float* out, CUstream_st* stream) {
    const std::lock_guard lock(state_->mutex);
    const pooling_plan& plan = *state_->plan_of(form);
    api::bind(state_->handle.get(), stream);
    const float one = 1;
    const float zero = 0;
    check_cudnn(cudnn_functions::get().pool(state_->handle.get(), plan.pooling.get(), &one, plan.x.get(), x, &zero,
                                            plan.out.get(), out),
                "cudnnPoolingForward", {"pooling"});
}

}  // namespace sluice::cuda
