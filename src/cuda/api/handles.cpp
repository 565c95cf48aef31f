// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/handles.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>

#include "cuda/api/cublaslt.hpp"
#include "cuda/api/log_text.hpp"
#include "cuda/api/shared_library.hpp"

namespace sluice::cuda::api {
namespace {

struct cublas_functions {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasDestroy_v2) destroy;
    decltype(&cublasSetStream_v2) set_stream;

    static const cublas_functions& get() {
        static const cublas_functions all = [] {
            const shared_library library("cublas", CUDART_VERSION / 1000);
            cublas_functions found{};
            library.find(found.create, "cublasCreate_v2");
            library.find(found.destroy, "cublasDestroy_v2");
            library.find(found.set_stream, "cublasSetStream_v2");
            return found;
        }();
        return all;
    }
};

// cuDNN's header is not part of the CUDA toolkit. These functions have been stable since version 1.
struct cudnn_handle_functions {
    int (*create)(cudnnContext**);
    int (*destroy)(cudnnContext*);
    int (*set_stream)(cudnnContext*, CUstream_st*);
    const char* (*describe)(int);
    void (*describe_last)(char*, std::size_t);  // since version 9; null before

    static const cudnn_handle_functions& get() {
        static const cudnn_handle_functions all = [] {
            const shared_library library("cudnn", 9);
            cudnn_handle_functions found{};
            library.find(found.create, "cudnnCreate");
            library.find(found.destroy, "cudnnDestroy");
            library.find(found.set_stream, "cudnnSetStream");
            library.find(found.describe, "cudnnGetErrorString");
            library.find_if_there(found.describe_last, "cudnnGetLastErrorString");
            return found;
        }();
        return all;
    }
};

class cudnn_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "cudnn"; }
    // An error exists only where the library is open.
    std::string message(int code) const override {
        return cudnn_handle_functions::get().describe(code) + (" (status " + std::to_string(code) + ")");
    }
};

}  // namespace

void check_cudnn(int status, std::string_view call, const error_context& context) {
    if (status == 0) return;
    static const cudnn_category category;
    std::array<char, 1024> details{};  // of this thread's last error
    const auto describe_last = cudnn_handle_functions::get().describe_last;
    if (describe_last != nullptr) describe_last(details.data(), details.size() - 1);
    throw device_error({status, category}, failed_call(call, details.data()), context);
}

void destroy_cublas::operator()(cublasContext* handle) const noexcept {
    static_cast<void>(cublas_functions::get().destroy(handle));
}

void destroy_cudnn::operator()(cudnnContext* handle) const noexcept {
    static_cast<void>(cudnn_handle_functions::get().destroy(handle));
}

cublas_handle create_cublas(CUstream_st* stream) {
    const auto& cublas = cublas_functions::get();
    cublasHandle_t made = nullptr;
    check(cublas.create(&made), "cublasCreate");
    cublas_handle owned(made);
    check(cublas.set_stream(made, stream), "cublasSetStream");
    return owned;
}

cudnn_handle create_cudnn(CUstream_st* stream) {
    const auto& cudnn = cudnn_handle_functions::get();
    cudnnContext* made = nullptr;
    check_cudnn(cudnn.create(&made), "cudnnCreate");
    cudnn_handle owned(made);
    bind(made, stream);
    return owned;
}

void bind(cudnnContext* handle, CUstream_st* stream) {
    check_cudnn(cudnn_handle_functions::get().set_stream(handle, stream), "cudnnSetStream");
}

}  // namespace sluice::cuda::api
