// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN that convolution and pooling call, loaded at first use. For builds that have its header.
#pragma once

#include <cudnn.h>

#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

struct cudnn_functions {
    decltype(&cudnnCreateTensorDescriptor) create_tensor;
    decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
    decltype(&cudnnSetTensor4dDescriptor) set_tensor;
    decltype(&cudnnCreateFilterDescriptor) create_filter;
    decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
    decltype(&cudnnSetFilter4dDescriptor) set_filter;
    decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
    decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
    decltype(&cudnnSetConvolution2dDescriptor) set_convolution;
    decltype(&cudnnSetConvolutionGroupCount) set_groups;
    decltype(&cudnnSetConvolutionMathType) set_math;
    decltype(&cudnnGetConvolutionForwardAlgorithm_v7) find_algorithms;
    decltype(&cudnnGetConvolutionForwardWorkspaceSize) workspace_size;
    decltype(&cudnnConvolutionForward) convolve;
    decltype(&cudnnCreatePoolingDescriptor) create_pooling;
    decltype(&cudnnDestroyPoolingDescriptor) destroy_pooling;
    decltype(&cudnnSetPooling2dDescriptor) set_pooling;
    decltype(&cudnnPoolingForward) pool;
    // Graphs of operations, which become one kernel.
    decltype(&cudnnBackendCreateDescriptor) create_descriptor;
    decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
    decltype(&cudnnBackendSetAttribute) set_attribute;
    decltype(&cudnnBackendGetAttribute) get_attribute;
    decltype(&cudnnBackendFinalize) finalize;
    decltype(&cudnnBackendExecute) execute;

    // Opens the library on first use. Throws errc::unsupported.
    static const cudnn_functions& get();
};

}  // namespace sluice::cuda::api
