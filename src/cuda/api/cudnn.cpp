// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/cudnn.hpp"

#include "cuda/api/shared_library.hpp"

namespace sluice::cuda::api {
namespace {

cudnn_functions load_cudnn() {
    const shared_library library("cudnn", CUDNN_MAJOR);
    cudnn_functions all{};
    library.find(all.create_tensor, "cudnnCreateTensorDescriptor");
    library.find(all.destroy_tensor, "cudnnDestroyTensorDescriptor");
    library.find(all.set_tensor, "cudnnSetTensor4dDescriptor");
    library.find(all.create_filter, "cudnnCreateFilterDescriptor");
    library.find(all.destroy_filter, "cudnnDestroyFilterDescriptor");
    library.find(all.set_filter, "cudnnSetFilter4dDescriptor");
    library.find(all.create_convolution, "cudnnCreateConvolutionDescriptor");
    library.find(all.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
    library.find(all.set_convolution, "cudnnSetConvolution2dDescriptor");
    library.find(all.set_groups, "cudnnSetConvolutionGroupCount");
    library.find(all.set_math, "cudnnSetConvolutionMathType");
    library.find(all.find_algorithms, "cudnnGetConvolutionForwardAlgorithm_v7");
    library.find(all.workspace_size, "cudnnGetConvolutionForwardWorkspaceSize");
    library.find(all.convolve, "cudnnConvolutionForward");
    library.find(all.create_pooling, "cudnnCreatePoolingDescriptor");
    library.find(all.destroy_pooling, "cudnnDestroyPoolingDescriptor");
    library.find(all.set_pooling, "cudnnSetPooling2dDescriptor");
    library.find(all.pool, "cudnnPoolingForward");
    library.find(all.create_descriptor, "cudnnBackendCreateDescriptor");
    library.find(all.destroy_descriptor, "cudnnBackendDestroyDescriptor");
    library.find(all.set_attribute, "cudnnBackendSetAttribute");
    library.find(all.get_attribute, "cudnnBackendGetAttribute");
    library.find(all.finalize, "cudnnBackendFinalize");
    library.find(all.execute, "cudnnBackendExecute");
    return all;
}

}  // namespace

const cudnn_functions& cudnn_functions::get() {
    static const cudnn_functions all = load_cudnn();
    return all;
}

}  // namespace sluice::cuda::api
