// SPDX-License-Identifier: Apache-2.0
// cuBLAS and cuDNN handles bound to a stream. The libraries are opened at first use.
#pragma once

#include <memory>
#include <string_view>

#include "sluice/base/error.hpp"

struct CUstream_st;
struct cublasContext;
struct cudnnContext;

namespace sluice::cuda::api {

struct destroy_cublas {
    void operator()(cublasContext* handle) const noexcept;
};
struct destroy_cudnn {
    void operator()(cudnnContext* handle) const noexcept;
};
using cublas_handle = std::unique_ptr<cublasContext, destroy_cublas>;
using cudnn_handle = std::unique_ptr<cudnnContext, destroy_cudnn>;

// Create a handle on the current device. Throw errc::unsupported when the library is not installed, device_error
// otherwise.
cublas_handle create_cublas(CUstream_st* stream);
cudnn_handle create_cudnn(CUstream_st* stream);

// Directs the handle's later calls to this stream. Throws device_error.
void bind(cudnnContext* handle, CUstream_st* stream);

// Throws device_error for a cudnnStatus_t other than success.
void check_cudnn(int status, std::string_view call, const error_context& context = {});

}  // namespace sluice::cuda::api
